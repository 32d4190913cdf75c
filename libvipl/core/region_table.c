/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table from memory handle to region: open addressing, linear probing, at most half full.
 * A look-up copies the slot that it finds, and starts again if a writer was active meanwhile. A table that is too small is
 * replaced by one of twice the size. It stays allocated until the NIC is closed, because a look-up may still be in it. All
 * earlier tables together are smaller than the last one.
 */
#include "region_table.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "base/cause.h"
#include "base/futex.h"

#define FIRST_SLOTS   64u
#define FIRST_VERSION 2u
#define YIELDS	      16u /* to a writer, before a search sleeps a little */

struct slot {
	_Atomic uint32_t handle; /* 0: free */
	_Atomic uint32_t key;
	_Atomic bool read_only;
	_Atomic uintptr_t start;
	_Atomic size_t length;
	struct device_domain *_Atomic domain;
	struct region *region; /* for writers only */
};

struct region_slots {
	struct region_slots *outgrown;
	unsigned count;
	struct slot slots[];
};

static inline unsigned home(const struct region_slots *slots, uint32_t handle)
{
	return (handle * UINT32_C(2654435769) >> 7) & (slots->count - 1);
}

#define get(field)	  atomic_load_explicit(&(field), memory_order_relaxed)
#define set(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

/* The handle's slot, or the free one where it would be. */
static struct slot *probe(struct region_slots *slots, uint32_t handle)
{
	for (unsigned i = home(slots, handle);; i = (i + 1) & (slots->count - 1)) {
		uint32_t there = get(slots->slots[i].handle);

		if (there == handle || !there)
			return &slots->slots[i];
	}
}

const struct region_view *region_table_search(struct region_table *table, uint32_t handle,
					      struct region_hint *hint)
{
	struct region_view *view = &hint->view;
	unsigned tries = 0;

	hint->version = 0;
	for (;;) {
		uint32_t version = atomic_load_explicit(&table->version, memory_order_acquire);
		struct region_slots *slots =
			atomic_load_explicit(&table->slots, memory_order_acquire);
		const struct slot *slot;
		bool found;

		if (!slots || !handle)
			return NULL;
		slot = probe(slots, handle);
		found = get(slot->handle) == handle;
		view->key = get(slot->key);
		view->read_only = get(slot->read_only);
		view->start = get(slot->start);
		view->length = get(slot->length);
		view->domain = get(slot->domain);
		/* The loads above come before this one: litmus/region_search. */
		atomic_thread_fence(memory_order_acquire);
		if (!(version & 1) && get(table->version) == version) {
			if (!found)
				return NULL;
			hint->handle = handle;
			hint->version = version;
			return view;
		}
		/* The writer may have a lower priority, and wait for this processor. */
		if (++tries % YIELDS)
			sched_yield();
		else
			futex_rest(50000);
	}
}

void region_table_init(struct region_table *table)
{
	*table = (struct region_table){.version = FIRST_VERSION};
}

static void begin_write(struct region_table *table)
{
	set(table->version, get(table->version) + 1);
	/* A look-up that sees a store behind the fence sees this version in its second look: litmus/region_search. */
	atomic_thread_fence(memory_order_release);
}

static void end_write(struct region_table *table)
{
	uint32_t version = get(table->version) + 1;

	atomic_store_explicit(&table->version, version ? version : FIRST_VERSION,
			      memory_order_release);
}

static void copy_slot(struct slot *to, const struct slot *from)
{
	set(to->key, get(from->key));
	set(to->read_only, get(from->read_only));
	set(to->start, get(from->start));
	set(to->length, get(from->length));
	set(to->domain, get(from->domain));
	to->region = from->region;
	set(to->handle, get(from->handle));
}

static void set_view(struct slot *slot, const struct region_view *view)
{
	set(slot->key, view->key);
	set(slot->read_only, view->read_only);
	set(slot->start, view->start);
	set(slot->length, view->length);
	set(slot->domain, view->domain);
}

static int grow_table(struct region_table *table)
{
	struct region_slots *old = get(table->slots), *slots;
	unsigned count = old ? old->count * 2 : FIRST_SLOTS;

	slots = zeroed(1, sizeof(*slots) + count * sizeof(slots->slots[0]));
	if (!slots)
		return ENOMEM;
	slots->count = count;
	slots->outgrown = old;
	for (unsigned i = 0; old && i < old->count; i++)
		if (get(old->slots[i].handle))
			copy_slot(probe(slots, get(old->slots[i].handle)), &old->slots[i]);
	atomic_store_explicit(&table->slots, slots, memory_order_release);
	return 0;
}

int region_table_insert(struct region_table *table, uint32_t handle, struct region *region)
{
	struct region_slots *slots = get(table->slots);
	struct slot *slot;

	if (!slots || 2 * (table->used + 1) > slots->count) {
		if (grow_table(table))
			return ENOMEM;
		slots = get(table->slots);
	}
	slot = probe(slots, handle);
	if (get(slot->handle))
		return EEXIST;
	begin_write(table);
	set_view(slot, &region->view);
	slot->region = region;
	set(slot->handle, handle);
	end_write(table);
	table->used++;
	return 0;
}

/* Empties a slot and moves up those behind it that would no longer be found. */
static void empty_slot(struct region_table *table, struct slot *slot)
{
	struct region_slots *slots = get(table->slots);
	unsigned mask = slots->count - 1, hole = (unsigned)(slot - slots->slots);

	begin_write(table);
	for (unsigned i = (hole + 1) & mask; get(slots->slots[i].handle); i = (i + 1) & mask) {
		unsigned wanted = home(slots, get(slots->slots[i].handle));

		if (((i - wanted) & mask) >= ((i - hole) & mask)) {
			copy_slot(&slots->slots[hole], &slots->slots[i]);
			hole = i;
		}
	}
	set(slots->slots[hole].handle, 0);
	end_write(table);
	table->used--;
}

/* The slot of a region that is there, or NULL. */
static struct slot *slot_of(const struct region_table *table, uint32_t handle, const void *address)
{
	struct region_slots *slots = get(table->slots);
	struct slot *slot;

	if (!slots || !handle)
		return NULL;
	slot = probe(slots, handle);
	return get(slot->handle) && slot->region->view.start == (uintptr_t)address ? slot : NULL;
}

struct region *region_table_get(const struct region_table *table, uint32_t handle,
				const void *address)
{
	struct slot *slot = slot_of(table, handle, address);

	return slot ? slot->region : NULL;
}

void region_table_update(struct region_table *table, uint32_t handle,
			 const struct region_view *view)
{
	struct slot *slot = probe(get(table->slots), handle);

	begin_write(table);
	set_view(slot, view);
	end_write(table);
}

struct region *region_table_remove(struct region_table *table, uint32_t handle, const void *address)
{
	struct slot *slot = slot_of(table, handle, address);
	struct region *region;

	if (!slot)
		return NULL;
	region = slot->region;
	empty_slot(table, slot);
	return region;
}

struct region *region_table_remove_any(struct region_table *table)
{
	struct region_slots *slots = get(table->slots);

	for (unsigned i = 0; slots && table->used && i < slots->count; i++) {
		struct region *region = slots->slots[i].region;

		if (!get(slots->slots[i].handle))
			continue;
		empty_slot(table, &slots->slots[i]);
		return region;
	}
	return NULL;
}

void region_table_destroy(struct region_table *table)
{
	struct region_slots *slots = get(table->slots), *outgrown;

	for (; slots; slots = outgrown) {
		outgrown = slots->outgrown;
		free(slots);
	}
}
