/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection does without its VI: its times and pauses, what its ends tell each other of their data paths, and its end. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/deadline.h"
#include "connect.h"

#define LONGEST_PAUSE (16 * NSEC_PER_MSEC)
#define RARE_PAUSE    (256 * NSEC_PER_MSEC) /* the longest one after the grace time */

/* ---- times and tries ---- */

void connection_set_deadline(struct connection *connection, int64_t deadline)
{
	const int64_t end = connection->target.deadline;

	socket_set_deadline(&connection->conversation.watched, deadline < end ? deadline : end);
}

void connection_listens(struct connection *connection)
{
	connection->stage = LISTENING;
	connection_set_deadline(connection, DEADLINE_NEVER);
}

void connection_has_grace(struct connection *connection)
{
	connection->grace_ends = clock_nsec() + config()->grace_msec * NSEC_PER_MSEC;
}

/* The route is asked for again. A server that was busy, late or out of reach may be gone then, and come back in a grace time. */
void connection_pauses(struct connection *connection, VIP_RETURN reason)
{
	int64_t longest = clock_nsec() < connection->grace_ends ? LONGEST_PAUSE : RARE_PAUSE;

	connection->stage = PAUSING;
	connection->last = reason;
	if (reason == VIP_TIMEOUT)
		connection_has_grace(connection);
	connection_set_deadline(connection, clock_nsec() + connection->pause);
	connection->pause = connection->pause * 2 < longest ? connection->pause * 2 : longest;
}

void connection_leave(struct connection *connection, int last_word)
{
	socket_close(&connection->look, true);
	conversation_end(&connection->conversation, last_word);
}

void connection_decided(struct connection *connection)
{
	if (!connection->acceptor)
		return;
	TAILQ_REMOVE(&connector_of(connection)->listening, connection, in_listening);
	acceptor_close(connection->acceptor);
	connection->acceptor = NULL;
}

void connection_withdrawn(struct connection *connection, VIP_RETURN reason, bool goes_on)
{
	connection_leave(connection, connection->last_word);
	if (!goes_on)
		connection_decided(connection);
	else if (connection->acceptor)
		connection_listens(connection);
	else
		connection_pauses(connection, reason);
}

/* ---- the data path ---- */

int connection_raise(struct connection *connection, bool accepts)
{
	struct conversation *conversation = &connection->conversation;
	int error;

	conversation->described.socket = conversation->watched.fd;
	error = connector_ops(connector_of(connection))->raise(connection->endpoint, accepts, &connection->target.own,
							       &conversation->peer, &conversation->described);
	conversation_close_fds(conversation);
	return error;
}

VIP_RETURN raising_result(int error)
{
	return error == EPIPE || error == ETIMEDOUT || error == EHOSTUNREACH ? VIP_TIMEOUT : VIP_ERROR_RESOURCE;
}

int connection_tell(struct connection *connection, enum message_code code)
{
	const struct target *target = &connection->target;
	const struct discriminator *wanted = code == MESSAGE_ACCEPT ? NULL : &target->wanted;
	struct description own = {.socket = connection->conversation.watched.fd, .sent_fd = -1};
	int error;

	connector_ops(connector_of(connection))->describe(connection->endpoint, &own);
	error = conversation_say(&connection->conversation, code, &target->own, wanted, &own);
	if (own.sent_fd >= 0)
		close(own.sent_fd);
	return error;
}

/* ---- the end ---- */

void connection_close(struct connection *connection, bool in_silence)
{
	const int last_word = in_silence ? SILENCE : MESSAGE_DISCONNECT, is_connected = connection->stage == CONNECTED;

	connection->stage = UNCONNECTED;
	connection_decided(connection);
	connection_leave(connection, is_connected ? last_word : 0);
}

void connection_destroy(struct connection *connection)
{
	connection_close(connection, false);
	free(connection);
}
