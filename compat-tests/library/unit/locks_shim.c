/* SPDX-License-Identifier: BSD-2-Clause */
#include "locks_shim.h"

#include <stdlib.h>

#include "base/lock.h"

struct lock *shim_lock_create(void)
{
	struct lock *lock = malloc(sizeof(*lock));

	fence_init();
	lock_init(lock);
	return lock;
}

void shim_lock_destroy(struct lock *lock)
{
	free(lock);
}

void shim_lock_acquire(struct lock *lock)
{
	lock_acquire(lock);
}

void shim_lock_release(struct lock *lock)
{
	lock_release(lock);
}

int shim_lock_is_owned(const struct lock *lock)
{
	return atomic_load(&lock->owner) != LOCK_NO_OWNER;
}

void shim_lock_be_guest(void)
{
	lock_thread = LOCK_NEVER_BIASED;
}

int shim_lock_can_be_owned(void)
{
	return hot_flags.has_membarrier;
}
