/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a NIC's agent looks after, by one epoll descriptor. The NIC's lock is held. */
#ifndef VIPL_WATCH_H
#define VIPL_WATCH_H

#include <sys/epoll.h>

struct watch {
	_Atomic int fd; /* -1: none */
	void (*ready)(struct watch *watch);
};

/* Takes the descriptor, which is marked, or not: 0 or errno. `events` as of epoll. */
int watch_begin(int epoll_fd, struct watch *watch, int fd, unsigned events);
/* Waits for other events; with 0 for none. */
void watch_for(int epoll_fd, struct watch *watch, unsigned events);
/* Returns the descriptor, which is the caller's now; or -1 when there is none, or the program has closed it. */
int watch_end(int epoll_fd, struct watch *watch);
/* Calls those that are ready. Not for ever: then it is the turn of the NIC's other work. */
void watch_serve(int epoll_fd);

#endif
