/*
 * Control connections. What rdma_cm tells when a connection is made or ends goes in messages that may
 * be lost, and are repeated after seconds or not at all; and nobody tells that a host has died. So two
 * NICs whose VIs are connected have a TCP connection beside them, one for all their VIs. TCP repeats
 * what is lost; its keepalive, which kernels answer, finds out whether the other host and process are
 * there. It knows nothing of a process that is merely stopped, and needs no time of ours.
 *
 * It is a help: without it (a firewall is between them) all else works as rdma_cm lets it, and pings
 * find out whether the other host is there.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config.h"
#include "control.h"
#include "deadline.h"
#include "log.h"

#define EVENTS_AT_ONCE	256u /* then it is the turn of the NIC's other work */
#define AWAIT_NSEC	INT64_C(1000000000) /* the peer makes it within a round trip */
#define TRY_AGAIN_NSEC	INT64_C(10000000000)
#define REOPEN_NSEC	INT64_C(1500000000)

static bool is_with(const struct control *control, const struct in6_addr *host, uint16_t port)
{
	return control->state != CONTROL_STRANGER && control->port == port &&
	       host_equal(&control->host, host);
}

/* One that is up if there is any. */
static struct control *find(const struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	struct control *control, *found = NULL;

	TAILQ_FOREACH(control, &device->control.all, in_device)
		if (is_with(control, host, port) && (!found || control->state == CONTROL_UP))
			found = control;
	return found;
}

/* Both ends may have made one. */
static struct control *other_than(const struct control *control)
{
	struct control *other;

	TAILQ_FOREACH(other, &control->device->control.all, in_device)
		if (other != control && is_with(other, &control->host, control->port))
			return other;
	return NULL;
}

int control_watch(struct rdma_device *device, int operation, int fd, void *what, uint32_t events)
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

static void hang_up(struct control *control)
{
	struct rdma_device *device = control->device;

	device->control.strangers -= control->state == CONTROL_STRANGER;
	control->state = CONTROL_AWAITED;
	control->have = 0;
	if (control->fd < 0)
		return;
	/* Closing alone would do neither, should a forked child have the socket, too. */
	control_watch(device, EPOLL_CTL_DEL, control->fd, NULL, 0);
	shutdown(control->fd, SHUT_RDWR);
	close(control->fd);
	control->fd = -1;
}

void control_forget(struct control *control)
{
	hang_up(control);
	ping_drop(&control->ping);
	TAILQ_REMOVE(&control->device->control.all, control, in_device);
	free(control);
}

/* NULL when there is no memory for it. */
static struct control *create(struct rdma_device *device, const struct in6_addr *host, uint16_t port)
{
	struct control *control = calloc(1, sizeof(*control));

	if (!control)
		return NULL;
	control->device = device;
	control->fd = -1;
	control->host = *host;
	control->port = port;
	control->deadline = clock_nsec() + AWAIT_NSEC;
	ping_init(&control->ping, device, host, control->deadline);
	TAILQ_INSERT_TAIL(&device->control.all, control, in_device);
	return control;
}

struct control *control_adopt(struct rdma_device *device, int fd, const struct in6_addr *host)
{
	struct control *control = create(device, host, 0);

	if (!control || control_watch(device, EPOLL_CTL_ADD, fd, control, EPOLLIN)) {
		close(fd);
		if (control)
			control_forget(control);
		return NULL;
	}
	set_options(fd);
	control->fd = fd;
	control->state = CONTROL_STRANGER;
	control->deadline = DEADLINE_NEVER;
	device->control.strangers++;
	return control;
}

int control_socket(struct rdma_device *device, const struct in6_addr *host,
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
	rdma_socket(control->device, &control->host, control->port, &to);
	if ((!connect(control->fd, (struct sockaddr *)&to, sizeof(to)) || errno == EINPROGRESS) &&
	    !control_watch(control->device, EPOLL_CTL_ADD, control->fd, control, EPOLLIN | EPOLLOUT))
		return 0;
	error = errno;
	hang_up(control);
	return error;
}

/* It cannot be made now. */
static void put_off(struct control *control, int error)
{
	int64_t now = clock_nsec();

	log_warning_ratelimited("no control connection with a peer (is there a firewall?): it is asked now "
				"and then by rdma_cm whether its host is there: %s%s",
				error ? strerror(error) : "refused",
				error == EMFILE ? " (see ulimit -n)" : "");
	control->deadline = control->was_taken ? now : now + TRY_AGAIN_NSEC;
	if (control->ping.due == DEADLINE_NEVER)
		control->ping.due = now;
	rdma_timer_start(control->device);
}

