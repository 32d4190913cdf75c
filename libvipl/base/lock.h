/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mutex that costs its usual thread no locked instruction: biased locking.
 *
 * The first thread that has taken it many times in a row is its bias owner from then on. While
 * nobody else comes, the bias owner owns it: it says with plain stores that it is inside and that it
 * is not. Somebody else first takes the mutex below, ends the ownership, and waits for the
 * bias owner to be outside; the bias owner becomes the owner again after many more times in a row.
 *
 * It stays the bias owner for as long as it lives, also when the lock's memory is given to another object:
 * it may be on its way in, delayed for however long, and what it says then must not be somebody else's.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fence.h"

struct lock {
	_Atomic uint32_t owner;	 /* a thread's number, or LOCK_NOBODY */
	_Atomic uint32_t inside; /* 1: the bias owner is */
	_Atomic uint32_t holder; /* who has come in by the mutex, or 0 */
	uint32_t bias_owner, last, in_a_row; /* the mutex guards these, and the next */
	pid_t bias_owner_id;		    /* the kernel's number of it */
	pthread_mutex_t mutex;
};

/* Threads have numbers, from 1 on, that no other thread has or will have. */
#define LOCK_UNNUMBERED 0u	       /* a thread until its first lock_acquire_slowly() */
#define LOCK_NEVER_BIASED (UINT32_MAX - 1) /* the agent: it is never a bias owner */
#define LOCK_NOBODY	UINT32_MAX     /* as an owner; no thread has it */
extern _Thread_local uint32_t lock_thread __attribute__((tls_model("initial-exec")));

void lock_init(struct lock *lock);

/* What came of the owner's way in. With one of the others, lock_acquire_slowly() goes on. */
enum lock_way {
	LOCK_BIASED,
	LOCK_CONTENDED,
	LOCK_REVOKED, /* the ownership has ended on the way in */
};

void lock_acquire_slowly(struct lock *lock, enum lock_way way);
/* By who is inside as the owner no longer, or has come in by the mutex. Returns `result`. */
int lock_release_slowly(struct lock *lock, int result);

/*
 * Whether the lock is owned by the caller. Only bias owners are, and only where the light fence is free,
 * so none is needed here but towards the compiler: who ends the ownership sees what was said before
 * this, or this sees that it has ended.
 */
static inline bool lock_is_own(const struct lock *lock)
{
	atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&lock->owner, memory_order_acquire) == lock_thread;
}

/*
 * For functions that shall call nothing else: what is to be kept over a call, even one that is never
 * made, goes to the stack first.
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
 * Who came in by the mutex says, too, that the bias owner is outside. That is so: it may be on its way in
 * at most, and turns back, for while the mutex is held nobody is the owner; and nobody but the
 * bias owner itself makes it the owner again.
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
