/*
 * Control connections. What rdma_cm tells when a connection is made or ends goes in messages that may
 * be lost, and are repeated after seconds or not at all; and nobody tells that a host has died. So two
 * NICs whose VIs are connected have a TCP connection beside them, one for all their VIs. TCP repeats
 * what is lost; its keepalive, which kernels answer, finds out whether the other host and process are
 * there. It knows nothing of a process that is merely stopped, and needs no time of ours.
 *
 * It is a help: without it (a firewall is between them) all else works as rdma_cm lets it.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config.h"
#include "deadline.h"
#include "log.h"
#include "rdma.h"
#include "wire.h"

#define BACKLOG		1024
#define MOST_STRANGERS	64u  /* of those who have connected and told nothing, the oldest goes */
#define EVENTS_AT_ONCE	256u /* then it is the turn of the NIC's other work */
#define REOPEN_NSEC	INT64_C(1500000000)

enum control_state {
	CONTROL_CONNECTING,
	CONTROL_STRANGER, /* has connected to us, and not told who it is */
	CONTROL_UP,
};

struct control {
	enum control_state state;
	int fd;
	struct rdma_device *device;
	TAILQ_ENTRY(control) in_device;
	struct in6_addr host; /* with the port, the NIC at the other end */
	uint16_t port;
	bool is_last; /* one that was up has failed; this takes its place, or all is lost */
	int64_t deadline;
	size_t have; /* bytes of `input` */
	struct wire_control input;
};

static bool is_off(const struct rdma_device *device)
{
	return device->control.epoll_fd < 0;
}

static bool is_with(const struct control *control, const struct in6_addr *host, uint16_t port)
{
	return control->state != CONTROL_STRANGER && control->port == port &&
	       host_equal(&control->host, host);
}

static struct control *find(struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	struct control *control;

	TAILQ_FOREACH(control, &device->control.all, in_device)
		if (is_with(control, host, port))
			return control;
	return NULL;
}

uint16_t control_port(const struct rdma_device *device, const struct in6_addr *host)
{
	return device->control.ports[host_is_ipv4(host) ? 0 : 1];
}

static int watch(struct rdma_device *device, int operation, int fd, void *what, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = what};

	return epoll_ctl(device->control.epoll_fd, operation, fd, &event);
}

/* Is the endpoint's peer, or who it asks, on this host? */
static bool is_peer(const struct rdma_endpoint *endpoint, const struct in6_addr *host)
{
	return host_equal(rdma_is_asking(endpoint) ? &endpoint->host : &endpoint->peer.host, host);
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

static void forget(struct control *control)
{
	struct rdma_device *device = control->device;

	TAILQ_REMOVE(&device->control.all, control, in_device);
	device->control.strangers -= control->state == CONTROL_STRANGER;
	/* Closing alone would do neither, should a forked child have the socket, too. */
	watch(device, EPOLL_CTL_DEL, control->fd, NULL, 0);
	shutdown(control->fd, SHUT_RDWR);
	close(control->fd);
	free(control);
}

/* NULL when there is no memory for it; the descriptor is closed then. */
static struct control *adopt(struct rdma_device *device, int fd, enum control_state state)
{
	struct control *control = calloc(1, sizeof(*control));
	uint32_t events = EPOLLIN | (state == CONTROL_CONNECTING ? EPOLLOUT : 0);

	if (!control || watch(device, EPOLL_CTL_ADD, fd, control, events)) {
		close(fd);
		free(control);
		return NULL;
	}
	control->device = device;
	control->fd = fd;
	control->state = state;
	control->deadline = DEADLINE_NEVER;
	TAILQ_INSERT_TAIL(&device->control.all, control, in_device);
	return control;
}

/* A socket of ours that is bound to our address for this host; -1 and errno when there is none. */
static int make_socket(struct rdma_device *device, const struct in6_addr *host,
		       struct sockaddr_storage *own)
{
	const struct in6_addr *own_host = rdma_own_host(device, host);
	int fd, error;

	if (!own_host) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	rdma_socket(device, own_host, 0, own);
	fd = socket(own->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || !bind(fd, (struct sockaddr *)own, sizeof(*own)))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static struct control *start(struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	struct sockaddr_storage own, to;
	struct control *control;
	int fd = make_socket(device, host, &own);

	if (fd < 0)
		return NULL;
	set_options(fd);
	rdma_socket(device, host, port, &to);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) && errno != EINPROGRESS) {
		close(fd);
		return NULL;
	}
	control = adopt(device, fd, CONTROL_CONNECTING);
	if (control) {
		control->host = *host;
		control->port = port;
	}
	return control;
}