void control_want(struct rdma_endpoint *endpoint, bool is_ours)
{
	struct rdma_device *device = endpoint->device;
	const struct in6_addr *host = &endpoint->peer.host, *own = rdma_own_host(device, host);
	uint16_t port = endpoint->peer_extra.port;
	struct control *control;
	int error;

	if (control_is_off(device) || !port)
		return;
	if (own && host_equal(own, host) && port == control_port(device, host))
		return; /* this NIC itself lives as long as we do */
	control = find(device, host, port);
	if (!control)
		control = create(device, host, port);
	if (!control || control->state != CONTROL_AWAITED)
		return;
	error = is_ours ? dial(control) : 0;
	if (error)
		put_off(control, error);
	rdma_timer_start(device);
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

	if (!control_is_off(endpoint->device))
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
			rdma_ended(endpoint);
}

static void lose(struct control *control)
{
	struct rdma_device *device = control->device;
	struct in6_addr host = control->host;
	uint16_t port = control->port;

	control_forget(control);
	lose_all(device, &host, port);
}

/*
 * `error`: 0 when the peer has closed it. Else it may be the network's fault, so where one was up one
 * more attempt follows: who is gone refuses that. Where none ever came through, nothing is known.
 */
static void ended(struct control *control, int error)
{
	enum control_state state = control->state;
	struct control *other = state == CONTROL_STRANGER ? NULL : other_than(control);
	bool is_known = state == CONTROL_UP || control->is_last ||
			(control->was_taken && error == ECONNREFUSED);

	log_debug("control connection: %s", error ? strerror(error) : "closed by the peer");
	hang_up(control);
	if (state == CONTROL_STRANGER) {
		control_forget(control);
	} else if (other) {
		other->is_last |= is_known;
		control_forget(control);
	} else if (!is_known) {
		put_off(control, error);
	} else if (state == CONTROL_UP && error && error != EPROTO && !dial(control)) {
		control->is_last = true;
		control->deadline = clock_nsec() + REOPEN_NSEC;
		rdma_timer_start(control->device);
	} else {
		lose(control);
	}
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
	control->state = CONTROL_GREETING;
	control->was_taken = true;
	control->deadline = DEADLINE_NEVER;
	ping_drop(&control->ping);
	ping_init(&control->ping, control->device, &control->host, DEADLINE_NEVER);
	control_watch(control->device, EPOLL_CTL_MOD, control->fd, control, EPOLLIN);
	send_message(control, WIRE_HELLO, 0, 0, 0);
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
			control_accept(device, event.data.ptr);
		else if (control->state == CONTROL_CONNECTING && event.events & EPOLLOUT)
			connected(control);
		else
			receive(control);
	}
}

/* Of one that is not up, and in whose place none was: false when it is not needed any more. */
static bool waiting_tick(struct control *control, int64_t now)
{
	const struct control *other = other_than(control);
	int64_t limit = config()->keepalive_sec * INT64_C(1000000000);
	int error = 0;

	if ((other && other->state == CONTROL_UP) ||
	    !is_needed(control->device, &control->host, control->port)) {
		control_forget(control);
		return false;
	}
	if (ping_silence(&control->ping, now) >= limit) {
		lose(control);
		return false;
	}
	if (control->state == CONTROL_AWAITED && now >= control->deadline)
		error = dial(control);
	if (error)
		put_off(control, error);
	ping_tick(&control->ping, now, limit / 3);
	return true;
}

bool control_tick(struct rdma_device *device)
{
	struct control *control, *next;
	int64_t now = clock_nsec();
	bool goes_on = false;

	control_resume(device);
	for (control = TAILQ_FIRST(&device->control.all); control; control = next) {
		bool is_waiting = control->state == CONTROL_AWAITED ||
				  control->state == CONTROL_CONNECTING;

		next = TAILQ_NEXT(control, in_device);
		if (is_waiting && !control->is_last)
			goes_on |= waiting_tick(control, now);
		else if (is_waiting && now >= control->deadline)
			ended(control, ECONNREFUSED);
		else
			goes_on |= is_waiting;
	}
	return goes_on;
}
