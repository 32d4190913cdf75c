/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread's sleep until one of a few descriptors is readable, or another thread wakes it.
 *
 * It sleeps by epoll, since poll() fails when RLIMIT_NOFILE has become lower than the number of its descriptors. And
 * it is woken by epoll_ctl(), not by writing: should the program have closed the descriptors, and have other files with
 * these numbers, then nothing is written into them. The thread finds out within a second that they are gone.
 */
#ifndef VIPL_SLEEPER_H
#define VIPL_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>

#define SLEEPER_SOURCES 4u
#define SLEEPER_WOKEN	0u /* this source is a thread that wakes it */

struct sleeper {
	int epoll_fd;
	int always_fd;	    /* always readable: waking it is arming this once */
	bool owns_always;   /* else it is another sleeper's */
	_Atomic(const char *) lost_by; /* NULL; or the call that has failed: these are closed, or the call is refused */
	_Atomic int lost_error;	       /* with this error */
	int unchecked_msec; /* how long it has slept without a sign that they are there */
	char sources[SLEEPER_SOURCES]; /* the addresses of these are in the events */
};

/* `always_fd`: that of another sleeper, which lives longer, or -1. 0 or errno. */
int sleeper_init(struct sleeper *sleeper, int always_fd);
void sleeper_destroy(struct sleeper *sleeper);

/* From now on the thread wakes when the descriptor is readable; with -1 nothing is done. 0 or errno. */
int sleeper_watch(struct sleeper *sleeper, unsigned source, int fd);
/* For a while it does not, or it does again. */
void sleeper_ignore(struct sleeper *sleeper, unsigned source, int fd, bool ignore);

/* From any thread. It wakes at once, or does not fall asleep next time. */
void sleeper_wake(struct sleeper *sleeper);

/* From any thread. The thread has work that cannot be done any more: it takes no events from now on. */
void sleeper_lose(struct sleeper *sleeper, const char *call, int error);

static inline bool sleeper_is_lost(const struct sleeper *sleeper)
{
	return atomic_load(&sleeper->lost_by);
}

/* Whether sleeper_sleep() would return something. */
bool sleeper_has_event(const struct sleeper *sleeper);
/*
 * Sleeps for so many msec at most, -1: any time, and never longer than a second. Returns a bit for each source that is
 * readable, 1 << SLEEPER_WOKEN among them. Without its descriptors it does nothing but sleep, for a moment. With 0 msec
 * another thread may look, too.
 */
unsigned sleeper_sleep(struct sleeper *sleeper, int msec);

#endif
