/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asking for a listener, at one place of the discriminator after the other. Until the answer comes the endpoint is only
 * prepared, so posted receives outlive every failure.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "inside.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/* What has been asked and is younger may still be answered, and on a busy machine what is not much older. */
#define ANSWER_NSEC (100 * NSEC_PER_MSEC)
#define HELD_NSEC   NSEC_PER_SEC /* an answer that took longer was held back by a listener */
#define TCP_NSEC    (9 * NSEC_PER_SEC) /* a host that TCP does not reach for so long is silent */

#define RAISING_CALLS	"fallocate(), mmap() or ioctl()"

static void ask_next(struct connection *connection);

static void next_place(struct connection *connection)
{
	int64_t took = clock_nsec() - connection->began;

	if (took > connection->slowest && took < HELD_NSEC)
		connection->slowest = took;
	connection_leave(connection, 0);
	connection->place++;
	ask_next(connection);
}

void asking_tell_silence(const struct connection *connection)
{
	char host[INET6_ADDRSTRLEN];

	host_text(&connection->host, host);
	log_ratelimited(LOG_LEVEL_INFO, "%s does not answer at TCP port %u (is it down, or is there a firewall?)", host,
			(unsigned)connection->port);
}

/* When the place has been reached, and the route is known. */
static void ask(struct connection *connection)
{
	struct conversation *conversation = &connection->conversation;
	struct description own = {.sent_fd = -1};
	int error;
	bool is_said;

	if (!connection->is_reached || !connection->is_routed || connection->has_asked)
		return;
	error = ops_of(connector_of(connection))->describe(connection->endpoint, &own);
	if (error) {
		connection_fail_for(connection, error);
		return;
	}
	connection->has_asked = true;
	is_said = conversation_say(conversation, connection->own.peer_to_peer ? MESSAGE_PEER_REQUEST : MESSAGE_REQUEST,
				   &connection->own, &connection->wanted, &own);
	error = errno;
	if (!is_said && (error == ETOOMANYREFS || is_refused(error)))
		connection_fail_for(connection, error);
	else if (!is_said)
		next_place(connection); /* gone again */
	else if (!connection->is_heard)
		conversation_set_deadline(conversation, clock_nsec() + connection->patience);
}

void connection_routed(struct connection *connection, int error)
{
	if (connection->stage != ASKING || connection->is_routed)
		return;
	if (error) {
		connection_fail_for(connection, error);
		return;
	}
	connection->is_routed = true;
	ask(connection);
}

/* 0 or errno: EINPROGRESS; ECONNREFUSED: nobody is there. */
static int reach(struct connection *connection, const struct place *place)
{
	struct connector *connector = connector_of(connection);
	struct conversation *conversation = &connection->conversation;
	struct device *device = connector->device;
	struct description peer = {.fd_count = 0};
	struct place from;
	struct watched_socket held;
	const int on = 1;
	int fd, error = socket_open(&held, place);

	if (error)
		return error;
	fd = held.fd;
	conversation->is_local = place->address.ss_family == AF_UNIX;
	if (!conversation->is_local)
		socket_prepare(fd);
	if (device->ops->source) {
		device->ops->source(device, &connection->host, &from);
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&from.address, from.length))
			error = errno == EADDRNOTAVAIL ? ENODEV : errno;
	}
	if (!error && connect(fd, (const struct sockaddr *)&place->address, place->length))
		error = errno;
	if (!error && device->ops->admit && !device->ops->admit(device, fd, &peer))
		error = ECONNREFUSED; /* not one of ours */
	if (!error || error == EINPROGRESS) {
		int failure = conversation_begin(conversation, connector, fd,
						 error ? EPOLLOUT : EPOLLIN | EPOLLRDHUP);

		error = failure ? failure : error;
		conversation->host = connection->host;
		conversation->peer = peer;
	}
	if (error && error != EINPROGRESS)
		socket_close(fd, conversation->is_local, true);
	socket_settle(&held);
	return error;
}

static void over(struct connection *connection)
{
	connection->stage = UNCONNECTED;
	if (connection->is_unsure) {
		connection_no_answer(connection, VIP_TIMEOUT);
		return;
	}
	connection->no_listener = true;
	if (connection->conversation.is_local)
		log_debug_ratelimited("no permitted listener for this discriminator in this network namespace "
				      "(docs/PORTING.md, *Containers*)");
	endpoint_no_answer(connection->vi, VIP_NO_MATCH);
}

/* Goes on with the places that have not been asked yet this time. */
static void ask_next(struct connection *connection)
{
	struct device *device = connector_of(connection)->device;
	struct place at[PLACE_ADDRESSES];

	for (; device->ops->place(device, &connection->host, &connection->wanted, connection->place, at); connection->place++) {
		int error = reach(connection, &at[0]);

		if (!error || error == EINPROGRESS) {
			connection->stage = ASKING;
			connection->began = clock_nsec();
			connection->is_reached = !error;
			connection->port = ntohs(((struct sockaddr_in *)&at[0].address)->sin_port); /* or of IPv6 */
			connection->has_asked = connection->is_heard = false;
			if (error)
				conversation_set_deadline(&connection->conversation, connection->began + TCP_NSEC);
			else
				ask(connection);
			return;
		}
		if (error == EAGAIN) { /* the listener's queue is full, so its discriminator is not known */
			connection->is_unsure = true;
		} else if (error != ECONNREFUSED) {
			connection_fail_for(connection, error);
			return;
		}
	}
	over(connection);
}

