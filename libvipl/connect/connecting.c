/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attempts to connect, until their results: of clients, of VIs that accept a request, and of peers; and the end of them all.
 *
 * In a peer-to-peer connection the end with the lesser address asks as a client does, and the other one listens, and takes the
 * request of the end that it asks for. So requests never cross.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/deadline.h"
#include "connect.h"
#include "core/nic.h"
#include "vis.h"

/* ---- the beginning and the end of an attempt ---- */

/* IDLE -> CONNECT_PENDING. */
static VIP_RETURN begin_attempt(struct vi *vi, const struct target *target)
{
	struct connection *attempt = vi->connection;
	struct connect_info *own = &attempt->target.own;

	atomic_store(&attempt->is_peer_to_peer, false);
	if (nic_is_lost(vi->nic) || !vi_offer(vi))
		return VIP_ERROR_RESOURCE;
	attempt->number++;
	attempt->changes = vi->nic->changes;
	atomic_store(&attempt->result, VIP_NOT_DONE);
	attempt->target = *target;
	attempt->endpoint = vi->endpoint;
	own->reliability = vi->attributes.ReliabilityLevel;
	own->max_transfer = (uint32_t)vi->attributes.MaxTransferSize;
	own->rights = vi_rights(&vi->attributes);
	return VIP_SUCCESS;
}

/* The attempt has its result after this, unless another one has begun: a try that fails may go on until it has ended. */
static void expire_attempt(struct vi *vi, unsigned number)
{
	while (vi->connection->number == number && vi->connection->result == VIP_NOT_DONE) {
		connection_expire(vi->connection);
		vi_await_end(vi);
	}
}

/* A thread that waits for the result. */
struct waiter {
	struct vi *vi;
	unsigned number;
	bool has_begun; /* it has begun the attempt, and ends it when it is cancelled */
};

static void leave_result(void *argument)
{
	const struct waiter *waiter = argument;
	struct vi *vi = waiter->vi;

	if (waiter->has_begun)
		expire_attempt(vi, waiter->number);
	pthread_mutex_unlock(&vi->nic->lock);
	vi_put(vi);
}

/* If the thread is cancelled it leaves; NULL: it is not. */
static VIP_RETURN await_result(struct vi *vi, cancel_leave *leave)
{
	struct connection *attempt = vi->connection;
	const int64_t deadline = attempt->target.deadline;
	unsigned number = attempt->number;
	struct waiter waiter = {vi, number, !atomic_load(&attempt->is_peer_to_peer)};
	bool in_time = true;

	while (in_time && attempt->result == VIP_NOT_DONE && attempt->number == number)
		in_time = (leave ? cancel_condition_wait(&vi->changed, &vi->nic->lock, deadline, leave, &waiter)
				 : condition_wait(&vi->changed, &vi->nic->lock, deadline)) != ETIMEDOUT;
	expire_attempt(vi, number);
	/* Or it was disconnected, and used anew by another thread. */
	return attempt->number == number ? attempt->result : VIP_INVALID_STATE;
}

/* ---- peer-to-peer ---- */

/* Both ends get the same answer, except for the sign. */
static int compare_ends(const struct target *target)
{
	int order = discriminator_compare(&target->own.discriminator, &target->wanted);

	return order ? order : memcmp(&target->own.host, &target->host, sizeof(target->host));
}

VIP_RETURN attempt_request(struct vi *vi, const struct target *target)
{
	struct connection *attempt = vi->connection;
	int order = target->own.peer_to_peer ? compare_ends(target) : -1; /* a client asks */
	VIP_RETURN rc = vi_check_idle(vi);
	bool asks_soon = false;

	if (rc == VIP_SUCCESS)
		rc = order ? begin_attempt(vi, target) : VIP_INVALID_PARAMETER;
	if (rc != VIP_SUCCESS)
		return rc;
	if (order < 0)
		asks_soon = connection_ask(vi->connection);
	else if (!connection_listen(vi->connection)) {
		vi_await_end(vi);
		return VIP_ERROR_RESOURCE;
	}
	/* To look at the connection's deadline. It sees a later one by itself, and the caller sees its own. */
	if (asks_soon || target->own.peer_to_peer)
		agent_wake(vi->nic);
	if (!target->own.peer_to_peer)
		return await_result(vi, leave_result);
	atomic_store(&attempt->is_peer_to_peer, true);
	return VIP_SUCCESS;
}

