/* SPDX-License-Identifier: BSD-2-Clause */
// The inside of a VIPL CQ for C++, which cannot read its header.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// The CQ's lock, by the handle of a CQ that is there.
void shim_cq_lock(void *cq);
void shim_cq_unlock(void *cq);
// Threads that want the lock.
unsigned shim_cq_lock_waiting(void *cq);
// The tenant of the lock, and another turn of it: see lock.h.
void shim_cq_set_tenant(void *cq, unsigned tenant);
unsigned shim_cq_tenant(void *cq);
void shim_cq_turn(void *cq);
// Threads in VipCQWait that have looked in vain.
unsigned shim_cq_waiters(void *cq);

#ifdef __cplusplus
}
#endif
