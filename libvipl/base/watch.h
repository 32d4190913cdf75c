/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a NIC's agent looks after, by one epoll descriptor. The NIC's lock is held. */
#ifndef VIPL_WATCH_H
#define VIPL_WATCH_H

#include <stdbool.h>
#include <sys/epoll.h>

struct watch {
	_Atomic int fd; /* -1: none */
	unsigned events;
	void (*ready)(struct watch *watch);
};

/* Takes a marked descriptor. Returns 0 or errno; EBADF: it has no mark. `events` are those of epoll. */
int watch_begin(int epoll_fd, struct watch *watch, int fd, unsigned events);
/* From now on the descriptor is looked after for these events; 0: for none. */
void watch_for(int epoll_fd, struct watch *watch, unsigned events);
/* Whether the descriptor is ready: watch_serve() is going to find it. */
bool watch_has_event(const struct watch *watch);
/* Returns the descriptor, which is the caller's now; or -1 when there is none, or the program has closed it. */
int watch_end(int epoll_fd, struct watch *watch);
/* Calls those that are ready. Not for ever: then it is the turn of the NIC's other work. */
void watch_serve(int epoll_fd);

#endif