bool attempt_peer_goes_on(const struct vi *vi)
{
	return atomic_load(&vi->connection->is_peer_to_peer) && atomic_load(&vi->connection->result) == VIP_NOT_DONE;
}

VIP_RETURN attempt_peer_result(struct vi *vi, bool waits)
{
	if (!atomic_load(&vi->connection->is_peer_to_peer))
		return VIP_INVALID_STATE;
	return waits ? await_result(vi, leave_result) : atomic_load(&vi->connection->result);
}

/* ---- answers to requests ---- */

static struct nic *nic_of(const struct request *request)
{
	return request->conversation.watched.connector->nic;
}

/* The NIC's lock is held. The thread that retires the handle answers the request. False: another thread was first. */
static bool take_request(struct request *request)
{
	if (!object_retire(&request->object))
		return false;
	TAILQ_REMOVE(&nic_of(request)->requests, request, in_list);
	return true;
}

/* Without the lock: others that were late may still hold references, and want the lock. */
static void release_request(struct request *request, bool taken)
{
	if (!taken) {
		object_put(&request->object);
		return;
	}
	object_drain(&request->object, 1);
	free(request);
}

/* Whether the VI can take the request; then it is CONNECT_PENDING. */
static VIP_RETURN begin_to_accept(struct vi *vi, const struct conversation *client)
{
	const struct connect_info *peer = &client->peer;
	const struct target target = {.own = {.discriminator = client->wanted},
				      .host = peer->host,
				      .wanted = peer->discriminator,
				      .deadline = DEADLINE_NEVER};
	VIP_RETURN rc = vi_check_idle(vi);

	if (rc == VIP_SUCCESS)
		rc = connection_check(vi->attributes.ReliabilityLevel, (uint32_t)vi->attributes.MaxTransferSize, peer);
	return rc == VIP_SUCCESS ? begin_attempt(vi, &target) : rc;
}

VIP_RETURN request_accept(struct request *request, struct vi *vi)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct nic *nic = vi->nic;
	struct listener *listener;
	bool taken = false;

	pthread_mutex_lock(&nic->lock);
	if (nic_of(request) == nic && !object_retired(&request->object))
		rc = begin_to_accept(vi, &request->conversation);
	if (rc == VIP_SUCCESS) {
		taken = take_request(request);
		listener = listener_accepts(nic, &request->conversation.wanted);
		connection_accept(vi->connection, &request->conversation);
		rc = await_result(vi, NULL); /* the connection knows how long a requester may take */
		listener_has_accepted(listener);
	}
	pthread_mutex_unlock(&nic->lock);
	release_request(request, taken);
	return rc;
}

bool request_reject(struct request *request)
{
	struct nic *nic = nic_of(request);
	bool taken;

	if (!object_hold(&nic->object)) { /* being closed, which answers the request */
		object_put(&request->object);
		return false;
	}
	pthread_mutex_lock(&nic->lock);
	taken = take_request(request);
	if (taken)
		conversation_end(&request->conversation, MESSAGE_REJECT);
	pthread_mutex_unlock(&nic->lock);
	release_request(request, taken);
	nic_put(nic);
	return taken;
}

/* ---- the program ends them ---- */

void disconnect(struct vi *vi)
{
	const VIP_VI_STATE state = atomic_load(&vi->state);

	if (state == VIP_STATE_CONNECT_PENDING) /* another thread or the agent waits for the result */
		connection_cancel(vi->connection, VIP_INVALID_STATE);
	else if (state != VIP_STATE_IDLE)
		vi_disconnect(vi);
	atomic_store(&vi->connection->is_peer_to_peer, false); /* VipConnectPeerDone has no result any more */
	vi_await_end(vi);
}

static void abandon(struct vi *vi)
{
	vi_abandon(vi);
	if (atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING)
		connection_cancel(vi->connection, VIP_INVALID_PARAMETER);
	vi_decide(vi, VIP_INVALID_PARAMETER);
}

void connections_close(struct nic *nic)
{
	struct request *request;
	struct vi *vi;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		if (atomic_load(&vi->state) != VIP_STATE_IDLE)
			abandon(vi);
	listeners_close(nic);
	while ((request = TAILQ_FIRST(&nic->requests))) {
		take_request(request);
		conversation_end(&request->conversation, MESSAGE_REJECT);
		pthread_mutex_unlock(&nic->lock);
		object_drain(&request->object, 0);
		free(request);
		pthread_mutex_lock(&nic->lock);
	}
}
