/*
 * A mutex that costs its usual thread no locked instruction: biased locking.
 *
 * The first thread that has taken it many times in a row is its favourite from then on. While
 * nobody else comes, the favourite owns it: it says with plain stores that it is inside and that it
 * is not. Somebody else first takes the mutex below, ends the ownership, and waits for the
 * favourite to be outside; the favourite becomes the owner again after many more times in a row.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fence.h"

struct lock {
	_Atomic uint32_t owner;	 /* a thread's number, or 0 */
	_Atomic uint32_t inside; /* 1: the favourite is; nobody else writes this */
	bool by_mutex;		 /* how the one who has the lock came in */
	uint32_t favourite, last, in_a_row; /* the mutex guards these */
	pthread_mutex_t mutex;
};

/* A number that no other thread has or will have. */
#define LOCK_UNNUMBERED UINT32_MAX     /* until its first lock_acquire_slowly() */
#define LOCK_GUEST	(UINT32_MAX - 1) /* the agent: it is never a favourite */
extern _Thread_local uint32_t lock_thread __attribute__((tls_model("initial-exec")));

void lock_init(struct lock *lock);
void lock_destroy(struct lock *lock);

void lock_acquire_slowly(struct lock *lock);
void lock_release_slowly(struct lock *lock);
/* The favourite is outside, and somebody may wait for that. */
void lock_wake(struct lock *lock);

/* With `is_inside` 0 what was done inside comes before. True if the lock is still owned. */
static inline bool lock_declare(struct lock *lock, uint32_t is_inside)
{
	atomic_store_explicit(&lock->inside, is_inside, memory_order_release);
	fence_light(); /* who ends the ownership sees this, or we see that */
	return atomic_load_explicit(&lock->owner, memory_order_acquire) == lock_thread;
}

static inline void lock_acquire(struct lock *lock)
{
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == lock_thread) {
		if (lock_declare(lock, 1))
			return;
		lock_declare(lock, 0);
		lock_wake(lock);
	}
	lock_acquire_slowly(lock);
}

static inline void lock_release(struct lock *lock)
{
	if (lock->by_mutex)
		lock_release_slowly(lock);
	else if (!lock_declare(lock, 0))
		lock_wake(lock);
}

#endif
