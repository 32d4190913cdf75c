/* SPDX-License-Identifier: BSD-2-Clause */
/* Biased locks: the slow path by the latch, and the change of the owner. */
#include "lock.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu_relax.h"
#include "futex.h"

#define MANY 256u /* times in a row make an owner. Ending an ownership interrupts processors, so it must be rare */

/*
 * A thread that finds the latch taken looks again after TURNS_LEAST turns, then after twice as many, up to TURNS_MOST. A
 * look takes the cache line away from the thread inside, so it pays to look rarely. After LOOKS looks the thread sleeps:
 * the one inside may need the processor, at whatever priority it runs.
 */
#define LOOKS		6u
#define TURNS_LEAST	64u
#define TURNS_MOST	512u
#define REST_LEAST_NSEC 20000L
#define REST_MOST_NSEC	640000L

_Thread_local uint32_t lock_thread = LOCK_UNNUMBERED;

static uint32_t this_thread(void)
{
	static _Atomic uint64_t threads;
	uint64_t number;

	if (lock_thread == LOCK_UNNUMBERED) {
		number = atomic_fetch_add(&threads, 1) + 1;
		lock_thread = number < LOCK_NEVER_BIASED ? (uint32_t)number : LOCK_NEVER_BIASED;
	}
	return lock_thread;
}

void lock_init(struct lock *lock)
{
	*lock = (struct lock){.owner = LOCK_NO_OWNER};
}

static void revoke_bias(struct lock *lock)
{
	atomic_store_explicit(&lock->owner, LOCK_NO_OWNER, memory_order_relaxed);
	asym_fence_heavy();
	while (atomic_load_explicit(&lock->inside, memory_order_acquire))
		futex_sleep(&lock->inside, 1, DEADLINE_NEVER, FUTEX_OF_PROCESS);
}

static void wake(struct lock *lock)
{
	futex_wake(&lock->inside, false, FUTEX_OF_PROCESS);
}

/* See litmus/latch. */
static inline bool take_latch(struct lock *lock, uint32_t self)
{
	uint32_t nobody = 0;

	return atomic_compare_exchange_strong_explicit(&lock->latch, &nobody, self, memory_order_acquire,
						       memory_order_relaxed);
}

static void let_go_of_latch(struct lock *lock)
{
	atomic_store_explicit(&lock->latch, 0, memory_order_release);
}

static bool look_at_latch(struct lock *lock, uint32_t self)
{
	for (unsigned look = 0, turns = TURNS_LEAST; look < LOOKS; look++) {
		for (unsigned i = 0; i < turns; i++)
			cpu_relax();
		if (!atomic_load_explicit(&lock->latch, memory_order_relaxed) && take_latch(lock, self))
			return true;
		if (turns < TURNS_MOST)
			turns *= 2;
	}
	return false;
}

static __attribute__((noinline)) void wait_for_latch(struct lock *lock, uint32_t self)
{
	struct timespec rest = {.tv_nsec = REST_LEAST_NSEC};

	atomic_fetch_add_explicit(&lock->waiting, 1, memory_order_relaxed);
	while (!look_at_latch(lock, self)) {
		nanosleep(&rest, NULL);
		if (rest.tv_nsec < REST_MOST_NSEC)
			rest.tv_nsec *= 2;
	}
	atomic_fetch_sub_explicit(&lock->waiting, 1, memory_order_relaxed);
}

/*
 * The caller has the latch. A former bias owner has left lock_enter(), so it stores nothing more to `inside`, and the latch orders
 * its stores before those of the next bias owner.
 */
static void come_in(struct lock *lock, uint32_t self)
{
	if (lock->bias_owner == self)
		lock->bias_owner = 0;
	lock->in_a_row = lock->last == self && self != LOCK_NEVER_BIASED ? lock->in_a_row + 1 : 0;
	lock->last = self;
}

void lock_acquire_slowly(struct lock *lock, enum lock_way way)
{
	uint32_t self = this_thread();

	if (way == LOCK_REVOKED) {
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
		wake(lock);
	}
	if (!take_latch(lock, self))
		wait_for_latch(lock, self);
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != LOCK_NO_OWNER)
		revoke_bias(lock);
	come_in(lock, self);
}

bool lock_try(struct lock *lock)
{
	uint32_t self = this_thread();

	if (!take_latch(lock, self))
		return false;
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != LOCK_NO_OWNER) {
		let_go_of_latch(lock);
		return false;
	}
	come_in(lock, self);
	return true;
}

/* A thread that has ended is not on its way in. If another thread has its number by now, it counts as alive. */
static bool has_ended(pid_t thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) && errno == ESRCH;
}

/* The caller has come many times in a row, and has the latch. */
static void bias_if_usual(struct lock *lock)
{
	lock->in_a_row = 0;
	if (atomic_load_explicit(&lock->waiting, memory_order_relaxed))
		return; /* it was only the quickest of many */
	if (lock->bias_owner && !has_ended(lock->bias_owner_id))
		return;
	lock->bias_owner = lock->last;
	lock->bias_owner_id = (pid_t)syscall(SYS_gettid);
	atomic_store_explicit(&lock->owner, lock->last, memory_order_release);
}

int lock_release_slowly(struct lock *lock, int result)
{
	/* The thread that has revoked our ownership has the latch, and is not inside yet. */
	if (atomic_load_explicit(&lock->latch, memory_order_relaxed) != lock_thread) {
		wake(lock);
		return result;
	}
	if (lock->in_a_row >= MANY &&
	    atomic_load_explicit(&hot_flags.has_membarrier, memory_order_relaxed))
		bias_if_usual(lock);
	let_go_of_latch(lock);
	return result;
}
