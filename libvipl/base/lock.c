/* SPDX-License-Identifier: BSD-2-Clause */
/* Biased locks: the slow path by the mutex, and the change of the owner. */
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MANY 256u /* ending an ownership interrupts processors: it must be rare */

_Thread_local uint32_t lock_thread = LOCK_UNNUMBERED;

static uint32_t this_thread(void)
{
	static _Atomic uint32_t threads;

	if (lock_thread == LOCK_UNNUMBERED)
		lock_thread = atomic_fetch_add(&threads, 1) + 1;
	return lock_thread;
}

void lock_init(struct lock *lock)
{
	*lock = (struct lock){.owner = LOCK_NO_OWNER};
	pthread_mutex_init(&lock->mutex, NULL);
}

static void revoke_bias(struct lock *lock)
{
	atomic_store_explicit(&lock->owner, LOCK_NO_OWNER, memory_order_relaxed);
	asym_fence_heavy();
	while (atomic_load_explicit(&lock->inside, memory_order_acquire))
		syscall(SYS_futex, &lock->inside, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void wake(struct lock *lock)
{
	syscall(SYS_futex, &lock->inside, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void lock_acquire_slowly(struct lock *lock, enum lock_way way)
{
	uint32_t self = this_thread();

	if (way == LOCK_REVOKED) {
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
		wake(lock);
	}
	pthread_mutex_lock(&lock->mutex);
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != LOCK_NO_OWNER)
		revoke_bias(lock);
	atomic_store_explicit(&lock->holder, self, memory_order_relaxed);
	lock->in_a_row = lock->last == self && self != LOCK_NEVER_BIASED ? lock->in_a_row + 1 : 0;
	lock->last = self;
}

/* A thread that has ended is never on its way in. One that has its number now makes it seem alive. */
static bool has_ended(pid_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) && errno == ESRCH;
}

/* The caller has come many times in a row, and has the mutex. */
static void bias_if_usual(struct lock *lock)
{
	lock->in_a_row = 0;
	if (!lock->bias_owner ||
	    (lock->bias_owner != lock->last && has_ended(lock->bias_owner_id))) {
		lock->bias_owner = lock->last;
		lock->bias_owner_id = (pid_t)syscall(SYS_gettid);
	}
	if (lock->bias_owner == lock->last)
		atomic_store_explicit(&lock->owner, lock->last, memory_order_release);
}

int lock_release_slowly(struct lock *lock, int result)
{
	/* The thread that has revoked our ownership has the mutex, and is not inside yet. */
	if (atomic_load_explicit(&lock->holder, memory_order_relaxed) != lock_thread) {
		wake(lock);
		return result;
	}
	atomic_store_explicit(&lock->holder, 0, memory_order_relaxed);
	if (lock->in_a_row >= MANY &&
	    atomic_load_explicit(&hot_flags.has_membarrier, memory_order_relaxed))
		bias_if_usual(lock);
	pthread_mutex_unlock(&lock->mutex);
	return result;
}
