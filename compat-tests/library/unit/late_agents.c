/* SPDX-License-Identifier: BSD-2-Clause */
#include "late_agents.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/thread.h"

#define NSEC_PER_SEC 1000000000
#define LOOK_MSEC    1000 /* an agent sleeps no longer: base/sleeper.c */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go_on = PTHREAD_COND_INITIALIZER;
static bool holds;
static atomic_bool is_slow, sleeps_on;
static _Atomic unsigned asleep;
static unsigned held; // agents, not other threads that sleep so
static _Atomic long long ahead; // of the system's clock, in nanoseconds

void agents_hold(bool hold)
{
	pthread_mutex_lock(&lock);
	holds = hold;
	pthread_cond_broadcast(&go_on);
	pthread_mutex_unlock(&lock);
}

unsigned agents_held(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = held;
	pthread_mutex_unlock(&lock);
	return count;
}

void agents_sleep_on(bool sleep_on)
{
	sleeps_on = sleep_on;
}

unsigned agents_asleep(void)
{
	return asleep;
}

void clock_jump(int msec)
{
	ahead += msec * 1000000LL;
}

static struct timespec shifted(const struct timespec *time, long long by)
{
	const long long all = time->tv_sec * (long long)NSEC_PER_SEC + time->tv_nsec + by;

	return (struct timespec){.tv_sec = all / NSEC_PER_SEC, .tv_nsec = all % NSEC_PER_SEC};
}

int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int msec);

/* Until an event, if the agent has nothing to do at a time of its own. */
static int sleep_on(int epoll_fd, struct epoll_event *events, int most, int msec)
{
	int count;

	if (!thread_is_agent || msec < LOOK_MSEC || !sleeps_on)
		return __real_epoll_wait(epoll_fd, events, most, msec);
	asleep++;
	count = __real_epoll_wait(epoll_fd, events, most, -1);
	asleep--;
	return count;
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int msec);

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int most, int msec)
{
	const int count = sleep_on(epoll_fd, events, most, msec), error = errno;

	if (!thread_is_agent || !msec) // or it only looks, perhaps with a lock
		return count;
	pthread_mutex_lock(&lock);
	held++;
	while (holds)
		pthread_cond_wait(&go_on, &lock);
	held--;
	pthread_mutex_unlock(&lock);
	errno = error;
	return count;
}

void connect_slowly(bool slowly)
{
	is_slow = slowly;
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	if (__real_connect(fd, address, length))
		return -1;
	if (!is_slow || address->sa_family == AF_UNIX)
		return 0;
	errno = EINPROGRESS;
	return -1;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int result = __real_clock_gettime(clock, now);

	if (clock == CLOCK_MONOTONIC)
		*now = shifted(now, ahead);
	return result;
}

int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	const struct timespec at = flags & TIMER_ABSTIME ? shifted(time, -ahead) : *time;

	return __real_clock_nanosleep(clock, flags, &at, left);
}

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time);

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time)
{
	const struct timespec at = shifted(time, -ahead);

	return __real_pthread_cond_timedwait(condition, mutex, &at);
}