void control_want(struct rdma_endpoint *endpoint)
{
	struct rdma_device *device = endpoint->device;
	const struct in6_addr *host = &endpoint->peer.host, *own = rdma_own_host(device, host);
	uint16_t port = endpoint->peer_extra.port;

	if (is_off(device) || !port || find(device, host, port))
		return;
	if (own && host_equal(own, host) && port == control_port(device, host))
		return; /* this NIC itself lives as long as we do */
	if (!start(device, host, port))
		log_warning_ratelimited("no control connection, so a peer that dies silently is not "
					"noticed: %s%s",
					strerror(errno), errno == EMFILE ? " (see ulimit -n)" : "");
}

static bool send_message(struct control *control, enum wire_code code, uint32_t own_qp,
			 uint32_t peer_qp, uint32_t number)
{
	const struct wire_control_fields fields = {
		.port = control_port(control->device, &control->host),
		.from = own_qp,
		.to = peer_qp,
		.number = number,
	};
	struct wire_control message;

	wire_write_control(&message, code, &fields);
	if (sendto(control->fd, &message, sizeof(message), MSG_NOSIGNAL, NULL, 0) ==
	    (ssize_t)sizeof(message))
		return true;
	/* Broken, or the peer has read nothing of thousands of messages: an event tells of it. */
	shutdown(control->fd, SHUT_RDWR);
	return false;
}

bool control_tell(struct rdma_endpoint *endpoint, enum wire_code code, uint32_t peer_qp,
		  uint32_t number)
{
	struct control *control = NULL;

	if (!is_off(endpoint->device))
		control = find(endpoint->device, &endpoint->peer.host, endpoint->peer_extra.port);
	return control && control->state == CONTROL_UP &&
	       send_message(control, code, endpoint->qp->qp_num, peer_qp, number);
}

static bool is_connected_with(const struct rdma_endpoint *endpoint, const struct in6_addr *host,
			      uint16_t port)
{
	return (endpoint->phase == RDMA_CONNECTED || endpoint->phase == RDMA_ACCEPTING) &&
	       endpoint->peer_extra.port == port && host_equal(&endpoint->peer.host, host);
}

static bool is_needed(const struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	const struct rdma_endpoint *endpoint;

	LIST_FOREACH(endpoint, &device->endpoints, in_device)
		if (is_connected_with(endpoint, host, port))
			return true;
	return false;
}

/* The NIC at the other end is gone. */
static void lose_all(struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	struct rdma_endpoint *endpoint;

	LIST_FOREACH(endpoint, &device->endpoints, in_device)
		if (is_connected_with(endpoint, host, port))
			rdma_peer_died(endpoint);
}

/*
 * `error`: 0 when the peer has closed it. Else it may be the network's fault, so one more attempt
 * follows: who is gone refuses that. Where none ever came through, nothing is known.
 */
static void ended(struct control *control, int error)
{
	struct rdma_device *device = control->device;
	bool was_up = control->state == CONTROL_UP, was_last = control->is_last;
	struct in6_addr host = control->host;
	uint16_t port = control->port;

	log_debug("control connection: %s", error ? strerror(error) : "closed by the peer");
	forget(control);
	control = find(device, &host, port);
	if (!was_up && !was_last) {
		if (!control && is_needed(device, &host, port))
			log_warning_ratelimited("no control connection with a peer, so it is not noticed "
						"if its host dies silently (is there a firewall?): %s",
						error ? strerror(error) : "refused");
		return;
	}
	if (!control && was_up && error && error != EPROTO) {
		control = start(device, &host, port);
		if (control) {
			control->deadline = clock_nsec() + REOPEN_NSEC;
			rdma_timer_start(device);
		}
	}
	if (control)
		control->is_last = true;
	else
		lose_all(device, &host, port);
}

