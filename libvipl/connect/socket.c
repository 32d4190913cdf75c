/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of connections: how they are made, what TCP does for them, and how they are closed; how the agent watches them,
 * and what a forked child does with them.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "base/user.h"
#include "inside.h"

/* ---- in the list of what a forked child closes, and watched ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards this: */
static LIST_HEAD(, watched_socket) all = LIST_HEAD_INITIALIZER(all);

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* A peer shall hear of its parent's end, also if the child lives on. */
static void in_child(void)
{
	struct watched_socket *watched;

	while ((watched = LIST_FIRST(&all))) {
		LIST_REMOVE(watched, in_process);
		fd_close(watched->fd);
		watched->fd = -1;
	}
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* Does nothing to an epoll descriptor of the program's that has the number of ours by now. 0 or errno. */
static int change(const struct connector *connector, int operation, struct watched_socket *watched, int fd, unsigned events)
{
	struct epoll_event event = {.events = events, .data.ptr = watched};

	if (!fd_is_own(connector->epoll_fd))
		return EBADF;
	return epoll_ctl(connector->epoll_fd, operation, fd, &event) ? errno : 0;
}

static void lock_all(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
}

/* The lock is held. errno stays as it is. */
static void hold(struct watched_socket *held, int fd)
{
	held->fd = fd_mark(fd_above_standard(fd));
	if (held->fd >= 0)
		LIST_INSERT_HEAD(&all, held, in_process);
}

int socket_open(struct watched_socket *held, const struct place *place)
{
	const int family = place->address.ss_family, type = family == AF_UNIX ? SOCK_SEQPACKET : SOCK_STREAM;

	lock_all();
	hold(held, socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	pthread_mutex_unlock(&lock);
	return held->fd < 0 ? errno : 0;
}

int socket_accept(struct watched_socket *held, int listener, struct sockaddr *from, socklen_t *length)
{
	lock_all();
	hold(held, accept4(listener, from, length, SOCK_CLOEXEC | SOCK_NONBLOCK));
	pthread_mutex_unlock(&lock);
	return held->fd;
}

void socket_hold(struct watched_socket *held, int fd)
{
	held->fd = fd;
	if (fd < 0)
		return;
	lock_all();
	LIST_INSERT_HEAD(&all, held, in_process);
	pthread_mutex_unlock(&lock);
}

void socket_settle(struct watched_socket *held)
{
	if (held->fd < 0)
		return;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(held, in_process);
	pthread_mutex_unlock(&lock);
}

int socket_watch(struct connector *connector, struct watched_socket *watched, int fd, unsigned events)
{
	int error = change(connector, EPOLL_CTL_ADD, watched, fd, events);

	if (error)
		return error;
	watched->fd = fd_mark(fd);
	lock_all();
	LIST_INSERT_HEAD(&all, watched, in_process);
	pthread_mutex_unlock(&lock);
	return 0;
}

void socket_watch_for(struct connector *connector, struct watched_socket *watched, unsigned events)
{
	change(connector, EPOLL_CTL_MOD, watched, watched->fd, events);
}

void socket_unwatch(struct connector *connector, struct watched_socket *watched)
{
	change(connector, EPOLL_CTL_DEL, watched, watched->fd, 0);
}

int socket_release(struct connector *connector, struct watched_socket *watched)
{
	int fd = watched->fd;

	if (fd < 0)
		return -1;
	watched->fd = -1;
	pthread_mutex_lock(&lock);
	LIST_REMOVE(watched, in_process);
	pthread_mutex_unlock(&lock);
	if (!fd_is_own(fd)) /* the program has closed it, and it may be the program's */
		return -1;
	/* To close it would not do, should a child of vfork() have it, too. */
	change(connector, EPOLL_CTL_DEL, watched, fd, 0);
	return fd;
}

/* ---- what they need, and their end ---- */

void socket_prepare(int fd)
{
	const int on = 1, seconds = (int)config()->keepalive_sec, msec = seconds * 1000;
	const int idle = seconds > 2 ? seconds / 2 : 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!seconds)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &msec, sizeof(msec));
}

void socket_close(int fd, bool is_local, bool at_once)
{
	const struct linger none = {.l_onoff = 1};

	if (is_local) {
		strange_close(fd);
		return;
	}
	/* A port that was in use rests for a minute, unless it is reset. */
	if (at_once)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

const char *socket_hint(int error, const char *calls)
{
	switch (error) {
	case EMFILE:
		return " (see ulimit -n)";
	case EADDRNOTAVAIL:
		return " (all ports are in use: see net.ipv4.ip_local_port_range)";
	case ETOOMANYREFS:
		return " (a process has not received yet what it was sent, and that counts against ulimit -n of this user: "
		       "is one stopped?)";
	case EACCES:
		return user_hint(error);
	default:
		return is_refused(error) ? filter_hint(error, calls) : memory_hint(error);
	}
}
