/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection of a VI: accepting, what comes while it lasts, and the end. Asking is asking.c's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/log.h"
#include "inside.h"

#define CONFIRM_NSEC (10 * NSEC_PER_SEC)
#define ACKS_NSEC    (50 * NSEC_PER_MSEC) /* the last acknowledgements may take */

#define ACCEPTING_CALLS "memfd_create(), ftruncate(), fallocate(), fcntl(), mmap(), sendmsg() or epoll_ctl()"

/* ---- accepting ---- */

/* The data path, and the answer. 0 or errno; EPIPE when the requester is gone. */
static int say_yes(struct connection *connection, const struct connect_info *own)
{
	struct conversation *conversation = &connection->conversation;
	const struct device_ops *ops = ops_of(connector_of(connection));
	struct description described = {.sent_fd = -1};
	struct connect_info *peer = &connection->peer;
	struct discriminator unused;
	int error;

	message_read(&conversation->in, peer, &unused, &conversation->peer);
	peer->host = conversation->peer.host = conversation->host;
	conversation->peer.socket = conversation->watched.fd;
	connection->own = *own;
	/* The requester may send as soon as it has the answer. */
	endpoint_establishing(connection->vi);
	error = ops->raise(connection->endpoint, true, own, peer, &conversation->peer);
	conversation_close_fds(conversation);
	if (!error)
		error = ops->describe(connection->endpoint, &described);
	if (!error && !conversation_say(conversation, MESSAGE_ACCEPT, own, NULL, &described))
		error = errno == ETOOMANYREFS || is_refused(errno) ? errno : EPIPE;
	if (described.sent_fd >= 0)
		close(described.sent_fd);
	return error;
}

void connection_accept(struct connection *connection, struct device_endpoint *endpoint, struct client *client,
		       const struct connect_info *own)
{
	struct conversation *conversation = &connection->conversation;
	int error;

	connection->endpoint = endpoint;
	conversation->in = client->conversation.in;
	error = conversation_move(&client->conversation, conversation);
	free(client);
	if (!error) {
		connection->stage = CONFIRMING;
		conversation_set_deadline(conversation, clock_nsec() + CONFIRM_NSEC);
		error = say_yes(connection, own);
	}
	if (!error)
		return;
	if (error_is_end(error)) {
		connection_fail(connection, VIP_TIMEOUT);
		return;
	}
	log_error_ratelimited("cannot accept a connection: %s%s", strerror(error), socket_hint(error, ACCEPTING_CALLS));
	connection_fail_with(connection, VIP_ERROR_RESOURCE, MESSAGE_REJECT);
}

/* ---- the end ---- */

/* The peer has ended the connection, or is gone. */
static void ended(struct connection *connection)
{
	struct conversation *conversation = &connection->conversation;
	const struct device_ops *ops = ops_of(connector_of(connection));

	if (ops->awaits_acks && ops->awaits_acks(connection->endpoint)) {
		conversation_pause(conversation);
		conversation_set_deadline(conversation, clock_nsec() + ACKS_NSEC);
		return;
	}
	endpoint_lost(connection->vi);
}

static void connected_heard(struct connection *connection, int code)
{
	if (code == MESSAGE_NONE)
		return;
	if (code == MESSAGE_DISCONNECT)
		endpoint_closed(connection->vi);
	ended(connection);
}

static void heard(struct conversation *conversation)
{
	struct connection *connection = (struct connection *)conversation;
	int code;

	if (connection->stage == ASKING) {
		asking_heard(connection);
		return;
	}
	code = conversation_hear(conversation);
	switch (connection->stage) {
	case CONFIRMING:
		if (code == MESSAGE_CONFIRM) {
			conversation_set_deadline(conversation, DEADLINE_NEVER);
			connection->stage = CONNECTED;
			endpoint_connected(connection->vi, &connection->peer);
		} else if (code != MESSAGE_NONE) {
			connection_fail(connection, VIP_TIMEOUT); /* it has given up */
		}
		break;
	case CONNECTED:
		connected_heard(connection, code);
		break;
	default:
		break;
	}
}

static void expired(struct conversation *conversation)
{
	struct connection *connection = (struct connection *)conversation;

	switch (connection->stage) {
	case ASKING:
		asking_expired(connection);
		break;
	case CONFIRMING:
		connection_fail(connection, VIP_TIMEOUT);
		break;
	case CONNECTED:
		endpoint_lost(connection->vi);
		break;
	case UNCONNECTED:
		break;
	}
}

/* ---- what is called from above ---- */

struct connection *connection_create(struct connector *connector, struct vi *vi)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->vi = vi;
	connection->conversation.connector = connector;
	connection->conversation.watched.fd = -1;
	connection->conversation.deadline = DEADLINE_NEVER;
	connection->conversation.heard = heard;
	connection->conversation.expired = expired;
	return connection;
}

void connection_destroy(struct connection *connection)
{
	connection_leave(connection, 0);
	free(connection);
}

void connection_begin(struct connection *connection)
{
	connection->no_listener = false;
	connection->slowest = 0;
	connection->patience = NSEC_PER_SEC;
}

VIP_RETURN connection_cancel(struct connection *connection)
{
	bool asks = connection->stage == ASKING;
	bool may_be_answered = asks && asking_may_be_answered(connection);

	if (asks && !connection->is_reached)
		asking_tell_silence(connection);
	connection->stage = UNCONNECTED;
	return connection->no_listener && asks && !may_be_answered ? VIP_NO_MATCH : VIP_TIMEOUT;
}

void connection_close(struct connection *connection)
{
	connection_leave(connection, connection->stage == CONNECTED ? MESSAGE_DISCONNECT : 0);
}
