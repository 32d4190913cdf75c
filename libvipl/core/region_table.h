/* SPDX-License-Identifier: BSD-2-Clause */
/* The table from memory handle to region, which posting looks into. */
#ifndef VIPL_REGION_TABLE_H
#define VIPL_REGION_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"

struct device_domain;
struct device_region;
struct tag;

/* The data of a region that posting needs. */
struct region_view {
	uint32_t key;
	bool read_only;
	uintptr_t start;
	size_t length;
	struct device_domain *domain;
};

struct region {
	struct device_region *device_region;
	struct tag *tag;
	struct region_view view;
	VIP_MEM_ATTRIBUTES attributes; /* Ptag as the program gave it */
};

struct region_slots;

/* From memory handle to region. Writers hold the NIC's lock; look-ups take no lock. */
struct region_table {
	_Atomic uint32_t version; /* odd while a writer changes the slots; never 0 */
	struct region_slots *_Atomic slots;
	unsigned used;
};

void region_table_init(struct region_table *table);
/* 0 or ENOMEM; EEXIST when the handle is there already. */
int region_table_insert(struct region_table *table, uint32_t handle, struct region *region);
/* For writers. The region, or NULL when there is none, or `address` is not its start. */
struct region *region_table_get(const struct region_table *table, uint32_t handle,
				const void *address);
/* From here on look-ups find this view of the region, which is in the table. */
void region_table_update(struct region_table *table, uint32_t handle,
			 const struct region_view *view);
/* The region that left the table, or NULL as above. */
struct region *region_table_remove(struct region_table *table, uint32_t handle,
				   const void *address);
/* Any region that is left; for cleaning up. */
struct region *region_table_remove_any(struct region_table *table);
void region_table_destroy(struct region_table *table);

/* The region that was found last. Most segments of a work queue are in one region. One thread uses the hint at a time. */
struct region_hint {
	uint32_t handle, version; /* 0: nothing */
	struct region_view view;
};

/* NULL when the handle names no region; else valid until the hint is used again. */
const struct region_view *region_table_search(struct region_table *table, uint32_t handle,
					      struct region_hint *hint);

static inline bool region_hint_fits(const struct region_table *table, uint32_t handle,
				    const struct region_hint *hint)
{
	return hint->handle == handle &&
	       hint->version == atomic_load_explicit(&table->version, memory_order_acquire);
}

#endif
