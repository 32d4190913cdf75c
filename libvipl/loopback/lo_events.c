/* SPDX-License-Identifier: BSD-2-Clause */
/* The file descriptors that the device's epoll descriptor is for, and the timer, which is one of them. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/fd.h"
#include "base/strange.h"
#include "loopback.h"

int loopback_watch(struct loopback_device *device, struct watch *watch, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = watch};

	if (!fd_is_own(device->base.event_fd))
		return EBADF;
	if (epoll_ctl(device->base.event_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	watch->fd = fd_mark(fd);
	return 0;
}

void loopback_leave_alone(struct loopback_device *device, struct watch *watch, bool for_now)
{
	struct epoll_event event = {.events = for_now ? 0 : EPOLLIN | EPOLLRDHUP, .data.ptr = watch};

	if (fd_is_own(device->base.event_fd))
		epoll_ctl(device->base.event_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

int loopback_release(struct loopback_device *device, struct watch *watch)
{
	int fd = atomic_exchange(&watch->fd, -1);

	/* To close it would not do, should a forked child have the descriptor, too. */
	if (fd >= 0 && fd_is_own(device->base.event_fd))
		epoll_ctl(device->base.event_fd, EPOLL_CTL_DEL, fd, NULL);
	return fd;
}

void loopback_unwatch(struct loopback_device *device, struct watch *watch)
{
	int fd = loopback_release(device, watch);

	if (fd_is_own(fd))
		strange_close(fd);
}

void loopback_set_timer(struct loopback_device *device, long milliseconds)
{
	struct itimerspec tick = {.it_value = {.tv_sec = milliseconds / 1000,
					       .tv_nsec = milliseconds % 1000 * 1000000}};

	if (fd_is_own(device->timer.fd) && timerfd_settime(device->timer.fd, 0, &tick, NULL))
		device_lost(device->nic, "timerfd_settime()", errno);
}

void loopback_slow_tick(struct loopback_device *device)
{
	loopback_set_timer(device, SLOW_TICK_MSEC);
	if (atomic_load(&device->ticks) || atomic_load(&device->left_alone.any)) /* already, or just now */
		loopback_set_timer(device, TICK_MSEC);
}
