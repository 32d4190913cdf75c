/* SPDX-License-Identifier: BSD-2-Clause */
// The library's insides for C++, which cannot read headers with atomic types.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- the memory of handles ----

// `kind` is of enum object_kind.
void *shim_object_at(VIP_PVOID handle, int kind);

// Forgets the receives of a VI, as when its NIC is closed.
void shim_drop_receives(VIP_VI_HANDLE vi);

// ---- a VIPL CQ, by the handle of one that is there ----

void shim_cq_lock(void *cq);
void shim_cq_unlock(void *cq);
// See cq_tenant.c. NULL: there is none.
void shim_cq_set_tenant(void *cq, void *tenant);
const void *shim_cq_tenant(void *cq);
// As if so many threads rested for it.
void shim_cq_set_resting(void *cq, unsigned threads);
// Threads in VipCQWait that have looked in vain.
unsigned shim_cq_waiters(void *cq);
// Counts how often threads that sleep on the CQ's channel, or at its word, were told to look.
unsigned shim_cq_announced(void *cq);
// Whether the NIC's agent takes its descriptors for unusable.
bool shim_agent_is_lost(void *nic);

// From now on the NIC's agent does nothing, or it does.
void shim_agent_hold(void *nic, bool hold);
// Whether the agent of via_lo looks at CQs by a timer. If not, it is woken for what comes.
bool shim_agent_looks_by_itself(void *nic);

// ---- the lock ----

struct lock;

struct lock *shim_lock_create(void);
void shim_lock_destroy(struct lock *lock);
void shim_lock_acquire(struct lock *lock);
void shim_lock_release(struct lock *lock);
int shim_lock_try(struct lock *lock);
// True when a thread is inside.
int shim_lock_seems_taken(const struct lock *lock);

// ---- the table of regions ----

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
unsigned shim_used(const struct region_table *table);

// ---- memory that processes share by the loopback device ----

enum shared_kind { SHARED_LINK, SHARED_REGIONS, SHARED_CQ_PAGE };

// Makes the memory as the library does. Returns its descriptor.
int shim_shared_create(enum shared_kind kind);
// Makes memory that looks right, as a peer may, and allocates this many bytes, or all if that is more than 0 and less.
int shim_shared_sparse(enum shared_kind kind, long long allocated);
// Returns 0 if it is not kept, but left to a thread that nobody waits for.
int shim_shared_may_be(int fd);
// Maps it as the other end does. Returns 0 if it is refused.
int shim_shared_map(enum shared_kind kind, int fd);

#ifdef __cplusplus
}
#endif
