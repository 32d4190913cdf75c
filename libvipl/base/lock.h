/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks of the data path: one word. A thread takes it by an exchange, and lets go of it by a plain store: it wakes nobody. A
 * thread that finds it taken looks several times, sleeps for a moment, and begins anew. So a thread that comes again at once finds
 * the lock, and what it guards, still in its cache, and no wake-up can be lost.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t latch; /* 1: a thread is inside */
};

static inline void lock_init(struct lock *lock)
{
	atomic_store_explicit(&lock->latch, 0, memory_order_relaxed);
}

/* Whether a thread is inside: of no use but as a hint. */
static inline bool lock_seems_taken(const struct lock *lock)
{
	return atomic_load_explicit(&lock->latch, memory_order_relaxed);
}

/* Returns false if the thread would have to wait. See litmus/latch. */
static inline bool lock_try(struct lock *lock)
{
	return __builtin_expect(!atomic_exchange_explicit(&lock->latch, 1, memory_order_acquire), true);
}

/*
 * After lock_try() has returned false. Functions that shall contain no call end in another one for it: the compiler saves registers
 * on the stack for a call, even for one that is never made.
 */
void lock_wait(struct lock *lock);

static inline void lock_acquire(struct lock *lock)
{
	if (!lock_try(lock))
		lock_wait(lock);
}

static inline void lock_release(struct lock *lock)
{
	atomic_store_explicit(&lock->latch, 0, memory_order_release);
}

#endif
