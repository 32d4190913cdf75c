/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets of a NIC's connections: making and closing them, what TCP does for them, their deadlines, and forked children. */
#include "socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/config.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/forks.h"
#include "base/strange.h"

#define MOST_OF_CROWD 64u

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

/* ---- in the list of what a forked child closes ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards this: */
static LIST_HEAD(, watched_socket) all = LIST_HEAD_INITIALIZER(all);

/* A peer shall hear of its parent's end, also if the child lives on. */
static void close_in_child(void)
{
	struct watched_socket *watched;

	while ((watched = LIST_FIRST(&all))) {
		LIST_REMOVE(watched, in_process);
		fd_close(watched->fd);
		watched->fd = -1;
	}
}

LOCK_OVER_FORKS(sockets, lock, close_in_child)

/* Takes a new descriptor, or -1, of this call, and unlocks. 0 or errno. */
static int keep(struct watched_socket *watched, int fd, const char *call)
{
	int error;

	watched->fd = fd_keep(fd, call);
	error = errno;
	if (watched->fd >= 0)
		LIST_INSERT_HEAD(&all, watched, in_process);
	pthread_mutex_unlock(&lock);
	return watched->fd < 0 ? error : 0;
}

void socket_init(struct watched_socket *watched, struct connector *connector, void (*ready)(struct watch *watch),
		 void (*expired)(struct watched_socket *watched))
{
	*watched = (struct watched_socket){.watch = {.fd = -1, .ready = ready},
					   .fd = -1,
					   .connector = connector,
					   .expired = expired,
					   .deadline = DEADLINE_NEVER};
}

