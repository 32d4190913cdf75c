/* SPDX-License-Identifier: BSD-2-Clause */
/* Biased locks: the slow path by the latch, and the change of the owner. */
#include "lock.h"

#include "cpu_relax.h"
#include "futex.h"

#define MANY 256u /* times in a row make an owner. Revoking an ownership interrupts processors, so it must be rare */

/*
 * A thread that waits looks again after TURNS_LEAST turns, then after twice as many, up to TURNS_MOST. A look takes the cache
 * line away from the thread inside, so it pays to look rarely. After LOOKS looks the thread sleeps, because the one inside may
 * need the processor, at whatever priority it runs. It sleeps longer and longer. Threads that wait for the latch may be many;
 * only the one that has it waits for an owner.
 */
#define LOOKS		6u
#define TURNS_LEAST	64u
#define TURNS_MOST	512u
#define REST_LEAST_NSEC 20000
#define REST_MOST_NSEC	640000
#define REST_FOR_OWNER	160000 /* the same, at most */

static void spin(unsigned look)
{
	unsigned turns = TURNS_LEAST << look;

	for (unsigned i = 0; i < (turns < TURNS_MOST ? turns : TURNS_MOST); i++)
		cpu_relax();
}

static void rest_longer(int64_t *nsec, int64_t most)
{
	futex_rest(*nsec);
	if (*nsec < most)
		*nsec *= 2;
}

void lock_init(struct lock *lock, enum lock_level level)
{
	*lock = (struct lock){.owner = LOCK_NO_OWNER, .level = level};
}

/* See litmus/latch. */
static inline bool take_latch(struct lock *lock)
{
	return !atomic_exchange_explicit(&lock->latch, 1, memory_order_acquire);
}

static void let_go_of_latch(struct lock *lock)
{
	atomic_store_explicit(&lock->latch, 0, memory_order_release);
}

static bool look_at_latch(struct lock *lock)
{
	for (unsigned look = 0; look < LOOKS; look++) {
		spin(look);
		if (!atomic_load_explicit(&lock->latch, memory_order_relaxed) && take_latch(lock))
			return true;
	}
	return false;
}

static __attribute__((noinline)) void wait_for_latch(struct lock *lock)
{
	int64_t rest = REST_LEAST_NSEC;

	atomic_fetch_add_explicit(&lock->waiting, 1, memory_order_relaxed);
	while (!look_at_latch(lock))
		rest_longer(&rest, REST_MOST_NSEC);
	atomic_fetch_sub_explicit(&lock->waiting, 1, memory_order_relaxed);
}

/* The caller has the latch. */
static __attribute__((noinline)) void revoke_ownership(struct lock *lock, const struct lock_thread *owner)
{
	int64_t rest = REST_LEAST_NSEC;

	atomic_store_explicit(&lock->owner, LOCK_NO_OWNER, memory_order_relaxed);
	asym_fence_heavy();
	for (unsigned look = 0; lock_thread_is_inside(owner, lock); look++)
		if (look < LOOKS)
			spin(look);
		else
			rest_longer(&rest, REST_FOR_OWNER);
}

static void come_in(struct lock *lock, struct lock_thread *self)
{
	lock->in_a_row = lock->last == self && self != &lock_guest ? lock->in_a_row + 1 : 0;
	lock->last = self;
}

void lock_acquire_slowly(struct lock *lock, enum lock_way way)
{
	struct lock_thread *self = lock_this_thread(), *owner;

	if (way == LOCK_REVOKED)
		__atomic_store_n(&self->inside[lock->level], NULL, __ATOMIC_RELEASE);
	if (!take_latch(lock))
		wait_for_latch(lock);
	owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	if (owner != LOCK_NO_OWNER)
		revoke_ownership(lock, owner);
	come_in(lock, self);
}

void lock_acquire(struct lock *lock)
{
	bool is_inside_another = lock_this_thread()->inside[lock->level];
	enum lock_way way = is_inside_another ? LOCK_CONTENDED : lock_enter(lock, lock->level);

	if (way != LOCK_BIASED)
		lock_acquire_slowly(lock, way);
}

bool lock_try(struct lock *lock)
{
	if (!take_latch(lock))
		return false;
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != LOCK_NO_OWNER) {
		let_go_of_latch(lock);
		return false;
	}
	come_in(lock, lock_this_thread());
	return true;
}

int lock_release_slowly(struct lock *lock, int result)
{
	if (lock->in_a_row >= MANY && atomic_load_explicit(&hot_flags.has_membarrier, memory_order_relaxed)) {
		lock->in_a_row = 0;
		/* Else the thread was only the quickest of many. */
		if (!atomic_load_explicit(&lock->waiting, memory_order_relaxed))
			atomic_store_explicit(&lock->owner, lock->last, memory_order_release);
	}
	let_go_of_latch(lock);
	return result;
}
