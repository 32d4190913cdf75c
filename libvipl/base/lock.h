/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Biased locks: a lock costs its usual thread no locked instruction, and other threads one.
 *
 * A thread that has taken it many times in a row, while no other waited, is its bias owner. While no other thread comes, the bias
 * owner owns it: it enters and leaves with plain stores to `inside`. Another thread first takes the latch, revokes the ownership,
 * and waits until the bias owner is not inside.
 *
 * The latch is one word, the number of the thread that has it. A thread takes it by a compare-and-exchange, and lets go of it by
 * a plain store: it wakes nobody. A thread that finds it taken looks several times, sleeps for a moment, and looks again. So a
 * thread that comes again at once finds the lock, and what it guards, still in its cache.
 *
 * A bias owner that is revoked may be delayed on its way in for any time, and its store to `inside` must not be taken for another
 * thread's. So it stays the bias owner, also when the lock's memory is given to another object, until it comes by the latch
 * (litmus/bias_moves), or ends.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fence.h"

struct lock {
	_Atomic uint32_t owner;	 /* a thread's number, or LOCK_NO_OWNER */
	_Atomic uint32_t inside; /* 1: the bias owner is */
	_Atomic uint32_t latch;	 /* the thread that has come in by it, or is about to; or 0 */
	_Atomic uint32_t waiting; /* threads that wait for it */
	uint32_t bias_owner, last, in_a_row; /* the latch guards these, and the next */
	pid_t bias_owner_id;		    /* the kernel's number of it */
};

/* Threads have numbers, from 1 on, that no other thread has or will have. */
#define LOCK_UNNUMBERED 0u	       /* a thread until its first lock_acquire_slowly() */
#define LOCK_NEVER_BIASED (UINT32_MAX - 1) /* a thread that shall never be a bias owner: the agent */
#define LOCK_NO_OWNER	UINT32_MAX     /* as an owner; no thread has it */
extern _Thread_local uint32_t lock_thread __attribute__((tls_model("initial-exec")));

void lock_init(struct lock *lock);

/* The result of lock_enter(). After the last two lock_acquire_slowly() goes on. */
enum lock_way {
	LOCK_BIASED,
	LOCK_CONTENDED,
	LOCK_REVOKED, /* the ownership has ended on the way in */
};

void lock_acquire_slowly(struct lock *lock, enum lock_way way);
/* After LOCK_CONTENDED. Returns false if the thread would have to wait, or to end an ownership. */
bool lock_try(struct lock *lock);
/* For a thread that has come in by the latch, or whose ownership was revoked inside. Returns `result`. */
int lock_release_slowly(struct lock *lock, int result);

/* How often the caller has come in a row. It has come in by the latch. */
static inline uint32_t lock_in_a_row(const struct lock *lock)
{
	return lock->in_a_row;
}

/* Whether a thread is inside: of no use but as a hint. */
static inline bool lock_seems_taken(const struct lock *lock)
{
	return atomic_load_explicit(&lock->latch, memory_order_relaxed) ||
	       atomic_load_explicit(&lock->inside, memory_order_relaxed);
}

/*
 * Whether the lock is owned by the caller. Only bias owners are, and only where the light fence is free,
 * so only the compiler needs a fence here: either the revoking thread sees the store to `inside` before this, or
 * this sees the revocation. On any processor: membarrier() gives this thread a full fence somewhere. If that is before
 * the load, the load sees the revocation. If it is after the load, the store is seen. See litmus/biased_lock.
 */
static inline bool lock_is_own(const struct lock *lock)
{
	atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&lock->owner, memory_order_acquire) == lock_thread;
}

/*
 * For functions that shall contain no call: the compiler saves registers on the stack for a call, even for one that is
 * never made.
 */
static inline enum lock_way lock_enter(struct lock *lock)
{
	if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) !=
				     lock_thread, false))
		return LOCK_CONTENDED;
	atomic_store_explicit(&lock->inside, 1, memory_order_release);
	return __builtin_expect(lock_is_own(lock), true) ? LOCK_BIASED : LOCK_REVOKED;
}

static inline void lock_acquire(struct lock *lock)
{
	enum lock_way way = lock_enter(lock);

	if (__builtin_expect(way != LOCK_BIASED, false))
		lock_acquire_slowly(lock, way);
}

/*
 * A thread that came in by the latch stores 0 to `inside`, too. That is right: the bias owner is at most on its
 * way in, and turns back, since the lock has no owner while the latch is taken. Later, too, since nobody else makes it the owner.
 */
static inline int lock_release_with(struct lock *lock, int result)
{
	atomic_store_explicit(&lock->inside, 0, memory_order_release);
	if (__builtin_expect(!lock_is_own(lock), false))
		return lock_release_slowly(lock, result);
	return result;
}

static inline void lock_release(struct lock *lock)
{
	lock_release_with(lock, 0);
}

#endif
