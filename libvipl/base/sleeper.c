/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping by epoll, and waking by epoll_ctl(). */
#include "sleeper.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "fd.h"
#include "futex.h"
#include "thread.h"

/*
 * A thread sleeps no longer than this: then it looks whether its descriptors are there, and the agent sees deadlines that other
 * threads have set. WIRE.md's times rest on it.
 */
#define LOOK_MSEC 1000
#define LOST_MSEC 50   /* how long it sleeps without them */

static int change_source(struct sleeper *sleeper, int operation, unsigned source, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = &sleeper->sources[source]};
	int error = EBADF;

	/* Another file that has the number meanwhile may be refused, as if a filter did that. */
	if (fd_is_own(sleeper->epoll_fd) && (operation != EPOLL_CTL_ADD || fd_is_own(fd))) {
		if (!epoll_ctl(sleeper->epoll_fd, operation, fd, &event))
			return 0;
		error = errno;
		if (!fd_is_own(fd))
			error = EBADF;
	}
	return cause("epoll_ctl()", error);
}

int sleeper_init(struct sleeper *sleeper, int always_fd)
{
	int error;

	*sleeper = (struct sleeper){.always_fd = always_fd, .owns_always = always_fd < 0};
	sleeper->epoll_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	if (sleeper->epoll_fd < 0)
		return errno;
	if (sleeper->owns_always)
		sleeper->always_fd = fd_keep(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd()");
	error = sleeper->always_fd < 0 ? errno : change_source(sleeper, EPOLL_CTL_ADD, SLEEPER_WOKEN, sleeper->always_fd, 0);
	if (error)
		sleeper_destroy(sleeper);
	return error;
}

void sleeper_destroy(struct sleeper *sleeper)
{
	fd_close(sleeper->epoll_fd);
	if (sleeper->owns_always)
		fd_close(sleeper->always_fd);
}

int sleeper_watch(struct sleeper *sleeper, unsigned source, int fd)
{
	return fd < 0 ? 0 : change_source(sleeper, EPOLL_CTL_ADD, source, fd, EPOLLIN);
}

void sleeper_ignore(struct sleeper *sleeper, unsigned source, int fd, bool ignore)
{
	change_source(sleeper, EPOLL_CTL_MOD, source, fd, ignore ? 0 : EPOLLIN);
}

void sleeper_lose(struct sleeper *sleeper, const char *call, int error)
{
	if (sleeper_is_lost(sleeper))
		return;
	atomic_store(&sleeper->lost_error, error);
	atomic_store(&sleeper->lost_by, call);
}

/* If another file has either of the numbers this fails, and does nothing. */
void sleeper_wake(struct sleeper *sleeper)
{
	int error = change_source(sleeper, EPOLL_CTL_MOD, SLEEPER_WOKEN, sleeper->always_fd, EPOLLIN | EPOLLONESHOT);

	if (error)
		sleeper_lose(sleeper, "epoll_ctl()", error);
}

bool sleeper_has_event(const struct sleeper *sleeper)
{
	struct pollfd events = {.fd = sleeper->epoll_fd, .events = POLLIN};

	return poll(&events, 1, 0) != 0; /* true also if it cannot tell */
}

/* Only our own epoll descriptor returns an address of one of its sources. */
static unsigned source_bit(const struct sleeper *sleeper, const struct epoll_event *event)
{
	uintptr_t source = (uintptr_t)event->data.ptr - (uintptr_t)sleeper->sources;

	return source < SLEEPER_SOURCES ? 1u << source : 0;
}

unsigned sleeper_sleep(struct sleeper *sleeper, int msec)
{
	struct epoll_event events[SLEEPER_SOURCES];
	unsigned ready = 0;
	int count;

	if (msec < 0 || msec > LOOK_MSEC)
		msec = LOOK_MSEC;
	if (sleeper_is_lost(sleeper)) {
		futex_rest((msec < LOST_MSEC ? msec : LOST_MSEC) * NSEC_PER_MSEC);
		return 0;
	}
	/* An epoll descriptor of the program's would give us its events. Threads of the program do not ask, for speed. */
	if (thread_is_library && !fd_is_own(sleeper->epoll_fd)) {
		sleeper_lose(sleeper, "epoll_wait()", EBADF);
		return 0;
	}
	count = epoll_wait(sleeper->epoll_fd, events, SLEEPER_SOURCES, msec);
	for (int i = 0; i < count; i++)
		ready |= source_bit(sleeper, &events[i]);
	if ((count > 0 && !ready) || (count < 0 && errno != EINTR))
		sleeper_lose(sleeper, "epoll_wait()", count < 0 ? errno : EBADF);
	if (!msec)
		return ready;
	sleeper->unchecked_msec = count ? 0 : sleeper->unchecked_msec + msec;
	if (sleeper->unchecked_msec >= LOOK_MSEC)
		sleeper_wake(sleeper); /* can it still? */
	return ready;
}
