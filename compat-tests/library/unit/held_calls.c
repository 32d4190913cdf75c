/* SPDX-License-Identifier: BSD-2-Clause */
#include "held_calls.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

static atomic_bool clock_held, copies_held;
static struct timespec held_at;
static _Atomic unsigned in_copies;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
ssize_t __real_process_vm_writev(pid_t process, const struct iovec *here, unsigned long here_count, const struct iovec *there,
				 unsigned long there_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t process, const struct iovec *here, unsigned long here_count, const struct iovec *there,
				 unsigned long there_count, unsigned long flags);
ssize_t __real_pread64(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at);

void hold_clock(bool is_held)
{
	if (is_held)
		__real_clock_gettime(CLOCK_MONOTONIC, &held_at);
	clock_held = is_held;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!clock_held)
		return __real_clock_gettime(clock, now);
	*now = held_at;
	return 0;
}

void hold_copies(bool are_held)
{
	copies_held = are_held;
}

unsigned held_copies(void)
{
	return in_copies;
}

static void wait_here(atomic_bool *held, _Atomic unsigned *count)
{
	const struct timespec look = {.tv_nsec = 1000000};

	(*count)++;
	while (*held)
		nanosleep(&look, NULL);
	(*count)--;
}

ssize_t __wrap_process_vm_writev(pid_t process, const struct iovec *here, unsigned long here_count, const struct iovec *there,
				 unsigned long there_count, unsigned long flags)
{
	wait_here(&copies_held, &in_copies);
	return __real_process_vm_writev(process, here, here_count, there, there_count, flags);
}

ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at)
{
	wait_here(&copies_held, &in_copies);
	return __real_pread64(fd, to, length, at);
}

static atomic_bool stops_held;
static _Atomic unsigned in_stops;
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before);

void hold_stops_of_timer(bool are_held)
{
	stops_held = are_held;
}

unsigned held_stops_of_timer(void)
{
	return in_stops;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *time, struct itimerspec *before)
{
	if (!time->it_value.tv_nsec)
		wait_here(&stops_held, &in_stops);
	return __real_timerfd_settime(fd, flags, time, before);
}

static _Atomic unsigned to_fail;

void fail_wakes(unsigned count)
{
	to_fail = count;
}

unsigned wakes_to_fail(void)
{
	return to_fail;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (message->msg_iovlen != 1 || message->msg_iov->iov_len != 1 || !to_fail)
		return __real_sendmsg(fd, message, flags);
	to_fail--;
	errno = ENOBUFS;
	return -1;
}
