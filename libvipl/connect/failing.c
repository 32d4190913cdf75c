/* SPDX-License-Identifier: BSD-2-Clause */
/* How an attempt to connect ends without a connection, and with which code. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "inside.h"

#define ASKING_CALLS	"socket(), connect(), sendmsg() or epoll_ctl()"

void connection_leave(struct connection *connection, enum message_code last_word)
{
	connection->stage = UNCONNECTED;
	conversation_end(&connection->conversation, last_word);
}

/* The socket stays until the device is done with the peer. */
void connection_fail_with(struct connection *connection, VIP_RETURN reason, enum message_code last_word)
{
	connection->stage = UNCONNECTED;
	endpoint_refused(connection->vi, reason);
	connection_leave(connection, last_word);
}

void connection_fail(struct connection *connection, VIP_RETURN reason)
{
	connection_fail_with(connection, reason, 0);
}

void connection_no_answer(struct connection *connection, VIP_RETURN reason)
{
	connection->no_listener = false;
	connection_leave(connection, 0);
	endpoint_no_answer(connection->vi, reason);
}

void connection_fail_for(struct connection *connection, int error)
{
	char host[INET6_ADDRSTRLEN];

	switch (error) {
	case EHOSTUNREACH: /* nobody has this address; but the host of a peer may come to life */
		if (!connection->own.peer_to_peer)
			break;
		connection_no_answer(connection, VIP_TIMEOUT);
		return;
	case ETIMEDOUT:
		connection_no_answer(connection, VIP_TIMEOUT);
		return;
	case ETOOMANYREFS: /* others of this user cause it, and soon it may be over */
		log_error_ratelimited("cannot connect: %s%s", strerror(error), socket_hint(error, ASKING_CALLS));
		connection_no_answer(connection, VIP_ERROR_RESOURCE);
		return;
	case ENETUNREACH:
	case ENETDOWN:
	case ENODEV:
		break;
	default:
		log_error_ratelimited("cannot connect: %s%s", strerror(error), socket_hint(error, ASKING_CALLS));
		connection_fail(connection, VIP_ERROR_RESOURCE);
		return;
	}
	host_text(&connection->host, host);
	log_ratelimited(LOG_LEVEL_INFO, "%s is not reachable: %s", host, strerror(error));
	connection_fail(connection, VIP_NOT_REACHABLE);
}

bool error_is_end(int error)
{
	return error == EPIPE || error == ETIMEDOUT || error == EHOSTUNREACH;
}
