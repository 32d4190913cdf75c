/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attempts to connect, from VIP_STATE_CONNECT_PENDING to their result: of a client, of a VI that accepts,
 * and of a peer-to-peer connection.
 *
 * In a peer-to-peer connection both ends ask for each other, and their addresses decide which part each end has: the
 * end with the lesser address asks as a client does; the other end listens, and takes the request that
 * comes from the end that it asks for. So requests never cross.
 */
#include "connecting.h"

#include <errno.h>
#include <string.h>

#include "base/cancel.h"
#include "base/deadline.h"
#include "core/nic.h"

static bool is_attempting(const struct vi *vi)
{
	return atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING && vi->ending.stage == ENDING_NOT;
}

/* ---- what both ends say of themselves ---- */

static void describe_self(struct connect_info *own, const struct vi *vi)
{
	own->reliability = vi->attributes.ReliabilityLevel;
	own->max_transfer = (uint32_t)vi->attributes.MaxTransferSize;
	own->rights = vi_rights(&vi->attributes);
}

/* ---- the beginning and the end of an attempt ---- */

static VIP_RETURN check_idle(const struct vi *vi)
{
	if (object_retired(&vi->object)) /* VipDestroyVi waits for the caller */
		return VIP_INVALID_PARAMETER;
	return atomic_load(&vi->state) == VIP_STATE_IDLE ? VIP_SUCCESS : VIP_INVALID_STATE;
}

/* IDLE -> CONNECT_PENDING. */
static VIP_RETURN begin_attempt(struct vi *vi, const struct target *target)
{
	struct attempt *attempt = &vi->attempt;

	atomic_store(&attempt->is_peer_to_peer, false);
	if (nic_is_lost(vi->nic) || !vi_offer(vi))
		return VIP_ERROR_RESOURCE;
	attempt->number++;
	attempt->changes = vi->nic->changes;
	atomic_store(&attempt->result, VIP_NOT_DONE);
	attempt->target = *target;
	attempt->target.endpoint = vi->endpoint;
	describe_self(&attempt->target.own, vi);
	return VIP_SUCCESS;
}

/* The attempt has its result after this, unless another one has begun: a try that fails may go on until it has ended. */
static void expire_attempt(struct vi *vi, unsigned number)
{
	while (vi->attempt.number == number && vi->attempt.result == VIP_NOT_DONE) {
		connection_expire(vi->connection);
		vi_await_end(vi);
	}
}

/* A thread that waits for the result. */
struct awaiting {
	struct vi *vi;
	unsigned number;
	bool has_begun; /* it has begun the attempt, and ends it when it is cancelled */
};

static void leave_result(void *argument)
{
	const struct awaiting *awaiting = argument;
	struct vi *vi = awaiting->vi;

	if (awaiting->has_begun)
		expire_attempt(vi, awaiting->number);
	pthread_mutex_unlock(&vi->nic->lock);
	vi_put(vi);
}

/* If the thread is cancelled it leaves; NULL: it is not. */
static VIP_RETURN await_result(struct vi *vi, cancel_leave *leave)
{
	struct attempt *attempt = &vi->attempt;
	const int64_t deadline = attempt->target.deadline;
	unsigned number = attempt->number;
	struct awaiting awaiting = {vi, number, !atomic_load(&attempt->is_peer_to_peer)};
	bool in_time = true;

	while (in_time && attempt->result == VIP_NOT_DONE && attempt->number == number)
		in_time = (leave ? cancel_condition_wait(&vi->changed, &vi->nic->lock, deadline, leave, &awaiting)
				 : condition_wait(&vi->changed, &vi->nic->lock, deadline)) != ETIMEDOUT;
	expire_attempt(vi, number);
	/* Or it was disconnected, and used anew by another thread. */
	return attempt->number == number ? attempt->result : VIP_INVALID_STATE;
}

/* ---- a client, and a server ---- */

