/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping at a word of memory that processes may share, and waking who sleeps there. */
#ifndef VIPL_FUTEX_H
#define VIPL_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "deadline.h"

/* Sleeps while the word has this value, until the thread is woken, and at most for so long. */
static inline void futex_sleep(const void *word, uint32_t value, int64_t nsec)
{
	struct timespec time = nsec_timespec(nsec);

	syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0);
}

/* Wakes the one that has slept longest, or all. Nobody is woken if the memory is gone. */
static inline void futex_wake(const void *word, bool all)
{
	syscall(SYS_futex, word, FUTEX_WAKE, all ? INT_MAX : 1, NULL, NULL, 0);
}

#endif
