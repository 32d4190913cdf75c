/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asking for a listener, at one place of the discriminator after the other, and again after a pause. Until the answer comes the
 * endpoint is only prepared, so posted receives outlive every failure. The end of each attempt is here, too.
 */
#include <errno.h>

#include "base/container.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "connect.h"
#include "vis.h"

#define FIRST_PAUSE NSEC_PER_MSEC

/* What has been asked and is younger may still be answered that there is no listener, also on a busy machine. */
#define ANSWER_NSEC NSEC_PER_SEC
#define TCP_NSEC    (9 * NSEC_PER_SEC) /* a host that TCP does not reach for so long is silent */

/* The agent of a NIC answers soon, or says that it is there. A machine may be busy: so it may take longer each time. */
#define HEAR_HERE_NSEC	  NSEC_PER_SEC
#define LONGEST_HERE_NSEC (8 * NSEC_PER_SEC)

static void ask_next(struct connection *connection);

/* ---- the end of an attempt ---- */

void connection_succeeded(struct connection *connection)
{
	socket_set_deadline(&connection->conversation.watched, DEADLINE_NEVER);
	connection->stage = CONNECTED;
	connection_decided(connection);
	vi_connected(connection->vi, &connection->conversation.peer);
}

static void end_attempt(struct connection *connection, VIP_RETURN reason, bool goes_on, enum message_code last_word)
{
	const struct device_ops *ops = connector_ops(connector_of(connection));

	if (reason == VIP_NO_MATCH && ops->tell_no_match)
		ops->tell_no_match(&connection->target.wanted);
	connection->stage = UNCONNECTED;
	connection->last_word = last_word;
	vi_withdraw(connection->vi, reason, goes_on);
}

void connection_failed(struct connection *connection, VIP_RETURN reason, enum message_code last_word)
{
	bool may_come_back = connection->stage == ASKING || connection->target.own.peer_to_peer;

	end_attempt(connection, reason, reason == VIP_TIMEOUT && may_come_back, last_word);
}

/* This place of the host that is asked. False: there are no more. */
static bool find_place(const struct connection *connection, unsigned number, struct place at[PLACE_ADDRESSES])
{
	struct device *device = connector_of(connection)->device;

	return device->ops->place(device, &connection->target.host, &connection->target.wanted, number, at);
}

/* A host has not answered: the log tells where. */
static void tell_silence(const struct connection *connection)
{
	struct place at[PLACE_ADDRESSES];

	find_place(connection, connection->place, at);
	/* The port is at the same place in an IPv6 address. */
	log_ratelimited(LOG_LEVEL_INFO, "%s does not answer at TCP port %u (is it down, or is there a firewall?)",
			host_name(&connection->target.host), (unsigned)ntohs(((struct sockaddr_in *)&at[0].address)->sin_port));
}

static VIP_RETURN result_without_time(const struct connection *connection)
{
	bool is_old = connection->is_heard || clock_nsec() - connection->began >= ANSWER_NSEC;

	if (connection->stage >= LISTENING || connection->target.own.peer_to_peer || connection->last != VIP_NO_MATCH)
		return VIP_TIMEOUT;
	return connection->stage == PAUSING || (!is_old && !connection->is_unsure) ? VIP_NO_MATCH : VIP_TIMEOUT;
}

void connection_cancel(struct connection *connection, VIP_RETURN reason)
{
	end_attempt(connection, reason, false, 0);
}

static bool is_under_way(const struct connection *connection)
{
	return connection->stage != UNCONNECTED && connection->stage != CONNECTED;
}

/* A peer that has been accepted just before does not get VIP_TIMEOUT: then its connection is lost at once. */
void connection_expire(struct connection *connection)
{
	struct watch *watch = &connection->conversation.watched.watch;

	/* The agent may be late, and the answer there. */
	while (is_under_way(connection) && watch_has_event(watch))
		watch->ready(watch);
	if (!is_under_way(connection))
		return;
	if (connection->stage == REACHING)
		tell_silence(connection);
	connection_cancel(connection, result_without_time(connection));
}

/* ---- no answer ---- */

/* A dead host may come to life, and a peer may ask, as long as the caller has time; else the grace time counts. */
static void no_answer(struct connection *connection, VIP_RETURN reason)
{
	if (reason == VIP_TIMEOUT || connection->target.own.peer_to_peer || clock_nsec() < connection->grace_ends) {
		connection_leave(connection, 0);
		connection_pauses(connection, reason);
	} else {
		connection_failed(connection, reason, 0);
	}
}