int socket_open(struct watched_socket *watched, const struct place *place)
{
	const int family = place->address.ss_family, type = family == AF_UNIX ? SOCK_SEQPACKET : SOCK_STREAM;

	watched->is_local = family == AF_UNIX;
	sockets_lock(); /* before there is a socket that a child could get */
	return keep(watched, socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket()");
}

int socket_accept(struct watched_socket *watched, const struct watched_socket *listener, struct sockaddr_storage *from)
{
	socklen_t length = sizeof(*from);

	watched->is_local = listener->is_local;
	sockets_lock();
	return keep(watched, accept4(listener->fd, (struct sockaddr *)from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK), "accept4()");
}

int socket_move(struct watched_socket *from, struct watched_socket *to)
{
	socket_unwatch(from);
	to->is_local = from->is_local;
	pthread_mutex_lock(&lock);
	if (from->fd >= 0) {
		LIST_REMOVE(from, in_process);
		LIST_INSERT_HEAD(&all, to, in_process);
	}
	to->fd = from->fd;
	from->fd = -1;
	pthread_mutex_unlock(&lock);
	return socket_watch(to, EPOLLIN | EPOLLRDHUP);
}

void socket_close(struct watched_socket *watched, bool at_once)
{
	const struct linger none = {.l_onoff = 1};
	int fd = watched->fd;

	socket_unwatch(watched);
	if (fd < 0)
		return;
	/* A port that was in use rests for a minute, unless it is reset. */
	if (!watched->is_local && at_once && fd_is_own(fd))
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	if (!watched->is_local || !fd_is_own(fd)) /* or the program has closed it, and it may be the program's */
		fd_close(fd);
	else if (watched->half_open)
		strange_close_listener(fd);
	else
		strange_close(fd);
	pthread_mutex_lock(&lock);
	LIST_REMOVE(watched, in_process);
	watched->fd = -1;
	pthread_mutex_unlock(&lock);
}

ssize_t socket_send(int fd, void *data, size_t length, const int *fds, unsigned fd_count)
{
	const size_t size = fd_count * sizeof(int);
	union socket_fds control = {
		.header = {.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec bytes = {data, length};
	struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

	if (fd_count) {
		memcpy(CMSG_DATA(&control.header), fds, size);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(size);
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- watched, and for how long ---- */

int socket_watch(struct watched_socket *watched, unsigned events)
{
	const int epoll_fd = watched->connector->device->event_fd;

	if (atomic_load(&watched->watch.fd) < 0)
		return watch_begin(epoll_fd, &watched->watch, watched->fd, events);
	watch_for(epoll_fd, &watched->watch, events);
	return 0;
}

void socket_unwatch(struct watched_socket *watched)
{
	watch_end(watched->connector->device->event_fd, &watched->watch);
	socket_set_deadline(watched, DEADLINE_NEVER);
	if (watched->crowd)
		--*watched->crowd;
	watched->crowd = NULL;
}

bool socket_is_quiet(const struct watched_socket *watched)
{
	struct iovec place = {&(char){0}, 1};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	return fd_is_own(watched->fd) && recvmsg(watched->fd, &message, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* From the tail, because most deadlines are the latest. */
void socket_set_deadline(struct watched_socket *watched, int64_t deadline)
{
	struct expiring *expiring = &watched->connector->expiring;
	struct watched_socket *before;

	if (watched->deadline != DEADLINE_NEVER)
		TAILQ_REMOVE(expiring, watched, in_expiring);
	watched->deadline = deadline;
	if (deadline == DEADLINE_NEVER)
		return;
	TAILQ_FOREACH_REVERSE(before, expiring, expiring, in_expiring)
		if (before->deadline <= deadline)
			break;
	if (before)
		TAILQ_INSERT_AFTER(expiring, before, watched, in_expiring);
	else
		TAILQ_INSERT_HEAD(expiring, watched, in_expiring);
}

void socket_set_time(struct watched_socket *watched, int64_t nsec)
{
	socket_set_deadline(watched, clock_nsec() + nsec);
}

/* What has come to a socket is heard soon, and then that is no longer one of the crowd: its time is not over. */
void crowd_enter(struct watched_socket *watched, unsigned *crowd)
{
	struct watched_socket *first;

	watched->crowd = crowd;
	if (++*crowd <= MOST_OF_CROWD)
		return;
	TAILQ_FOREACH(first, &watched->connector->expiring, in_expiring)
		if (first->crowd == crowd && first != watched && !watch_has_event(&first->watch))
			break;
	if (first)
		first->expired(first);
}

/* Each of a crowd has a deadline. */
void crowd_end(struct connector *connector, unsigned *crowd)
{
	struct watched_socket *watched, *next;

	for (watched = TAILQ_FIRST(&connector->expiring); watched; watched = next) {
		next = TAILQ_NEXT(watched, in_expiring);
		if (watched->crowd == crowd)
			watched->expired(watched);
	}
}

/* ---- those whose time is over ---- */

/* This thread may be late. So it hears first what has come in time; each call takes some of that, or ends its socket. */
static void expire(struct watched_socket *watched)
{
	if (watch_has_event(&watched->watch)) {
		watched->watch.ready(&watched->watch);
		return;
	}
	socket_set_deadline(watched, DEADLINE_NEVER);
	watched->expired(watched);
}

int64_t connector_serve(struct connector *connector)
{
	const int64_t now = clock_nsec();
	struct watched_socket *first;
	int64_t rested;

	while ((first = TAILQ_FIRST(&connector->expiring)) && first->deadline <= now)
		expire(first);
	if (!first)
		return DEADLINE_NEVER;
	rested = clock_nsec() * 2 - now; /* other threads get the NIC's lock for as long as this has taken */
	return first->deadline > rested ? first->deadline : rested;
}

/* ---- what they need ---- */

/* One of this host's. It can be told by what may be bound, if not any address may (ip_nonlocal_bind). */
static bool is_own_host(const struct in6_addr *host)
{
	struct sockaddr_storage address;
	const socklen_t length = host_to_socket(host, 0, &address);
	const int fd = fd_keep(socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket()");
	const bool is_own = fd < 0 || !bind(fd, (struct sockaddr *)&address, length);

	fd_close(fd);
	return is_own;
}

/*
 * Where several interfaces are in a network, the system may send by any. But the connection is to end with the way that data takes.
 * Without Linux 5.7 or privilege it does without. Within a host packets go by no interface.
 */
static void keep_to_interface(const struct watched_socket *watched, const struct in6_addr *host)
{
	struct device *device = watched->connector->device;
	struct in6_addr own;
	struct place from;
	int interface;

	if (!device->ops->source)
		return;
	device->ops->source(device, host, &from);
	own = host_from_socket((struct sockaddr *)&from.address);
	interface = (int)from.interface;
	if (interface && !host_equal(host, &own) && !is_own_host(host))
		setsockopt(watched->fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof(interface));
}

void socket_prepare(const struct watched_socket *watched, const struct in6_addr *host)
{
	const int on = 1, seconds = (int)config()->keepalive_sec, msec = seconds * 1000, fd = watched->fd;

	if (watched->is_local)
		return;
	keep_to_interface(watched, host);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!seconds)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	/* The silence counts from the last packet: a break in the network may last for all of it but this second and the next. */
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &msec, sizeof(msec));
}
