/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancellation of the program's threads: pthread_cancel(). A thread that ended somewhere inside a call would never give back its
 * locks. So calls are not cancelled, but for the places where threads wait: there a thread first gives back all that it has.
 *
 * The calls of the data path that do not wait are too short to hold cancellation off. What they do under locks is no cancellation
 * point, or holds it off by itself.
 */
#ifndef VIPL_CANCEL_H
#define VIPL_CANCEL_H

#include <pthread.h>
#include <stdint.h>

/* Holds it off in a few lines. cancel_resume() takes what cancel_hold() has returned. */
static inline int cancel_hold(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_resume(int before)
{
	pthread_setcancelstate(before, NULL);
}

/* Holds it off during a call, or a wait, of the program, but for the places below. These are not nested. */
void cancel_begin_call(void);
void cancel_end_call(void);

/* Gives back all that the call has: locks and references. */
typedef void cancel_leave(void *argument);

/* If the thread is cancelled it leaves, and ends. */
void cancel_here(cancel_leave *leave, void *argument);
/* Waits as condition_wait() does. If the thread is cancelled meanwhile it leaves, with the lock, and ends. */
int cancel_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline, cancel_leave *leave, void *argument);

#endif