/* There is no way to the host, or the system lacks something. */
static void fail_for(struct connection *connection, int error)
{
	const char *host = host_name(&connection->target.host);

	/* Nobody has the address of EHOSTUNREACH; but the host of a peer may come to life. */
	if (error == ETIMEDOUT || (error == EHOSTUNREACH && connection->target.own.peer_to_peer)) {
		no_answer(connection, VIP_TIMEOUT);
	} else if (error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN || error == ENODEV) {
		log_ratelimited(LOG_LEVEL_INFO, "%s is not reachable: %s", host, failure(error));
		connection_failed(connection, VIP_NOT_REACHABLE, 0);
	} else {
		log_error_ratelimited("cannot connect to %s: %s", host, failure(error));
		if (error == ETOOMANYREFS) /* others of this user cause it, and soon it may be over */
			no_answer(connection, VIP_ERROR_RESOURCE);
		else
			connection_failed(connection, VIP_ERROR_RESOURCE, 0);
	}
}

/* ---- at a place ---- */

static void go_to_place(struct connection *connection, unsigned place)
{
	connection_leave(connection, 0);
	connection->place = place;
	ask_next(connection);
}

/* The place has been reached. */
static void ask(struct connection *connection)
{
	int error;

	connection->stage = ASKING;
	error = connection_tell(connection, connection->target.own.peer_to_peer ? MESSAGE_PEER_REQUEST : MESSAGE_REQUEST);
	if (!error)
		connection_set_deadline(connection, clock_nsec() + connection->patience);
	else if (error == EPIPE)
		go_to_place(connection, connection->place + 1); /* gone again */
	else
		fail_for(connection, error);
}

/* 0 or errno: EINPROGRESS; ECONNREFUSED: nobody is there. */
static int reach(const struct in6_addr *host, const struct place *place, struct watched_socket *watched,
		 struct description *described)
{
	struct device *device = watched->connector->device;
	const int on = 1;
	struct place from;
	int error = socket_open(watched, place), unwatched;

	if (error)
		return error;
	socket_prepare(watched, host);
	if (device->ops->source) {
		device->ops->source(device, host, &from);
		setsockopt(watched->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
		if (bind(watched->fd, (struct sockaddr *)&from.address, from.length))
			return cause("bind()", errno == EADDRNOTAVAIL ? ENODEV : errno);
	}
	if (connect(watched->fd, (const struct sockaddr *)&place->address, place->length))
		error = cause("connect()", errno);
	if (error && error != EINPROGRESS)
		return error;
	if (device->ops->admit && !device->ops->admit(device, watched->fd, described))
		return ECONNREFUSED; /* not one of ours */
	unwatched = socket_watch(watched, error ? EPOLLOUT : EPOLLIN | EPOLLRDHUP);
	return unwatched ? unwatched : error;
}

/* Reaching a place has ended so, or goes on. False: nobody can be asked there. */
static bool settle(struct connection *connection, int error)
{
	if (!error) {
		ask(connection);
	} else if (error == EINPROGRESS) {
		connection->stage = REACHING;
		connection_set_deadline(connection, clock_nsec() + TCP_NSEC);
	} else if (error == EAGAIN || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) {
		connection->is_unsure |= error == EAGAIN; /* the listener's queue is full, so its discriminator is not known */
		return false;
	} else {
		fail_for(connection, error);
	}
	return true;
}

/* Goes on with the places that have not been asked yet this time. */
static void ask_next(struct connection *connection)
{
	const struct in6_addr *host = &connection->target.host;
	struct place at[PLACE_ADDRESSES];

	connection->conversation.peer.host = *host;
	while (find_place(connection, connection->place, at)) {
		connection->began = clock_nsec();
		connection->is_heard = false;
		if (settle(connection, reach(host, &at[0], &connection->conversation.watched,
					     &connection->conversation.described)))
			return;
		connection_leave(connection, 0);
		connection->place++;
	}
	no_answer(connection, connection->is_unsure ? VIP_TIMEOUT : VIP_NO_MATCH);
}

/*
 * Whoever listens at this place is stopped, or only late: then the request would get lost if it was withdrawn. So it stays,
 * unless another socket finds somebody else who listens for the discriminator.
 */
static void look_for_another(struct connection *connection)
{
	struct place at[PLACE_ADDRESSES];
	struct description unused;

	while (find_place(connection, connection->next_look, at)) {
		unsigned place = connection->next_look++;
		int error = ECONNREFUSED;

		if (place != connection->place)
			error = reach(&connection->target.host, &at[0], &connection->look, &unused);
		if (error == EINPROGRESS)
			return;
		socket_close(&connection->look, true);
		if (!error) {
			go_to_place(connection, place);
			return;
		}
	}
}

void connection_routed(struct connection *connection)
{
	const struct device_ops *ops = connector_ops(connector_of(connection));
	int error;

	if (connection->stage != ROUTING)
		return;
	error = ops->route ? ops->route(connection->endpoint, &connection->target.host) : 0;
	if (!error)
		ask_next(connection);
	else if (error != EINPROGRESS)
		fail_for(connection, error);
}

static void ask_all(struct connection *connection)
{
	connection->stage = ROUTING;
	connection->began = clock_nsec();
	connection->is_heard = false;
	connection->is_unsure = false;
	connection->place = 0;
	connection_set_deadline(connection, DEADLINE_NEVER);
	connection_routed(connection);
}

bool connection_ask(struct connection *connection)
{
	connection->last = VIP_SUCCESS;
	connection->patience = HEAR_HERE_NSEC;
	connection->pause = FIRST_PAUSE;
	connection_has_grace(connection);
	ask_all(connection);
	return connection->stage == PAUSING;
}

/* ---- the answer ---- */

/* Whether connect() has succeeded: 0 or errno. */
static int error_of_connect(const struct watched_socket *watched)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (!fd_is_own(watched->fd) || getsockopt(watched->fd, SOL_SOCKET, SO_ERROR, &error, &length))
		error = EBADF;
	return cause("connect()", error);
}

