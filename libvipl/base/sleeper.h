/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread sleeps until one of a few descriptors is readable, or another thread wakes it.
 *
 * It sleeps in epoll_wait(), because poll() fails when RLIMIT_NOFILE has become lower than the number of its descriptors.
 * epoll_ctl() wakes it, not write(): if the program has closed the descriptors, and opened files of its own under their
 * numbers, nothing is written into these. The thread notices within a second that its descriptors are gone.
 */
#ifndef VIPL_SLEEPER_H
#define VIPL_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>

#define SLEEPER_SOURCES 5u
#define SLEEPER_WOKEN	0u /* this source is a thread that wakes it */

struct sleeper {
	int epoll_fd;
	int always_fd;	    /* always readable: whoever wakes the thread arms this once */
	bool owns_always;   /* else it is another sleeper's */
	_Atomic(const char *) lost_by; /* NULL, or the call that has failed: the descriptors are closed, or it is refused */
	_Atomic int lost_error;	       /* with this error */
	int unchecked_msec; /* how long it has slept without a sign of its descriptors */
	char sources[SLEEPER_SOURCES]; /* the addresses of these are in the events */
};

/* `always_fd`: that of another sleeper, which lives longer, or -1. 0 or errno. */
int sleeper_init(struct sleeper *sleeper, int always_fd);
void sleeper_destroy(struct sleeper *sleeper);

/* From now on the thread wakes when the descriptor is readable; with -1 nothing is done. 0 or errno. */
int sleeper_watch(struct sleeper *sleeper, unsigned source, int fd);
/* From now on the descriptor does not wake the thread, or does so again. */
void sleeper_ignore(struct sleeper *sleeper, unsigned source, int fd, bool ignore);

/* From any thread. It wakes at once, or does not fall asleep next time. */
void sleeper_wake(struct sleeper *sleeper);

/* From any thread. The sleeper's thread cannot do its work any more: it takes no events from now on. */
void sleeper_lose(struct sleeper *sleeper, const char *call, int error);

static inline bool sleeper_is_lost(const struct sleeper *sleeper)
{
	return atomic_load(&sleeper->lost_by);
}

/* Whether sleeper_sleep() would return something. */
bool sleeper_has_event(const struct sleeper *sleeper);
/*
 * Sleeps for `msec` at most (-1: no limit), and never longer than a second. Returns a bit for each source that is readable,
 * 1 << SLEEPER_WOKEN among them. Without its descriptors it only sleeps, for a moment. Another thread may look, too, with
 * 0 msec.
 */
unsigned sleeper_sleep(struct sleeper *sleeper, int msec);

#endif
