/* SPDX-License-Identifier: BSD-2-Clause */
// The biased lock for C++, which cannot read its header.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct lock;

struct lock *shim_lock_create(void);
void shim_lock_destroy(struct lock *lock);
void shim_lock_acquire(struct lock *lock);
void shim_lock_release(struct lock *lock);
// For a thread that does not own it.
int shim_lock_try(struct lock *lock);
// True when the lock is owned.
int shim_lock_is_owned(const struct lock *lock);
// True when the lock has a bias owner, if it is owned or not.
int shim_lock_has_favourite(const struct lock *lock);
int shim_lock_is_waited_for(const struct lock *lock);
// Of the tenant: see lock.h.
int shim_lock_has_tenant(struct lock *lock);
int shim_lock_is_busy(struct lock *lock);
void shim_lock_rest(struct lock *lock, unsigned *rests);
void shim_lock_vacate(struct lock *lock);
// From now on the calling thread is one of the library's.
void shim_lock_be_guest(void);
// True when the kernel has the system call that ownership needs.
int shim_lock_can_be_owned(void);
// From now on the kernel refuses that call. False if it does not let itself be told to.
int shim_refuse_membarrier(void);

#ifdef __cplusplus
}
#endif
