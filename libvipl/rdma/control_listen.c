/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking control connections: any process may connect, and is a stranger until it says which NIC it is. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "control.h"

#define BACKLOG	      1024
#define MOST_UNWANTED 64u
#define LOOKS	      4u

uint16_t control_port(const struct verbs_device *device, const struct in6_addr *host)
{
	return device->control.ports[host_is_ipv4(host) ? 0 : 1];
}

/*
 * Has another one with the same NIC been up before? A user of that host can make any number. The older one is the NIC's: if it
 * has been lost at the other end, keepalive finds that out soon.
 */
static bool has_older(const struct control *control)
{
	const struct control *other;

	if (!control->is_accepted)
		return false;
	TAILQ_FOREACH(other, &control->device->control.all, in_device)
		if (other->state == CONTROL_UP && control_is_with(other, &control->host, control->port) &&
		    (!other->is_accepted || other->made < control->made))
			return true;
	return false;
}

/* Is there a connection with that NIC, or may there soon be one with that host? */
static bool is_wanted(const struct control *control)
{
	const struct verbs_endpoint *endpoint;

	if (control->state == CONTROL_STRANGER)
		return false;
	if (has_older(control))
		return false;
	if (control_is_needed(control->device, &control->host, control->port))
		return true;
	LIST_FOREACH(endpoint, &control->device->endpoints, in_device)
		if (verbs_is_asking(endpoint) && host_equal(&endpoint->probe.host, &control->host))
			return true;
	return false;
}

/* The oldest that is of no use goes; with each new one some are looked at. Those that each end has made count apart. */
void control_make_room(struct verbs_device *device)
{
	bool many_accepted = device->control.accepted > MOST_UNWANTED;
	bool many_own = device->control.count - device->control.accepted > MOST_UNWANTED;

	for (unsigned i = 0; i < LOOKS && (many_accepted || many_own); i++) {
		struct control *oldest = TAILQ_FIRST(&device->control.all);

		if ((oldest->is_accepted ? many_accepted : many_own) && !is_wanted(oldest)) {
			control_drop(oldest);
			return;
		}
		TAILQ_REMOVE(&device->control.all, oldest, in_device);
		TAILQ_INSERT_TAIL(&device->control.all, oldest, in_device);
	}
}

void control_accept(struct verbs_device *device, int *listener)
{
	struct sockaddr_storage from = {0};
	socklen_t length = sizeof(from);
	int fd = fd_keep(
		accept4(*listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
	struct in6_addr host;

	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		/* The connection stays in the queue and would keep us busy, so the listener is polled at the next tick. */
		control_watch(device, EPOLL_CTL_MOD, *listener, listener, 0);
		device->control.is_paused = true;
		verbs_timer_start(device);
		log_warning_ratelimited("cannot take a control connection: %s%s", strerror(errno),
					errno == EMFILE ? " (see ulimit -n)" : "");
	}
	if (fd < 0)
		return;
	host = host_from_socket((struct sockaddr *)&from);
	if (control_adopt(device, fd, &host))
		control_make_room(device);
}

void control_resume(struct verbs_device *device)
{
	for (unsigned i = 0; device->control.is_paused && i < VERBS_FAMILIES; i++)
		if (device->control.ports[i])
			control_watch(device, EPOLL_CTL_MOD, device->control.listeners[i],
				      &device->control.listeners[i], EPOLLIN);
	device->control.is_paused = false;
}

/* Takes control connections at one of our addresses. 0 or errno. */
static int listen_at(struct verbs_device *device, const struct in6_addr *host, unsigned family)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	int *listener = &device->control.listeners[family];

	*listener = control_socket(device, host, &own);
	if (*listener < 0) /* an interface may have lost an address */
		return errno == EADDRNOTAVAIL ? 0 : errno;
	if (listen(*listener, BACKLOG) ||
	    getsockname(*listener, (struct sockaddr *)&own, &length) ||
	    control_watch(device, EPOLL_CTL_ADD, *listener, listener, EPOLLIN))
		return errno;
	device->control.ports[family] = ntohs(own.ss_family == AF_INET
						      ? ((struct sockaddr_in *)&own)->sin_port
						      : ((struct sockaddr_in6 *)&own)->sin6_port);
	return 0;
}

void control_open(struct verbs_device *device)
{
	const struct in6_addr *const hosts[VERBS_FAMILIES] = {&device->ipv4, &device->ipv6};
	int error = 0;

	TAILQ_INIT(&device->control.all);
	device->control.epoll_fd = -1;
	for (unsigned i = 0; i < VERBS_FAMILIES; i++)
		device->control.listeners[i] = -1;
	if (!config()->keepalive_sec)
		return;
	device->control.epoll_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC));
	if (control_is_off(device))
		error = errno;
	else
		error = verbs_watch_control(device);
	for (unsigned i = 0; i < VERBS_FAMILIES && !error; i++)
		if (!IN6_IS_ADDR_UNSPECIFIED(hosts[i]))
			error = listen_at(device, hosts[i], i);
	if (!error)
		return;
	log_warning("no control connections, so a peer that dies silently is not noticed: %s%s",
		 strerror(error), error == EMFILE ? " (see ulimit -n)" : "");
	control_close(device);
}

void control_close(struct verbs_device *device)
{
	while (!TAILQ_EMPTY(&device->control.all))
		control_forget(TAILQ_FIRST(&device->control.all));
	for (unsigned i = 0; i < VERBS_FAMILIES; i++) {
		int *listener = &device->control.listeners[i];

		device->control.ports[i] = 0;
		if (*listener < 0)
			continue;
		fd_shutdown(*listener); /* a forked child may have it, too */
		fd_close(*listener);
		*listener = -1;
	}
	if (!control_is_off(device))
		fd_close(device->control.epoll_fd);
	device->control.epoll_fd = -1;
}