/* What has happened before it was up is not known: whether the connections are still there. */
static void ask_all(struct control *control)
{
	struct rdma_endpoint *endpoint;

	LIST_FOREACH(endpoint, &control->device->endpoints, in_device)
		if (endpoint->phase == RDMA_CONNECTED &&
		    is_connected_with(endpoint, &control->host, control->port) &&
		    !send_message(control, WIRE_ASK, endpoint->qp->qp_num, endpoint->peer_qp,
				  endpoint->own_psn))
			return;
}

/* Who has connected to us says who it is; who was connected to says that it is there. */
static bool take_hello(struct control *control, uint16_t port)
{
	if (control->state == CONTROL_STRANGER) {
		control->port = port;
		if (!port || !send_message(control, WIRE_HELLO, 0, 0, 0))
			return false;
		control->device->control.strangers--;
	}
	control->state = CONTROL_UP;
	control->is_last = false;
	ask_all(control);
	return port == control->port;
}

/* False when it is no message that this end may be sent. */
static bool take(struct control *control)
{
	struct rdma_endpoint *endpoint;
	struct wire_control_fields fields;
	enum wire_code code = wire_read_control(&control->input, &fields), answer = 0;

	if (code == WIRE_HELLO)
		return take_hello(control, fields.port);
	if (control->state != CONTROL_UP || !code)
		return false;
	LIST_FOREACH(endpoint, &control->device->endpoints, in_device)
		if (endpoint->qp->qp_num == fields.to && is_peer(endpoint, &control->host))
			break;
	if (endpoint)
		answer = rdma_control_arrived(endpoint, code, &fields, control->port);
	else if (code == WIRE_ASK)
		answer = WIRE_GONE;
	if (answer)
		send_message(control, answer, fields.to, fields.from, fields.number);
	return true;
}

static void receive(struct control *control)
{
	ssize_t got = recv(control->fd, (char *)&control->input + control->have,
			   sizeof(control->input) - control->have, 0);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		ended(control, got ? errno : 0);
		return;
	}
	control->have += (size_t)got;
	if (control->have < sizeof(control->input))
		return;
	control->have = 0;
	if (!take(control))
		ended(control, EPROTO);
}

