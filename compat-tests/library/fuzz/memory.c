/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's memory: registered regions in an arena. The value of each byte is known, so a wrong
 * write is found by comparing. Bytes outside of regions are poisoned, so the sanitizer finds a
 * wrong read.
 */
#include <sanitizer/asan_interface.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"

/* Words, since they are compared after each step. */
static _Alignas(4096) uint64_t arena[ARENA_SIZE / 8], expected[ARENA_SIZE / 8];
static uint8_t differs[ARENA_SIZE];
static uint8_t *fixed; /* memory that cannot be written */

static void poison(void)
{
	ASAN_POISON_MEMORY_REGION(arena, ARENA_SIZE);
	for (unsigned i = 0; i < REGIONS; i++)
		if (world.regions[i].device && world.regions[i].start != fixed)
			ASAN_UNPOISON_MEMORY_REGION(world.regions[i].start, world.regions[i].length);
}

void memory_reset(void)
{
	if (!fixed) {
		fixed = mmap(NULL, FIXED_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(fixed != MAP_FAILED);
	}
	ASAN_UNPOISON_MEMORY_REGION(arena, ARENA_SIZE);
	memset(arena, 0xA5, ARENA_SIZE);
	memset(expected, 0xA5, ARENA_SIZE);
	poison();
}

void memory_register(struct region *region, struct input *input)
{
	uint8_t flags = take8(input);
	uint32_t offset = take16(input) * 8u % ARENA_SIZE, length = take_length(input);
	uint32_t handle;

	if (region->device)
		return;
	region->rights = (struct region_rights){flags & 1, flags & 2};
	region->domain = flags >> 2 & 1 ? 1 : 0;
	if (flags & 8) {
		region->start = fixed;
		length %= FIXED_SIZE + 1;
	} else {
		region->start = (uint8_t *)arena + offset;
		if (length > ARENA_SIZE - offset)
			length = ARENA_SIZE - offset;
	}
	region->read_only = false;
	region->length = length ? length : 1; /* libvipl/api refuses a length of 0 */
	region->device = world.device->ops->region_create(world.domains[region->domain], region->start, region->length,
							  region->rights, &handle, &region->key, &region->read_only);
	/* The device may refuse one kind of region: read-only memory that peers shall write. */
	check(region->device || (flags & 8 && region->rights.rdma_write));
	if (region->device)
		check(handle && handle != UINT32_MAX);
	poison();
}

void memory_deregister(struct region *region)
{
	if (!region->device)
		return;
	world.device->ops->region_destroy(region->device);
	region->device = NULL;
	poison();
}

const struct region *memory_find(uint32_t key, uint32_t domain)
{
	for (unsigned i = 0; i < REGIONS; i++)
		if (world.regions[i].device && world.regions[i].key == key && world.regions[i].domain == domain)
			return &world.regions[i];
	return NULL;
}

/*
 * These functions read poisoned memory. They run so often that counting their branches would take
 * most of the time.
 */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined", "coverage")))

/*
 * Finds the range [first, end) of the arena's bytes that have changed. False when there are none.
 */
UNWATCHED static bool find_changes(size_t *first, size_t *end)
{
	size_t low = 0, high = ARENA_SIZE / 8;

	while (low < high && arena[low] == expected[low])
		low++;
	if (low == high)
		return false;
	while (arena[high - 1] == expected[high - 1])
		high--;
	*first = low * 8;
	*end = high * 8;
	for (size_t i = *first; i < *end; i++)
		differs[i] = ((const volatile uint8_t *)arena)[i] != ((uint8_t *)expected)[i];
	for (size_t i = low; i < high; i++)
		expected[i] = ((const volatile uint64_t *)arena)[i];
	return true;
}

/* Allows a change of these bytes. */
static void allow(uint64_t address, uint64_t length, size_t first, size_t end)
{
	uint64_t start = address - (uintptr_t)arena;

	if (address < (uintptr_t)arena || start >= end)
		return;
	if (start + length < end)
		end = start + length;
	if (start < first)
		start = first;
	if (start < end)
		memset(differs + start, 0, end - start);
}

static void allow_segment(const struct vi *vi, const struct segment *segment, size_t first, size_t end)
{
	const struct region *region = memory_find(segment->key, vi->domain);
	uint64_t start = segment->address, stop = start + segment->length, region_start;

	if (!region || stop < start)
		return;
	region_start = (uintptr_t)region->start;
	if (start < region_start)
		start = region_start;
	if (stop > region_start + region->length)
		stop = region_start + region->length;
	if (start < stop)
		allow(start, stop - start, first, end);
}

/* Allows changes by every descriptor that was under way in this queue since the last check. */
static void allow_queue(struct workqueue *queue, size_t first, size_t end)
{
	for (uint32_t i = queue->checked; i != queue->tail; i++) {
		const struct work *work = work_at(queue, i);

		if (queue->is_receive || work->operation == VIP_CONTROL_OP_RDMAREAD)
			for (unsigned s = 0; s < work->count; s++)
				allow_segment(queue->vi, &work->segments[s], first, end);
	}
}

static void allow_rdma(const struct vi *vi, size_t first, size_t end)
{
	if (vi->state != VI_LINKED || !endpoint_of(vi)->own.rights.rdma_write)
		return;
	for (unsigned i = 0; i < REGIONS; i++) {
		const struct region *region = &world.regions[i];

		if (region->device && region->domain == vi->domain && region->rights.rdma_write)
			allow((uintptr_t)region->start, region->length, first, end);
	}
}

void memory_check(void)
{
	bool changed;
	size_t first, end;

	changed = find_changes(&first, &end);
	for (unsigned i = 0; i < VIS; i++) {
		struct vi *vi = &world.vis[i];

		if (changed && vi->endpoint) {
			allow_rdma(vi, first, end);
			allow_queue(&vi->receive, first, end);
			allow_queue(&vi->send, first, end);
		}
		vi->receive.checked = vi->receive.head;
		vi->send.checked = vi->send.head;
	}
	for (size_t i = first; changed && i < end; i++)
		check(!differs[i]);
}