VIP_RETURN attempt_prepare(struct vi *vi, const struct conversation *client)
{
	const struct connect_info *peer = &client->peer;
	const struct target target = {.own = {.discriminator = client->wanted},
				      .host = peer->host,
				      .wanted = peer->discriminator,
				      .deadline = DEADLINE_NEVER};
	struct connect_info own;
	VIP_RETURN rc = check_idle(vi);

	describe_self(&own, vi);
	if (rc == VIP_SUCCESS)
		rc = connection_check(&own, peer);
	return rc == VIP_SUCCESS ? begin_attempt(vi, &target) : rc;
}

VIP_RETURN attempt_accept(struct vi *vi, struct request *request)
{
	connection_accept(vi->connection, request);
	return await_result(vi, NULL); /* the connection knows how long a requester may take */
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
	struct attempt *attempt = &vi->attempt;
	int order = target->own.peer_to_peer ? compare_ends(target) : -1; /* a client asks */
	VIP_RETURN rc = check_idle(vi);
	bool asks_soon = false;

	if (rc == VIP_SUCCESS)
		rc = order ? begin_attempt(vi, target) : VIP_INVALID_PARAMETER;
	if (rc != VIP_SUCCESS)
		return rc;
	if (order < 0)
		asks_soon = connection_ask(vi->connection);
	else if (!connection_await(vi->connection))
		return VIP_ERROR_RESOURCE;
	/* To look at the connection's deadline. It sees a later one by itself, and the caller sees its own. */
	if (asks_soon || target->own.peer_to_peer)
		agent_wake(vi->nic);
	if (!target->own.peer_to_peer)
		return await_result(vi, leave_result);
	atomic_store(&attempt->is_peer_to_peer, true);
	return VIP_SUCCESS;
}

VIP_RETURN attempt_peer_result(struct vi *vi, bool waits)
{
	if (!atomic_load(&vi->attempt.is_peer_to_peer))
		return VIP_INVALID_STATE;
	return waits ? await_result(vi, leave_result) : atomic_load(&vi->attempt.result);
}

/* ---- the program ends it ---- */

void connection_end(struct vi *vi)
{
	switch (atomic_load(&vi->state)) {
	case VIP_STATE_IDLE:
		break;
	case VIP_STATE_CONNECT_PENDING: /* another thread or the agent waits for the result */
		connection_cancel(vi->connection, VIP_INVALID_STATE);
		vi->ending.flushes = true;
		if (vi->ending.stage == ENDING_NOT)
			workqueue_flush(&vi->receive);
		break;
	case VIP_STATE_CONNECTED:
	case VIP_STATE_ERROR:
		vi_disconnect(vi);
		break;
	}
	atomic_store(&vi->attempt.is_peer_to_peer, false); /* VipConnectPeerDone has no result any more */
	vi_await_end(vi);
}

/* ---- what is reported from below ---- */

void endpoint_establishing(struct vi *vi)
{
	if (is_attempting(vi))
		workqueue_set_mode(&vi->send, QUEUE_HOLDS);
}

void endpoint_connected(struct vi *vi, const struct connect_info *peer)
{
	if (!is_attempting(vi))
		return;
	vi->peer = *peer;
	workqueue_set_mode(&vi->send, QUEUE_OPEN);
	atomic_store(&vi->state, VIP_STATE_CONNECTED);
	vi_decide(vi, VIP_SUCCESS);
	/* A first message may have come, and failed, before the connection was known here. */
	if (atomic_load(&vi->broken))
		vi_break(vi);
	else if (atomic_load(&vi->stalled))
		vi_revive(vi);
	else if (vi->attempt.changes != vi->nic->changes) /* the path may be that from before */
		vi_follow(vi);
}

enum refused endpoint_refused(struct vi *vi, VIP_RETURN reason, bool goes_on)
{
	return atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING ? vi_withdraw(vi, reason, goes_on) : REFUSED_OVER;
}

void device_routed(struct nic *nic, const struct in6_addr *host)
{
	struct vi *vi;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		if (!host || host_equal(&vi->attempt.target.host, host))
			connection_routed(vi->connection);
}