void asking_looked(struct watch *look)
{
	struct connection *connection = container_of(look, struct connection, look.watch);
	int error = error_of_connect(&connection->look);

	socket_close(&connection->look, true);
	if (error)
		look_for_another(connection);
	else
		go_to_place(connection, connection->next_look - 1);
}

void asking_reached(struct connection *connection)
{
	struct watched_socket *watched = &connection->conversation.watched;
	int error = error_of_connect(watched);

	if (error == ETIMEDOUT)
		tell_silence(connection);
	if (!error)
		socket_watch(watched, EPOLLIN | EPOLLRDHUP);
	if (!settle(connection, error))
		go_to_place(connection, connection->place + 1);
}

/* The peer has said yes, and what its data path is. */
static void accepted(struct connection *connection)
{
	struct conversation *conversation = &connection->conversation;
	int error = EPROTO;

	if (conversation->peer.reliability == connection->target.own.reliability) {
		vi_hold_sends(connection->vi);
		error = connection_raise(connection, false);
	}
	if (error) {
		log_error_ratelimited("cannot complete a connection with %s: %s",
				      host_name(&connection->target.host), failure(error));
		connection_failed(connection, error == EPROTO ? VIP_NOT_REACHABLE : raising_result(error), 0);
	} else if (conversation_say(conversation, MESSAGE_CONFIRM, NULL, NULL, NULL)) {
		connection_failed(connection, VIP_TIMEOUT, 0);
	} else {
		connection_succeeded(connection);
	}
}

void asking_answered(struct connection *connection)
{
	int code = conversation_hear(&connection->conversation);

	if (code == MESSAGE_NONE)
		return;
	socket_close(&connection->look, true);
	if (code == MESSAGE_BAD_VERSION)
		log_error_ratelimited("%s refuses this version of the library", host_name(&connection->target.host));
	if (code == MESSAGE_OF_OTHER_VERSION)
		log_error_ratelimited("%s has another version of this library (%u, not %u)",
				      host_name(&connection->target.host), (unsigned)connection->conversation.in.version,
				      (unsigned)connector_of(connection)->device->version);
	switch (code) {
	case MESSAGE_ACCEPT:
		accepted(connection);
		return;
	case MESSAGE_REJECT:
	case MESSAGE_BAD_VERSION:
	case MESSAGE_OF_OTHER_VERSION:
		connection_failed(connection, VIP_REJECT, 0);
		return;
	case HEARD_CUT:
		connection_failed(connection, VIP_ERROR_RESOURCE, 0);
		return;
	case HEARD_LOST: /* it may come back */
		no_answer(connection, VIP_TIMEOUT);
		return;
	case MESSAGE_HERE:
		if (connection->is_heard)
			break; /* nobody says that twice */
		connection->is_heard = true;
		if (!connection->is_unsure) /* else another one has not said it yet, and needs more time */
			connection->patience = HEAR_HERE_NSEC;
		connection_set_deadline(connection, DEADLINE_NEVER);
		return;
	case MESSAGE_BUSY:
		connection->is_unsure = true; /* a server exists: this round cannot end in VIP_NO_MATCH */
		break;
	default: /* NO_MATCH; or it has stopped to wait without a word; or it is no NIC */
		break;
	}
	connection->grace_ends += clock_nsec() - connection->began; /* none has passed while somebody had the request */
	go_to_place(connection, connection->place + 1);
}

static void here_expired(struct connection *connection)
{
	connection->is_unsure = true;
	if (connection->patience < LONGEST_HERE_NSEC)
		connection->patience *= 2;
	connection_set_deadline(connection, clock_nsec() + connection->patience);
	if (connection->look.fd < 0)
		connection->next_look = 0;
	socket_close(&connection->look, true); /* that place is silent, too */
	if (fd_is_own(connection->conversation.watched.fd))
		look_for_another(connection);
	else
		go_to_place(connection, connection->place + 1);
}

void asking_expired(struct connection *connection)
{
	switch (connection->stage) {
	case REACHING:
		tell_silence(connection);
		no_answer(connection, VIP_TIMEOUT);
		break;
	case ASKING:
		here_expired(connection);
		break;
	default:
		ask_all(connection);
		break;
	}
}
