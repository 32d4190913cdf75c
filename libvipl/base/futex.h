/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping at a word of 32 bits in memory, and waking who sleeps there. */
#ifndef VIPL_FUTEX_H
#define VIPL_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "deadline.h"

/* Whose threads sleep at the word: those of this process only, or those of all that have the memory. */
enum futex_of { FUTEX_OF_PROCESS = FUTEX_PRIVATE_FLAG, FUTEX_SHARED = 0 };

static inline long futex_call(const void *word, int operation, uint32_t value, const struct timespec *time)
{
#ifdef SYS_futex_time64
	/* Where a long has 32 bits, SYS_futex takes a time of two longs, which this may not be. */
	if (sizeof(time->tv_sec) > sizeof(long))
		return syscall(SYS_futex_time64, word, operation, value, time, NULL, 0);
#endif
	return syscall(SYS_futex, word, operation, value, time, NULL, 0);
}

/* Sleeps while the word has this value, until the thread is woken, and at most so many nanoseconds, or DEADLINE_NEVER. */
static inline void futex_sleep(const void *word, uint32_t value, int64_t nsec, enum futex_of of)
{
	struct timespec time = nsec_timespec(nsec);

	futex_call(word, FUTEX_WAIT | of, value, nsec == DEADLINE_NEVER ? NULL : &time);
}

/* Sleeps for so many nanoseconds. Nobody wakes it, only a signal does. Unlike nanosleep() it is no cancellation point. */
static inline void futex_rest(int64_t nsec)
{
	static const uint32_t word;

	futex_sleep(&word, 0, nsec, FUTEX_OF_PROCESS);
}

/* Wakes the thread that has slept longest, or all. If the memory is gone, nobody is woken. */
static inline void futex_wake(const void *word, bool all, enum futex_of of)
{
	futex_call(word, FUTEX_WAKE | of, all ? INT_MAX : 1, NULL);
}

#endif