void connection_ask(struct connection *connection, struct device_endpoint *endpoint, const struct connect_info *own,
		    const struct in6_addr *host, const struct discriminator *wanted)
{
	const struct device_ops *ops = ops_of(connector_of(connection));
	int error = 0;

	connection->endpoint = endpoint;
	connection->own = *own;
	connection->host = *host;
	connection->wanted = *wanted;
	connection->place = 0;
	connection->is_unsure = false;
	connection->is_routed = false;
	if (ops->route)
		error = ops->route(endpoint, host);
	if (error && error != EINPROGRESS) {
		connection_fail_for(connection, error);
		return;
	}
	connection->is_routed = !error;
	ask_next(connection);
}

/* TCP has reached the place, or not. */
static void reached(struct connection *connection)
{
	struct conversation *conversation = &connection->conversation;
	int error = 0;
	socklen_t length = sizeof(error);

	if (!fd_is_own(conversation->watched.fd) ||
	    getsockopt(conversation->watched.fd, SOL_SOCKET, SO_ERROR, &error, &length))
		error = EBADF;
	if (error == ETIMEDOUT)
		asking_tell_silence(connection);
	if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) {
		next_place(connection);
	} else if (error) {
		connection_fail_for(connection, error);
	} else {
		conversation_set_deadline(conversation, DEADLINE_NEVER);
		socket_watch_for(connector_of(connection), &conversation->watched, EPOLLIN | EPOLLRDHUP);
		connection->is_reached = true;
		ask(connection);
	}
}

/* ---- the answer ---- */

/* The peer has said yes, and what its data path is. */
static void accepted(struct connection *connection)
{
	struct conversation *conversation = &connection->conversation;
	struct connect_info *peer = &connection->peer;
	struct discriminator unused;
	int error = EPROTO;

	message_read(&conversation->in, peer, &unused, &conversation->peer);
	peer->host = conversation->peer.host = connection->host;
	conversation_set_deadline(conversation, DEADLINE_NEVER);
	conversation->peer.socket = conversation->watched.fd;
	if (peer->reliability == connection->own.reliability) {
		endpoint_establishing(connection->vi);
		error = ops_of(connector_of(connection))->raise(connection->endpoint, false, &connection->own, peer,
								&conversation->peer);
	}
	conversation_close_fds(conversation);
	if (error) {
		log_error_ratelimited("cannot complete a connection: %s%s", strerror(error), socket_hint(error, RAISING_CALLS));
		connection_fail(connection, error == EPROTO ? VIP_NOT_REACHABLE : error_is_end(error) ? VIP_TIMEOUT : VIP_ERROR_RESOURCE);
	} else if (!conversation_say(conversation, MESSAGE_CONFIRM, NULL, NULL, NULL)) {
		connection_fail(connection, VIP_TIMEOUT);
	} else {
		connection->stage = CONNECTED;
		endpoint_connected(connection->vi, peer);
	}
}

static void answered(struct connection *connection, int code)
{
	struct conversation *conversation = &connection->conversation;

	switch (code) {
	case MESSAGE_NONE:
		break;
	case MESSAGE_HERE:
		connection->is_heard = true;
		connection->patience = NSEC_PER_SEC;
		conversation_set_deadline(conversation, DEADLINE_NEVER);
		break;
	case MESSAGE_ACCEPT:
		if (connection->has_asked)
			accepted(connection);
		else
			next_place(connection);
		break;
	case MESSAGE_REJECT:
		connection_fail(connection, VIP_REJECT);
		break;
	case MESSAGE_BAD_VERSION:
		log_error_ratelimited("the peer refuses this version of the library");
		connection_fail(connection, VIP_REJECT);
		break;
	case MESSAGE_OF_OTHER_VERSION:
		log_error_ratelimited("the peer has another version of this library (%u, not %u)",
				      (unsigned)conversation->in.version,
				      (unsigned)connector_of(connection)->device->version);
		connection_fail(connection, VIP_REJECT);
		break;
	case HEARD_CUT:
		connection_fail(connection, VIP_ERROR_RESOURCE);
		break;
	case HEARD_LOST: /* it may come back */
		connection_no_answer(connection, VIP_TIMEOUT);
		break;
	case MESSAGE_BUSY:
		connection->is_unsure = true; /* who has no time is there: a result in this time is no VIP_NO_MATCH */
		endpoint_busy(connection->vi);
		next_place(connection);
		break;
	default: /* NO_MATCH; or it has stopped to wait without a word; or it is no NIC */
		next_place(connection);
		break;
	}
}

void asking_heard(struct connection *connection)
{
	if (connection->is_reached)
		answered(connection, conversation_hear(&connection->conversation));
	else
		reached(connection);
}

void asking_expired(struct connection *connection)
{
	if (!connection->is_reached) {
		asking_tell_silence(connection);
		connection_no_answer(connection, VIP_TIMEOUT);
		return;
	}
	connection->is_unsure = true;
	connection->patience *= 2;
	if (connection->patience > LONGEST_HERE_NSEC)
		connection->patience = LONGEST_HERE_NSEC;
	next_place(connection);
}

bool asking_may_be_answered(const struct connection *connection)
{
	return connection->is_heard || clock_nsec() - connection->began >= ANSWER_NSEC + connection->slowest;
}
