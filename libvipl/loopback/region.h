/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking up registered memory, in our own table of regions or a peer's. */
#ifndef VIPL_LOOPBACK_REGION_H
#define VIPL_LOOPBACK_REGION_H

#include "loopback.h"

/*
 * The number of bytes, `length` at most, that the region has from this address on. 0 if there is no such region, or it is of
 * another domain, or does not give these rights.
 */
static inline uint32_t region_room(const struct region_entries *entries, uint32_t handle,
				   uint32_t domain, uint32_t rights, uint64_t address,
				   uint32_t length)
{
	const struct region_entry *entry = &entries->entries[handle & (TABLE_REGIONS - 1)];
	uint64_t start, room;

	if (!handle || atomic_load_explicit(&entry->handle, memory_order_acquire) != handle)
		return 0;
#define get(member) atomic_load_explicit(&entry->member, memory_order_relaxed)
	if (get(domain) != domain || (get(rights) & rights) != rights)
		return 0;
	start = get(start);
	room = get(length);
	/* An entry that is used for another region changes its handle first: litmus/region_entry. */
	atomic_thread_fence(memory_order_acquire);
	if (get(handle) != handle || address < start || address - start > room)
		return 0;
#undef get
	room -= address - start;
	return room < length ? (uint32_t)room : length;
}

/* How much of a segment is in registered memory. */
static inline uint32_t usable(const struct loopback_endpoint *endpoint, const struct segment *segment)
{
	return region_room(endpoint->device->regions, segment->key, endpoint->domain->number,
			   RIGHT_LOCAL_WRITE, segment->address, segment->length);
}

/* Whether the local memory of a send is still registered, with these rights. */
static inline bool send_memory_is_there(const struct loopback_endpoint *endpoint, const struct device_send *send,
			  uint32_t rights)
{
	for (unsigned i = 0; i < send->count; i++) {
		const struct segment *segment = &send->segments[i];

		if (region_room(endpoint->device->regions, segment->key, endpoint->domain->number,
				rights, segment->address, segment->length) != segment->length)
			return false;
	}
	return true;
}

#endif
