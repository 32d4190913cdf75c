/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control connections. rdma_cm's messages about the beginning and the end of a connection may be lost. They are repeated
 * after seconds, or not at all, and no message says that a host has died. So two NICs whose VIs are connected also have a
 * TCP connection, one for all their VIs. TCP repeats lost messages. Its keepalive finds out whether the other host and
 * process are there. Kernels answer it, so a stopped process counts as there, and the program spends no time on it.
 *
 * VIs also work without it, for example behind a firewall. Then news comes as rdma_cm brings it, and pings find out
 * whether the other host is there.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control.h"
#include "base/config.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"

#define AWAIT_NSEC	NSEC_PER_SEC /* the peer makes it within a round trip */
#define TRY_AGAIN_NSEC	INT64_C(10000000000)
#define LOOK_NSEC	INT64_C(500000000)
#define REOPEN_NSEC	INT64_C(1500000000)

/* One that is up if there is any, and not this one. */
static struct control *find_besides(const struct control *not, const struct verbs_device *device,
				    const struct in6_addr *host, uint16_t port)
{
	struct control *control, *found = NULL;

	TAILQ_FOREACH(control, &device->control.all, in_device)
		if (control != not && control_is_with(control, host, port) &&
		    (!found || control->state == CONTROL_UP))
			found = control;
	return found;
}

struct control *control_find(const struct verbs_device *device, const struct in6_addr *host, uint16_t port)
{
	return find_besides(NULL, device, host, port);
}

/* Both ends may have made one. */
static struct control *other_than(const struct control *control)
{
	return find_besides(control, control->device, &control->host, control->port);
}

int control_watch(struct verbs_device *device, int operation, int fd, void *what, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	if (!fd_is_own(device->control.epoll_fd)) {
		errno = EBADF;
		return -1;
	}
	return epoll_ctl(device->control.epoll_fd, operation, fd, &event);
}

/* How long it may be silent, and that it does not wait to fill a packet. */
static void set_options(int fd)
{
	const int on = 1, second = 1, limit = (int)config()->keepalive_sec * 1000;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
}

static void close_connection(struct control *control)
{
	struct verbs_device *device = control->device;

	device->control.accepted -= control->is_accepted;
	control->is_accepted = false;
	control->state = CONTROL_AWAITED;
	control->have = 0;
	if (control->fd < 0)
		return;
	/* Closing alone would neither end the events nor tell the peer, should a forked child have the socket, too. */
	control_watch(device, EPOLL_CTL_DEL, control->fd, NULL, 0);
	if (!control->error) /* else closing resets it */
		fd_shutdown(control->fd);
	fd_close(control->fd);
	control->fd = -1;
	control->error = 0;
}

void control_forget(struct control *control)
{
	close_connection(control);
	ping_drop(&control->ping);
	TAILQ_REMOVE(&control->device->control.all, control, in_device);
	control->device->control.count--;
	free(control);
}

void control_drop(struct control *control)
{
	if (control->fd >= 0)
		control_reset(control, ECONNRESET);
	control_forget(control);
}

/* NULL when there is no memory for it. */
static struct control *create(struct verbs_device *device, const struct in6_addr *host, uint16_t port)
{
	struct control *control = calloc(1, sizeof(*control));

	if (!control)
		return NULL;
	control->device = device;
	control->fd = -1;
	control->host = *host;
	control->port = port;
	control->made = clock_nsec();
	control->deadline = control->made + AWAIT_NSEC;
	control->check_at = control->deadline;
	ping_init(&control->ping, device, host);
	TAILQ_INSERT_TAIL(&device->control.all, control, in_device);
	device->control.count++;
	return control;
}

bool control_adopt(struct verbs_device *device, int fd, const struct in6_addr *host)
{
	struct control *control = create(device, host, 0);

	if (!control || control_watch(device, EPOLL_CTL_ADD, fd, control, EPOLLIN)) {
		close(fd);
		if (control)
			control_forget(control);
		return false;
	}
	set_options(fd);
	control->fd = fd;
	control->state = CONTROL_STRANGER;
	control->deadline = DEADLINE_NEVER;
	control->is_accepted = true;
	device->control.accepted++;
	return true;
}

