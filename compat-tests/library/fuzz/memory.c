/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's memory: registered regions in an arena. The value of each byte is known, so a wrong write is found by comparing.
 * Bytes outside of regions are poisoned, so the sanitizer finds a wrong read. And the program's posts of this memory, which are
 * posts that VipPostSend and VipPostRecv accept.
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

/* These functions read poisoned memory, and so often that counting their branches would take most of the time. */
#define UNWATCHED __attribute__((no_sanitize("address", "undefined", "coverage")))

/* Finds the range [first, end) of the arena's bytes that have changed. False when there are none. */
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

/* ---- posts ---- */

/* Where a segment lies, in relation to its region. */
enum shape { WHOLE, PART_OF_IT, PAST_ITS_END, ANYWHERE };

static bool make_segment(const struct vi *vi, struct input *input, bool is_bounded, struct segment *segment)
{
	uint8_t flags = take8(input);
	const struct region *region = &world.regions[flags % REGIONS];
	enum shape shape = flags >> 6;
	uint32_t offset = 0;

	if (!region->device || region->domain != vi->domain)
		return false;
	segment->key = region->key;
	segment->length = region->length;
	if (shape != WHOLE) {
		offset = take16(input) % region->length;
		segment->length = take_length(input);
	}
	segment->address = (uintptr_t)region->start + offset;
	if (shape == ANYWHERE && !is_bounded)
		segment->address = flags & 8 ? take64(input) : (uintptr_t)region->start - take8(input);
	if (is_bounded || shape == PART_OF_IT) {
		if (segment->length > region->length - offset)
			segment->length = region->length - offset;
	}
	return segment->length;
}

/* Repeats the segments, so that there are too many to be published. */
static void repeat(struct work *work, uint32_t room)
{
	for (unsigned i = 0; work->count && work->count < SEGMENTS_MOST && work->length < room; i++) {
		struct segment *segment = &work->segments[work->count];

		*segment = work->segments[i];
		if (segment->length > room - work->length)
			segment->length = room - work->length;
		work->length += segment->length;
		work->count++;
	}
}

/* Makes up to `most` segments of at most `room` bytes. If the input asks for `most`, it repeats them. */
static void make_work(const struct vi *vi, struct input *input, bool is_bounded, unsigned most, uint32_t room,
		      struct work *work)
{
	unsigned wanted = take_below(input, most + 1), count = wanted;

	work->count = 0;
	work->length = 0;
	while (count-- && work->length < room) {
		struct segment *segment = &work->segments[work->count];

		if (!make_segment(vi, input, is_bounded, segment))
			continue;
		if (segment->length > room - work->length)
			segment->length = room - work->length;
		work->length += segment->length;
		work->count++;
	}
	if (wanted == most)
		repeat(work, room);
}

void post_receive(struct vi *vi, struct input *input)
{
	unsigned times = take8(input);
	struct work work = {0};

	make_work(vi, input, false, LANE_SEGMENTS, TRANSFER_MOST, &work);
	if (vi->state != VI_PREPARED && vi->state != VI_LINKED)
		return;
	times = times < 0xE0 ? 1 : (times - 0xDF) * 32;
	workqueue_lock(&vi->receive);
	for (; times-- && work_count(&vi->receive) < WORK_MOST; vi->receive.tail++) {
		*work_at(&vi->receive, vi->receive.tail) = work;
		check(!world.device->ops->post_receive(vi->endpoint, work.segments, work.count));
	}
	workqueue_unlock(&vi->receive);
}

/* Sets the target of an RDMA operation: an entry of the peer's table, or anywhere. */
static void aim(const struct vi *vi, struct input *input, struct device_send *send)
{
	uint8_t flags = take8(input);
	const struct region_entry *entry = &vi->peer.table->entries[flags & 7];

	send->remote_handle = flags & 64 ? take32(input) : atomic_load(&entry->handle);
	send->remote_address = flags & 128 ? take64(input) : atomic_load(&entry->start);
	if (flags & 32)
		send->remote_address += take16(input);
}

void post_send(struct vi *vi, struct input *input)
{
	uint8_t flags = take8(input);
	struct device_send send = {.control = (flags & 3) % 3, .immediate = flags};
	unsigned times = flags & 8 ? take8(input) : 1;
	struct work work = {.operation = (flags & 3) % 3, .immediate = flags & 4};
	bool is_rdma = work.operation != VIP_CONTROL_OP_SENDRECV;

	if (vi->state != VI_LINKED)
		return;
	make_work(vi, input, true, is_rdma ? LANE_SEGMENTS - 1 : LANE_SEGMENTS, TRANSFER_MOST, &work);
	if (is_rdma)
		aim(vi, input, &send);
	if (work.length > endpoint_of(vi)->own.max_transfer)
		return;
	if (endpoint_of(vi)->own.reliability == VIP_SERVICE_UNRELIABLE && work.operation == VIP_CONTROL_OP_RDMAREAD)
		return;
	send.control |= work.immediate ? VIP_CONTROL_IMMEDIATE : 0;
	send.segments = work.segments;
	send.count = work.count;
	send.length = work.length;
	workqueue_lock(&vi->send);
	while (times-- && work_count(&vi->send) < SENDS_MOST) {
		*work_at(&vi->send, vi->send.tail++) = work; /* before it is posted: it may complete at once */
		if (world.device->ops->post_send(vi->endpoint, &send)) {
			vi->send.tail--;
			break;
		}
	}
	workqueue_unlock(&vi->send);
	memory_check();
}
