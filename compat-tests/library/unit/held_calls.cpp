// SPDX-License-Identifier: BSD-2-Clause
#include "held_calls.h"

#include <cerrno>
#include <ctime>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

std::atomic<bool> copies_held{false}, stops_held{false};
std::atomic<unsigned> in_copies{0}, in_stops{0}, wakes_to_fail{0};

static std::atomic<bool> clock_held{false};
static timespec held_at;

static void wait_here(const std::atomic<bool> &held, std::atomic<unsigned> &count)
{
	const timespec look = {0, 1000000};

	count++;
	while (held)
		nanosleep(&look, nullptr);
	count--;
}

extern "C" {
int __real_clock_gettime(clockid_t clock, timespec *now);
int __wrap_clock_gettime(clockid_t clock, timespec *now)
{
	if (!clock_held)
		return __real_clock_gettime(clock, now);
	*now = held_at;
	return 0;
}

ssize_t __real_process_vm_writev(pid_t process, const iovec *here, unsigned long here_count, const iovec *there,
				 unsigned long there_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t process, const iovec *here, unsigned long here_count, const iovec *there,
				 unsigned long there_count, unsigned long flags)
{
	wait_here(copies_held, in_copies);
	return __real_process_vm_writev(process, here, here_count, there, there_count, flags);
}

ssize_t __real_pread64(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at)
{
	wait_here(copies_held, in_copies);
	return __real_pread64(fd, to, length, at);
}

int __real_timerfd_settime(int fd, int flags, const itimerspec *time, itimerspec *before);
int __wrap_timerfd_settime(int fd, int flags, const itimerspec *time, itimerspec *before)
{
	if (!time->it_value.tv_nsec)
		wait_here(stops_held, in_stops);
	return __real_timerfd_settime(fd, flags, time, before);
}

ssize_t __real_sendmsg(int fd, const msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const msghdr *message, int flags)
{
	if (message->msg_iovlen != 1 || message->msg_iov->iov_len != 1 || !wakes_to_fail)
		return __real_sendmsg(fd, message, flags);
	wakes_to_fail--;
	errno = ENOBUFS;
	return -1;
}
}

void hold_clock(bool is_held)
{
	if (is_held)
		__real_clock_gettime(CLOCK_MONOTONIC, &held_at);
	clock_held = is_held;
}
