/* SPDX-License-Identifier: BSD-2-Clause */
/* Points in time on CLOCK_MONOTONIC, made from VIPL's timeouts in milliseconds. */
#ifndef VIPL_DEADLINE_H
#define VIPL_DEADLINE_H

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "vipl.h"

#define NSEC_PER_MSEC INT64_C(1000000)
#define NSEC_PER_SEC  INT64_C(1000000000)

#define DEADLINE_NEVER INT64_MAX

static inline int64_t clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Programs mean for ever by 0xFFFFFFFF as well as by ~0UL, also where longs have 64 bits. */
static inline int64_t deadline_after(VIP_ULONG msec)
{
	if (msec >= 0xFFFFFFFFUL)
		return DEADLINE_NEVER;
	return clock_nsec() + (int64_t)msec * NSEC_PER_MSEC;
}

/* The Timeout of a call. A call that need not wait does not look at the clock. */
struct timeout {
	VIP_ULONG msec;
	int64_t deadline; /* 0: nobody has asked for it */
};

static inline int64_t timeout_deadline(struct timeout *timeout)
{
	if (!timeout->deadline)
		timeout->deadline = deadline_after(timeout->msec);
	return timeout->deadline;
}

/* Nanoseconds left, 0 when it has passed. */
static inline int64_t deadline_left(int64_t deadline)
{
	int64_t left;

	if (deadline == DEADLINE_NEVER)
		return DEADLINE_NEVER;
	left = deadline - clock_nsec();
	return left > 0 ? left : 0;
}

/* The deadline, or a time that is so many nanoseconds from now if that comes first. */
static inline int64_t deadline_within(int64_t deadline, int64_t nsec)
{
	int64_t end = clock_nsec() + nsec;

	return deadline < end ? deadline : end;
}

/* The time left, as poll() takes it: -1 for ever, and never less than it is. */
static inline int deadline_msec(int64_t deadline)
{
	int64_t left = deadline_left(deadline);

	if (left == DEADLINE_NEVER)
		return -1;
	return left < NSEC_PER_MSEC * INT_MAX ? (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : INT_MAX;
}

static inline struct timespec nsec_timespec(int64_t nsec)
{
	return (struct timespec){.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
				 .tv_nsec = (long)(nsec % NSEC_PER_SEC)};
}

/* Makes a condition whose timed waits count on CLOCK_MONOTONIC. */
static inline int condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc)
		return rc;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(condition, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}

/* 0 or ETIMEDOUT. */
static inline int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline)
{
	struct timespec at;

	if (deadline == DEADLINE_NEVER)
		return pthread_cond_wait(condition, lock);
	at = nsec_timespec(deadline);
	return pthread_cond_timedwait(condition, lock, &at);
}

#endif
