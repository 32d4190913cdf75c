/* SPDX-License-Identifier: BSD-2-Clause */
#include "held_calls.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
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

static void wait_here(void)
{
	const struct timespec look = {.tv_nsec = 1000000};

	in_copies++;
	while (copies_held)
		nanosleep(&look, NULL);
	in_copies--;
}

ssize_t __wrap_process_vm_writev(pid_t process, const struct iovec *here, unsigned long here_count, const struct iovec *there,
				 unsigned long there_count, unsigned long flags)
{
	wait_here();
	return __real_process_vm_writev(process, here, here_count, there, there_count, flags);
}

ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at)
{
	wait_here();
	return __real_pread64(fd, to, length, at);
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
