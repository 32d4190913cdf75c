/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping at a word of 32 bits in memory, and waking who sleeps there. */
#ifndef VIPL_FUTEX_H
#define VIPL_FUTEX_H

#include <errno.h>
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

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* the same on all processors */
#endif
#define FUTEX_MOST	 128u /* words at which a thread can sleep at a time: Linux 5.16 */
#define FUTEX_OF_32_BITS 2u /* with futex_of */

/* struct futex_waitv, which older headers do not have. */
struct futex_word {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static inline struct futex_word futex_word(const void *word, uint32_t value, enum futex_of of)
{
	return (struct futex_word){.value = value, .address = (uintptr_t)word, .flags = FUTEX_OF_32_BITS | (uint32_t)of};
}

/*
 * Sleeps while all of the words have their values, at most so many nanoseconds, or DEADLINE_NEVER. Returns the index of the word at
 * which the thread was woken, of several that of one; or -1 and errno, and then nobody has woken it. EAGAIN, EFAULT: a word has
 * another value, or is gone.
 */
static inline int futex_sleep_at_any(const struct futex_word *words, unsigned count, int64_t nsec)
{
	const int64_t end = clock_nsec() + (nsec == DEADLINE_NEVER ? 0 : nsec);
	const struct {
		int64_t seconds, nsec;
	} until = {end / NSEC_PER_SEC, end % NSEC_PER_SEC};

	return (int)syscall(SYS_futex_waitv, words, count, 0, nsec == DEADLINE_NEVER ? NULL : &until, CLOCK_MONOTONIC);
}

/* Linux has that since 5.16, and a filter may refuse it. */
static inline bool futex_can_sleep_at_any(void)
{
	return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, CLOCK_MONOTONIC) && errno == EINVAL;
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
