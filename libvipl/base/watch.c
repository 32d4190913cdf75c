/* SPDX-License-Identifier: BSD-2-Clause */
/* Watching descriptors. The program may close any, and the epoll's, and then have files of its own with their numbers. */
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>

#include "fd.h"

#define EVENTS_AT_ONCE 64u

static int change(int epoll_fd, int operation, struct watch *watch, int fd, unsigned events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};

	if (!fd_is_own(epoll_fd))
		return EBADF;
	return epoll_ctl(epoll_fd, operation, fd, &event) ? errno : 0;
}

int watch_begin(int epoll_fd, struct watch *watch, int fd, unsigned events)
{
	int error = fd_is_own(fd) ? change(epoll_fd, EPOLL_CTL_ADD, watch, fd, events) : EBADF;

	watch->events = events;
	if (error)
		return cause("epoll_ctl()", error);
	atomic_store(&watch->fd, fd);
	return 0;
}

void watch_for(int epoll_fd, struct watch *watch, unsigned events)
{
	watch->events = events;
	change(epoll_fd, EPOLL_CTL_MOD, watch, atomic_load(&watch->fd), events);
}

bool watch_has_event(const struct watch *watch)
{
	struct pollfd events = {.fd = atomic_load(&watch->fd), .events = (short)watch->events};

	return fd_is_own(events.fd) && poll(&events, 1, 0) > 0;
}

int watch_end(int epoll_fd, struct watch *watch)
{
	int fd = atomic_exchange(&watch->fd, -1);

	if (!fd_is_own(fd))
		return -1;
	/* To close it would not do, should a child have it, too. */
	change(epoll_fd, EPOLL_CTL_DEL, watch, fd, 0);
	return fd;
}

void watch_serve(int epoll_fd)
{
	struct epoll_event event;

	/* One at a time: what one event does may end what another one is about. */
	for (unsigned i = 0; i < EVENTS_AT_ONCE && fd_is_own(epoll_fd) && epoll_wait(epoll_fd, &event, 1, 0) > 0; i++) {
		struct watch *watch = event.data.ptr;

		watch->ready(watch);
	}
}
