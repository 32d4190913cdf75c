/* SPDX-License-Identifier: BSD-2-Clause */
// The region table for C++, which cannot read its header.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct region_table;

struct region_table *shim_table_create(void);
void shim_table_destroy(struct region_table *table);
// `tag` stands for all data that is stored with the handle. The region starts at that address.
int shim_insert(struct region_table *table, uint32_t handle, uintptr_t tag);
// Stores `tag` with the handle of a region that starts at `address`. Returns 0 when there is none.
int shim_update(struct region_table *table, uint32_t handle, uintptr_t address, uintptr_t tag);
// Returns 1: found; 0: not found; -1: found, but the data is of two regions.
int shim_find(struct region_table *table, uint32_t handle, uintptr_t *tag);
int shim_remove(struct region_table *table, uint32_t handle, uintptr_t address);
int shim_remove_any(struct region_table *table);
unsigned shim_used(const struct region_table *table);

#ifdef __cplusplus
}
#endif
