/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks of the data path: waiting. */
#include "lock.h"

#include "cpu_relax.h"
#include "futex.h"

/*
 * A thread that waits looks again after TURNS_LEAST turns, then after twice as many, up to TURNS_MOST. A look takes the cache
 * line away from the thread inside, so it pays to look rarely. After LOOKS looks the thread sleeps, because the one inside may
 * need the processor, at whatever priority it runs. It sleeps longer and longer.
 */
#define LOOKS		6u
#define TURNS_LEAST	64u
#define TURNS_MOST	512u
#define REST_LEAST_NSEC 20000
#define REST_MOST_NSEC	640000

static void pause_for(unsigned look)
{
	unsigned turns = TURNS_LEAST << look;

	for (unsigned i = 0; i < (turns < TURNS_MOST ? turns : TURNS_MOST); i++)
		cpu_relax();
}

static bool look_for_it(struct lock *lock)
{
	for (unsigned look = 0; look < LOOKS; look++) {
		pause_for(look);
		if (!lock_seems_taken(lock) && lock_try(lock))
			return true;
	}
	return false;
}

void lock_wait(struct lock *lock)
{
	for (int64_t rest = REST_LEAST_NSEC; !look_for_it(lock); rest *= rest < REST_MOST_NSEC ? 2 : 1)
		futex_rest(rest);
}
