/* SPDX-License-Identifier: BSD-2-Clause */
/* The data path of a connection: what its ends tell each other of it, and raising it. */
#include <errno.h>
#include <unistd.h>

#include "connect_internal.h"

int connection_raise(struct connection *connection, bool accepts)
{
	struct conversation *conversation = &connection->conversation;
	int error;

	conversation->described.socket = conversation->watched.fd;
	/* The peer may send as soon as it has the answer. */
	endpoint_establishing(connection->vi);
	error = connector_ops(connector_of(connection))->raise(connection->target->endpoint, accepts, &connection->target->own,
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
	const struct target *target = connection->target;
	const struct discriminator *wanted = code == MESSAGE_ACCEPT ? NULL : &target->wanted;
	struct description own = {.socket = connection->conversation.watched.fd, .sent_fd = -1};
	int error;

	connector_ops(connector_of(connection))->describe(target->endpoint, &own);
	error = conversation_say(&connection->conversation, code, &target->own, wanted, &own);
	if (own.sent_fd >= 0)
		close(own.sent_fd);
	return error;
}
