/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection hears: the request that it accepts, what comes while it lasts, and the end. An answer is asking.c's. */
#include <errno.h>
#include <stdlib.h>

#include "base/container.h"
#include "base/deadline.h"
#include "base/log.h"
#include "connect.h"
#include "vis.h"

/* A requester may be late with its confirmation. But it makes others wait: then it has less time. */
#define CONFIRM_NSEC	   (10 * NSEC_PER_SEC)
#define SHORT_CONFIRM_NSEC (3 * NSEC_PER_SEC)
#define RIVALS_NSEC	   NSEC_PER_SEC /* after this it is looked again whether there are others */

#define ACKS_NSEC (50 * NSEC_PER_MSEC) /* the last acknowledgements may take */

/* ---- accepting ---- */

void connection_accept(struct connection *connection, struct conversation *client)
{
	struct conversation *conversation = &connection->conversation;
	bool is_refused;
	int error;

	connection->stage = CONFIRMING;
	connection->began = clock_nsec();
	conversation->peer = client->peer;
	conversation->described = client->described;
	error = socket_move(&client->watched, &conversation->watched);
	if (!error) {
		connection_set_deadline(connection, connection->began + SHORT_CONFIRM_NSEC);
		vi_hold_sends(connection->vi);
		error = connection_raise(connection, true);
	}
	if (!error)
		error = connection_tell(connection, MESSAGE_ACCEPT);
	if (!error)
		return;
	if (raising_result(error) == VIP_TIMEOUT) {
		connection_failed(connection, VIP_TIMEOUT, 0);
		return;
	}
	log_error_ratelimited("cannot accept a connection from %s: %s", host_name(&conversation->peer.host), failure(error));
	/* A client can come again; but the attempt that a peer asks for is over. */
	is_refused = connection->target.own.peer_to_peer || error == EPROTO;
	connection_failed(connection, VIP_ERROR_RESOURCE, is_refused ? MESSAGE_REJECT : MESSAGE_BUSY);
}

VIP_RETURN connection_check(VIP_RELIABILITY_LEVEL reliability, uint32_t max_transfer, const struct connect_info *peer)
{
	if (peer->reliability != reliability)
		return VIP_INVALID_RELIABILITY_LEVEL;
	return peer->max_transfer == max_transfer ? VIP_SUCCESS : VIP_INVALID_MTU;
}

bool connection_listen(struct connection *connection)
{
	struct connector *connector = connector_of(connection);

	connection->acceptor = acceptor_open(connector, &connection->target.own.discriminator);
	if (!connection->acceptor) {
		connection_failed(connection, VIP_ERROR_RESOURCE, 0);
		return false;
	}
	TAILQ_INSERT_TAIL(&connector->listening, connection, in_listening);
	connection_listens(connection);
	return true;
}

static bool listens_for(const struct connection *connection, const struct conversation *client)
{
	const struct target *target = &connection->target;

	return connection->stage == LISTENING && discriminator_equal(&target->own.discriminator, &client->wanted) &&
	       discriminator_equal(&target->wanted, &client->peer.discriminator) &&
	       host_equal(&target->host, &client->peer.host);
}

/* A request has come. Returns how to refuse it, or 0: it is taken. A peer's names one VI, and servers take any client. */
static enum message_code arrived(struct request *request)
{
	struct conversation *client = &request->conversation;
	struct connector *connector = client->watched.connector;
	const struct connect_info *own;
	struct connection *connection;

	if (!client->peer.peer_to_peer)
		return listeners_take(connector->nic, request);
	TAILQ_FOREACH(connection, &connector->listening, in_listening)
		if (listens_for(connection, client))
			break;
	if (!connection)
		return MESSAGE_NO_MATCH;
	own = &connection->target.own;
	if (connection_check(own->reliability, own->max_transfer, &client->peer) != VIP_SUCCESS) {
		connection_failed(connection, VIP_REJECT, 0); /* neither can ever get what it asks for */
		return MESSAGE_REJECT;
	}
	connection_accept(connection, client);
	free(request);
	return 0;
}

/* ---- the end ---- */

/* The peer has ended the connection, as it may have said, or is gone. */
static void ended(struct connection *connection, bool is_said)
{
	struct watched_socket *watched = &connection->conversation.watched;
	const struct device_ops *ops = connector_ops(connector_of(connection));

	if (is_said)
		vi_closed(connection->vi);
	if (ops->awaits_acks && ops->awaits_acks(connection->endpoint)) {
		socket_unwatch(watched);
		socket_set_time(watched, ACKS_NSEC);
		return;
	}
	vi_lose(connection->vi, VIP_ERROR_CONN_LOST);
}

/* An end that has accepted, or is connected. */
static void hear(struct connection *connection)
{
	int code;

	if (connection->stage == CONNECTED && conversation_take_wake(&connection->conversation)) {
		connector_ops(connector_of(connection))->woken_by_peer(connection->endpoint);
		return;
	}
	code = conversation_hear(&connection->conversation);
	if (code == MESSAGE_NONE)
		return;
	if (connection->stage == CONNECTED)
		ended(connection, code == MESSAGE_DISCONNECT);
	else if (code == MESSAGE_CONFIRM)
		connection_succeeded(connection);
	else /* it has given up */
		connection_failed(connection, VIP_TIMEOUT, 0);
}

static void ready(struct watch *watch)
{
	struct connection *connection = container_of(watch, struct connection, conversation.watched.watch);

	if (connection->stage == REACHING)
		asking_reached(connection);
	else if (connection->stage == ASKING)
		asking_answered(connection);
	else
		hear(connection);
}

static void confirmation_expired(struct connection *connection)
{
	const struct connect_info *own = &connection->target.own;
	int64_t now = clock_nsec();

	if (now - connection->began < CONFIRM_NSEC &&
	    (own->peer_to_peer || !listeners_have_more(connector_of(connection)->nic, &own->discriminator)))
		connection_set_deadline(connection, now + RIVALS_NSEC);
	else
		connection_failed(connection, VIP_TIMEOUT, 0);
}

static void expired(struct watched_socket *watched)
{
	struct connection *connection = container_of(watched, struct connection, conversation.watched);

	if (connection->stage == CONNECTED)
		vi_lose(connection->vi, VIP_ERROR_CONN_LOST);
	else if (!deadline_left(connection->target.deadline))
		connection_expire(connection);
	else if (connection->stage == CONFIRMING)
		confirmation_expired(connection);
	else
		asking_expired(connection);
}

struct connection *connection_create(struct connector *connector, struct vi *vi)
{
	struct connection *connection = zeroed(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->vi = vi;
	socket_init(&connection->conversation.watched, connector, ready, expired);
	socket_init(&connection->look, connector, asking_looked, NULL);
	return connection;
}

/* ---- all of a NIC ---- */

struct connector *connector_open(struct nic *nic, struct device *device)
{
	struct connector *connector = zeroed(1, sizeof(*connector));

	if (!connector)
		return NULL;
	connector->nic = nic;
	connector->device = device;
	connector->arrived = arrived;
	TAILQ_INIT(&connector->listening);
	TAILQ_INIT(&connector->expiring);
	return connector;
}

/* What was said last arrives nevertheless. */
void connector_close(struct connector *connector)
{
	crowd_end(connector, &connector->farewells);
	free(connector);
}
