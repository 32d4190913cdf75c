/* SPDX-License-Identifier: BSD-2-Clause */
// A thread that sleeps at a word in shared memory sleeps for a second at most, so one that nobody wakes goes on all the
// same. These make it sleep far longer, and count. A test program has them by the linker's --wrap=syscall.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on, or no longer.
void sleep_long(bool is_long);
// Threads that sleep at such a word.
unsigned long_sleepers(void);
// The number of CQs at whose words a notifier sleeps that nobody has woken since it was asked for a handler.
unsigned notifier_sleeps(void);
// From now on a notifier that was woken does not go on. Then it does, as if it was woken at this word, too: 1 is the first CQ's.
void notifier_hold(void);
bool notifier_is_held(void);
void notifier_go_on(unsigned word);
// Calls that put a thread to sleep there, or would have if the word had not changed.
unsigned sleeps_begun(void);
// Sleeps that have ended since the last sleep_long() because nobody has woken the thread.
unsigned sleeps_in_vain(void);
// Rests of threads for the tenant of a CQ, and their time in all, but for those that a deadline cuts short: see cq_tenant.c.
unsigned tenant_rests(void);
long tenant_rest_nsec(void);
// These, and the rests of the program's threads that wait for a lock.
unsigned lock_rests_of_program(void);

#ifdef __cplusplus
}

struct LongSleeps {
	LongSleeps()
	{
		sleep_long(true);
	}
	~LongSleeps()
	{
		sleep_long(false);
	}
};
#endif