static void connected(struct control *control)
{
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(control->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (error) {
		ended(control, error);
		return;
	}
	/* Its kernel is there, whatever the process does. */
	control->deadline = DEADLINE_NEVER;
	watch(control->device, EPOLL_CTL_MOD, control->fd, control, EPOLLIN);
	send_message(control, WIRE_HELLO, 0, 0, 0);
}

static void turn_away_oldest(struct rdma_device *device)
{
	struct control *control;

	TAILQ_FOREACH(control, &device->control.all, in_device)
		if (control->state == CONTROL_STRANGER)
			break;
	if (control)
		forget(control);
}

static void accept_one(struct rdma_device *device, int *listener)
{
	struct sockaddr_storage from = {0};
	socklen_t length = sizeof(from);
	int fd = accept4(*listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct control *control;

	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		/* It stays in the queue, and would keep us busy: until the next tick we look elsewhere. */
		watch(device, EPOLL_CTL_MOD, *listener, listener, 0);
		device->control.is_paused = true;
		rdma_timer_start(device);
		log_warning_ratelimited("cannot take a control connection: %s%s", strerror(errno),
					errno == EMFILE ? " (see ulimit -n)" : "");
	}
	if (fd < 0)
		return;
	set_options(fd);
	control = adopt(device, fd, CONTROL_STRANGER);
	if (!control)
		return;
	control->host = host_from_socket((struct sockaddr *)&from);
	if (++device->control.strangers > MOST_STRANGERS)
		turn_away_oldest(device);
}

void control_serve(struct rdma_device *device)
{
	struct epoll_event event;

	/* One at a time: what one tells may be the end of another. */
	for (unsigned i = 0; i < EVENTS_AT_ONCE; i++) {
		struct control *control;

		if (epoll_wait(device->control.epoll_fd, &event, 1, 0) != 1)
			return;
		control = event.data.ptr;
		if (event.data.ptr == &device->control.listeners[0] ||
		    event.data.ptr == &device->control.listeners[1])
			accept_one(device, event.data.ptr);
		else if (control->state == CONTROL_CONNECTING && event.events & EPOLLOUT)
			connected(control);
		else
			receive(control);
	}
}

bool control_tick(struct rdma_device *device)
{
	struct control *control, *next;
	bool goes_on = false;

	for (unsigned i = 0; device->control.is_paused && i < RDMA_FAMILIES; i++)
		if (device->control.ports[i])
			watch(device, EPOLL_CTL_MOD, device->control.listeners[i],
			      &device->control.listeners[i], EPOLLIN);
	device->control.is_paused = false;
	for (control = TAILQ_FIRST(&device->control.all); control; control = next) {
		next = TAILQ_NEXT(control, in_device);
		if (!deadline_left(control->deadline))
			ended(control, ECONNREFUSED);
		else if (control->deadline != DEADLINE_NEVER)
			goes_on = true;
	}
	return goes_on;
}

/* Takes control connections at one of our addresses. 0 or errno. */
static int listen_at(struct rdma_device *device, const struct in6_addr *host, unsigned family)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	int *listener = &device->control.listeners[family];

	*listener = make_socket(device, host, &own);
	if (*listener < 0) /* an interface may have lost an address */
		return errno == EADDRNOTAVAIL ? 0 : errno;
	if (listen(*listener, BACKLOG) ||
	    getsockname(*listener, (struct sockaddr *)&own, &length) ||
	    watch(device, EPOLL_CTL_ADD, *listener, listener, EPOLLIN))
		return errno;
	device->control.ports[family] = ntohs(own.ss_family == AF_INET
						      ? ((struct sockaddr_in *)&own)->sin_port
						      : ((struct sockaddr_in6 *)&own)->sin6_port);
	return 0;
}

void control_open(struct rdma_device *device)
{
	const struct in6_addr *const hosts[RDMA_FAMILIES] = {&device->ipv4, &device->ipv6};
	int error = 0;

	TAILQ_INIT(&device->control.all);
	device->control.epoll_fd = -1;
	for (unsigned i = 0; i < RDMA_FAMILIES; i++)
		device->control.listeners[i] = -1;
	if (!config()->keepalive_sec)
		return;
	device->control.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (is_off(device))
		error = errno;
	else
		error = rdma_watch_control(device);
	for (unsigned i = 0; i < RDMA_FAMILIES && !error; i++)
		if (!IN6_IS_ADDR_UNSPECIFIED(hosts[i]))
			error = listen_at(device, hosts[i], i);
	if (!error)
		return;
	log_warning("no control connections, so a peer that dies silently is not noticed: %s%s",
		 strerror(error), error == EMFILE ? " (see ulimit -n)" : "");
	control_close(device);
}

void control_close(struct rdma_device *device)
{
	while (!TAILQ_EMPTY(&device->control.all))
		forget(TAILQ_FIRST(&device->control.all));
	for (unsigned i = 0; i < RDMA_FAMILIES; i++) {
		int *listener = &device->control.listeners[i];

		device->control.ports[i] = 0;
		if (*listener < 0)
			continue;
		shutdown(*listener, SHUT_RDWR); /* a forked child may have it, too */
		close(*listener);
		*listener = -1;
	}
	if (!is_off(device))
		close(device->control.epoll_fd);
	device->control.epoll_fd = -1;
}
