/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Biased locks: a lock costs its usual thread no locked instruction, and other threads one.
 *
 * A thread that has taken a lock many times in a row, while no other waited, is its owner. The owner stores the lock's address to
 * a word of its own, loads the owner again, and is in if it is still itself. Another thread first takes the latch, revokes the
 * ownership, and waits until the word names another lock or none, as with a hazard pointer. Only the owner writes its word. So
 * an owner that is late on its way in does no harm, and the next thread can be the owner at once.
 *
 * The latch is one word. A thread takes it by an exchange, and lets go of it by a plain store: it wakes nobody. A thread that
 * finds it taken looks several times, sleeps for a moment, and begins anew. So a thread that comes again at once finds the lock,
 * and what it guards, still in its cache.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fence.h"
#include "lock_thread.h"

struct lock {
	struct lock_thread *_Atomic owner; /* or LOCK_NO_OWNER */
	enum lock_level level;
	_Atomic uint32_t latch;	  /* 1: a thread has come in by it, or is about to */
	struct lock_thread *last; /* the latch guards this, and the next */
	uint32_t in_a_row;
	_Atomic uint32_t waiting; /* threads that wait for the latch */
};

/* Not NULL: a thread without a place would take itself for the owner. */
#define LOCK_NO_OWNER ((struct lock_thread *)1)

void lock_init(struct lock *lock, enum lock_level level);

/* The result of lock_enter(). After the last two lock_acquire_slowly() goes on. */
enum lock_way {
	LOCK_BIASED,
	LOCK_CONTENDED,
	LOCK_REVOKED, /* the ownership has ended on the way in */
};

void lock_acquire_slowly(struct lock *lock, enum lock_way way);
/* After LOCK_CONTENDED. Returns false if the thread would have to wait, or to revoke an ownership. */
bool lock_try(struct lock *lock);
/* For a thread that has come in by the latch. Returns `result`. */
int lock_release_slowly(struct lock *lock, int result);

/* How often the caller has come in a row. It has come in by the latch. */
static inline uint32_t lock_in_a_row(const struct lock *lock)
{
	return lock->in_a_row;
}

static inline bool lock_thread_is_inside(const struct lock_thread *thread, const struct lock *lock)
{
	return __atomic_load_n(&thread->inside[lock->level], __ATOMIC_ACQUIRE) == lock;
}

/* Whether a thread is inside: of no use but as a hint. */
static inline bool lock_seems_taken(const struct lock *lock)
{
	const struct lock_thread *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

	return atomic_load_explicit(&lock->latch, memory_order_relaxed) ||
	       (owner != LOCK_NO_OWNER && lock_thread_is_inside(owner, lock));
}

/*
 * For functions that shall contain no call: the compiler saves registers on the stack for a call, even for one that is
 * never made. The caller is inside no other lock of this level. `level` is the lock's: callers pass a constant, so that the
 * compiler knows the place.
 *
 * Only where the cheap side of the fence is free there are owners, so only the compiler needs a fence here: either the revoking
 * thread sees the store, or the load sees the revocation. On any processor: membarrier() gives this thread a full fence
 * somewhere. If that is before the load, the load sees the revocation. If it is after the load, the store is seen. See
 * litmus/biased_lock.
 */
static inline enum lock_way lock_enter(struct lock *lock, enum lock_level level)
{
	struct lock_thread *self = lock_self;

	if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) != self, false))
		return LOCK_CONTENDED;
	assert(level == lock->level && !self->inside[level]);
	/* Who revokes the ownership of the lock that the thread was inside before may see only this store: litmus/owner_leaves. */
	__atomic_store_n(&self->inside[level], lock, __ATOMIC_RELEASE);
	atomic_signal_fence(memory_order_seq_cst);
	return __builtin_expect(atomic_load_explicit(&lock->owner, memory_order_acquire) == self, true) ? LOCK_BIASED
													 : LOCK_REVOKED;
}

/* The caller may be inside other locks of this level. */
void lock_acquire(struct lock *lock);

static inline int lock_release_with(struct lock *lock, enum lock_level level, int result)
{
	struct lock_thread *self = lock_self;

	if (__builtin_expect(self->inside[level] != lock, false))
		return lock_release_slowly(lock, result);
	__atomic_store_n(&self->inside[level], NULL, __ATOMIC_RELEASE);
	return result;
}

static inline void lock_release(struct lock *lock)
{
	lock_release_with(lock, lock->level, 0);
}

#endif
