/* SPDX-License-Identifier: BSD-2-Clause */
/* An attempt to connect, of an end that asks or of one that is asked: its data path, and its end. */
#include <errno.h>

#include "base/deadline.h"
#include "connect_internal.h"

int connection_raise(struct connection *connection, bool accepts)
{
	struct conversation *conversation = &connection->conversation;
	int error;

	conversation->peer.socket = conversation->watched.fd;
	/* The peer may send as soon as it has the answer. */
	endpoint_establishing(connection->vi);
	error = ops_of(connector_of(connection))->raise(connection->endpoint, accepts, &connection->target->own,
							&connection->peer, &conversation->peer);
	conversation_close_fds(conversation);
	return error;
}

VIP_RETURN raising_result(int error)
{
	return error == EPIPE || error == ETIMEDOUT || error == EHOSTUNREACH ? VIP_TIMEOUT : VIP_ERROR_RESOURCE;
}

void connection_decided(struct connection *connection)
{
	timer_set(connector_of(connection), &connection->limit, DEADLINE_NEVER);
	if (!connection->acceptor)
		return;
	TAILQ_REMOVE(&connector_of(connection)->awaiting, connection, in_awaiting);
	acceptor_close(connection->acceptor);
	connection->acceptor = NULL;
}

void connection_succeeded(struct connection *connection)
{
	socket_set_deadline(&connection->conversation.watched, DEADLINE_NEVER);
	connection->stage = CONNECTED;
	connection_decided(connection);
	endpoint_connected(connection->vi, &connection->peer);
}

/* The socket stays until the device is done with the peer. Returns as connection_failed(). */
static bool end_attempt(struct connection *connection, VIP_RETURN reason, bool goes_on, enum message_code last_word)
{
	connection->stage = UNCONNECTED;
	goes_on = endpoint_refused(connection->vi, reason, goes_on);
	conversation_end(&connection->conversation, last_word);
	if (!goes_on)
		connection_decided(connection);
	else if (connection->acceptor)
		connection->stage = AWAITING;
	return goes_on && !connection->acceptor;
}

bool connection_failed(struct connection *connection, VIP_RETURN reason, enum message_code last_word)
{
	return end_attempt(connection, reason, reason == VIP_TIMEOUT && connection->target->own.peer_to_peer, last_word);
}

/* The other end gets VIP_TIMEOUT, too, unless it has been accepted just before: then its connection is lost at once. */
void connection_timed_out(struct connection *connection)
{
	end_attempt(connection, VIP_TIMEOUT, false, 0);
}