int control_socket(struct verbs_device *device, const struct in6_addr *host,
		   struct sockaddr_storage *own)
{
	const struct in6_addr *own_host = verbs_own_host(device, host);
	int fd, error;

	if (!own_host) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	verbs_socket(device, own_host, 0, own);
	fd = fd_keep(socket(own->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0 || !bind(fd, (struct sockaddr *)own, sizeof(*own)))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Connects to where the NIC at the other end takes connections. 0 or errno. */
static int dial(struct control *control)
{
	struct sockaddr_storage own, to;
	int error;

	control->fd = control_socket(control->device, &control->host, &own);
	if (control->fd < 0)
		return errno;
	control->state = CONTROL_CONNECTING;
	control->deadline = DEADLINE_NEVER;
	set_options(control->fd);
	verbs_socket(control->device, &control->host, control->port, &to);
	if ((!connect(control->fd, (struct sockaddr *)&to, sizeof(to)) || errno == EINPROGRESS) &&
	    !control_watch(control->device, EPOLL_CTL_ADD, control->fd, control, EPOLLIN | EPOLLOUT))
		return 0;
	error = errno;
	close_connection(control);
	return error;
}

/* The connection cannot be made now. */
static void put_off(struct control *control, int error)
{
	int64_t now = clock_nsec();

	log_warning_ratelimited("no control connection with a peer (is there a firewall, or has its host died?): "
				"rdma_cm asks its host from time to time: %s%s",
				error ? strerror(error) : "refused",
				error == EMFILE ? " (see ulimit -n)" : "");
	control->deadline = control->was_taken && !control->was_put_off ? now : now + TRY_AGAIN_NSEC;
	control->was_put_off = true;
}

void control_want(struct verbs_endpoint *endpoint, bool is_ours)
{
	struct verbs_device *device = endpoint->device;
	const struct in6_addr *host = &endpoint->peer.host, *own = verbs_own_host(device, host);
	uint16_t port = endpoint->peer_extra.port;
	struct control *control;
	int error;

	if (control_is_off(device) || !port)
		return;
	if (own && host_equal(own, host) && port == control_port(device, host))
		return; /* this NIC itself lives as long as we do */
	control = control_find(device, host, port);
	if (!control)
		control = create(device, host, port);
	if (!control || control->state != CONTROL_AWAITED)
		return;
	error = is_ours ? dial(control) : 0;
	if (error)
		put_off(control, error);
	verbs_timer_start(device);
	control_make_room(device);
}

bool control_is_needed(const struct verbs_device *device, const struct in6_addr *host, uint16_t port)
{
	const struct verbs_endpoint *endpoint;

	LIST_FOREACH(endpoint, &device->endpoints, in_device)
		if (control_is_peers(endpoint, host, port))
			return true;
	return false;
}

/* The NIC at the other end is gone. */
static void lose(struct control *control)
{
	struct verbs_device *device = control->device;
	struct in6_addr host = control->host;
	uint16_t port = control->port;
	struct verbs_endpoint *endpoint;

	control_forget(control);
	LIST_FOREACH(endpoint, &device->endpoints, in_device)
		if (control_is_peers(endpoint, &host, port))
			verbs_ended(endpoint);
}

/* This process or its host has no room, which says nothing about the peer. */
static bool is_lack(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS ||
	       error == ENOSPC || error == EADDRINUSE;
}

/* One that was up has failed, and this takes its place; or all is lost. */
static void try_once_more(struct control *control)
{
	int error = control->state == CONTROL_AWAITED ? dial(control) : 0;

	if (is_lack(error)) {
		control->was_taken = true;
		put_off(control, error);
		verbs_timer_start(control->device);
		return;
	}
	if (error) {
		lose(control);
		return;
	}
	control->is_last = true;
	control->deadline = clock_nsec() + REOPEN_NSEC;
	verbs_timer_start(control->device);
}

static bool is_silence(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

void control_ended(struct control *control, int error)
{
	enum control_state state = control->state;
	struct control *other = state == CONTROL_STRANGER ? NULL : other_than(control);
	bool was_there = state == CONTROL_UP || (state == CONTROL_GREETING && is_silence(error));
	bool is_gone = control->is_last || (control->was_taken && error == ECONNREFUSED) ||
		       (state == CONTROL_UP && (!error || error == EPROTO));

	log_debug("control connection: %s", error ? strerror(error) : "closed by the peer");
	control->was_reset = error == ECONNRESET;
	close_connection(control);
	if (state == CONTROL_STRANGER) {
		control_forget(control);
	} else if (other) { /* it knows better, or will */
		control_forget(control);
		if (other->state != CONTROL_UP && (was_there || is_gone))
			try_once_more(other);
	} else if (is_gone) {
		lose(control);
	} else if (was_there && !control_is_needed(control->device, &control->host, control->port)) {
		control_forget(control); /* the other end has too many, or is silent: no matter */
	} else if (was_there) {
		try_once_more(control);
	} else {
		put_off(control, error);
	}
}

static void connected(struct control *control)
{
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(control->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		control_ended(control, error);
		return;
	}
	/* The peer's kernel is there, even if its process is stopped. */
	control->state = CONTROL_GREETING;
	control->was_taken = true;
	if (!control->was_reset) /* of a process that is stopped there is no reset */
		control->deadline = DEADLINE_NEVER;
	control_watch(control->device, EPOLL_CTL_MOD, control->fd, control, EPOLLIN);
	control_send(control, WIRE_HELLO, 0, 0, 0);
}

void control_serve(struct verbs_device *device)
{
	struct epoll_event event;

	/* One at a time: what one tells may be the end of another. */
	for (unsigned i = 0; i < VERBS_EVENTS_AT_ONCE; i++) {
		struct control *control;

		if (!fd_is_own(device->control.epoll_fd) || epoll_wait(device->control.epoll_fd, &event, 1, 0) != 1)
			return;
		control = event.data.ptr;
		if (event.data.ptr == &device->control.listeners[0] ||
		    event.data.ptr == &device->control.listeners[1])
			control_accept(device, event.data.ptr);
		else if (control->state == CONTROL_CONNECTING && event.events & EPOLLOUT)
			connected(control);
		else
			control_receive(control, event.events);
	}
}

/*
 * Of one that is not up yet: false when it is not there any more. The other end may rely on one that has
 * said hello, even where another one is up, or there is no use for it here.
 */
static bool look_after(struct control *control, int64_t now)
{
	const struct control *other = other_than(control);
	bool is_needed = control_is_needed(control->device, &control->host, control->port) &&
			 !(other && other->state == CONTROL_UP);
	int error = 0;

	control->check_at = now + LOOK_NSEC;
	if (!is_needed && control->state == CONTROL_GREETING)
		return true;
	if (!is_needed) {
		control_forget(control);
		return false;
	}
	if (ping_tick(&control->ping, now)) {
		lose(control);
		return false;
	}
	if (control->state == CONTROL_AWAITED && (now >= control->deadline || control->ping.is_back)) {
		control->ping.is_back = false;
		error = dial(control);
	}
	if (error)
		put_off(control, error);
	return true;
}

bool control_tick(struct verbs_device *device)
{
	struct control *control, *next;
	int64_t now = clock_nsec();
	bool goes_on = false;

	control_resume(device);
	for (control = TAILQ_FIRST(&device->control.all); control; control = next) {
		next = TAILQ_NEXT(control, in_device);
		if (control->state == CONTROL_STRANGER || control->state == CONTROL_UP)
			continue;
		if (control->is_last && now >= control->deadline)
			control_ended(control, ECONNREFUSED);
		else if (control->is_last || now < control->check_at)
			goes_on = true;
		else
			goes_on |= look_after(control, now);
	}
	return goes_on;
}
