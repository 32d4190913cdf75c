/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attempts to connect, from VIP_STATE_CONNECT_PENDING to their result: of a client, of a VI that accepts,
 * and of a peer-to-peer connection.
 *
 * A client asks for a listener again and again, with a pause after each time, until the grace time is
 * over. The thread in VipConnectRequest does that.
 *
 * In a peer-to-peer connection both ends ask for each other, and their addresses decide which part each end has: the
 * end with the lesser address asks as a client does; the other end listens, and takes the request that
 * comes from the end that it asks for. So requests never cross. The agent does all of it.
 */
#include "connecting.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/deadline.h"
#include "connect/connector.h"
#include "nic.h"

#define FIRST_PAUSE   (1 * NSEC_PER_MSEC)
#define LONGEST_PAUSE (16 * NSEC_PER_MSEC)
#define RARE_PAUSE    (256 * NSEC_PER_MSEC) /* the longest one after the grace time */

static bool is_pending(const struct vi *vi)
{
	return atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING;
}

/* ---- what both ends say of themselves ---- */

static void describe_self(struct connect_info *own, const struct vi *vi)
{
	own->reliability = vi->attributes.ReliabilityLevel;
	own->max_transfer = (uint32_t)vi->attributes.MaxTransferSize;
	own->rights = vi_rights(&vi->attributes);
}

VIP_RETURN attempt_check_peer(const struct vi *vi, const struct connect_info *peer)
{
	if (peer->reliability != vi->attributes.ReliabilityLevel)
		return VIP_INVALID_RELIABILITY_LEVEL;
	if (peer->max_transfer != vi->attributes.MaxTransferSize)
		return VIP_INVALID_MTU;
	return VIP_SUCCESS;
}

/* ---- the beginning and the end of an attempt ---- */

/* The VI is prepared. */
static void begin(struct vi *vi, const struct vi_target *target, int64_t deadline)
{
	struct attempt *attempt = &vi->attempt;

	attempt->target = *target;
	describe_self(&attempt->target.own, vi);
	attempt->deadline = deadline;
	attempt->acceptor = NULL;
	attempt->accepts = false;
	connection_begin(vi->connection);
}

static VIP_RETURN check_idle(const struct vi *vi)
{
	if (object_retired(&vi->object)) /* VipDestroyVi waits for the caller */
		return VIP_INVALID_PARAMETER;
	return atomic_load(&vi->state) == VIP_STATE_IDLE ? VIP_SUCCESS : VIP_INVALID_STATE;
}

static void enlist(struct vi *vi)
{
	TAILQ_INSERT_TAIL(&vi->nic->attempts, vi, attempt.in_nic);
	vi->attempt.is_listed = true;
}

void attempt_end(struct vi *vi)
{
	struct nic *nic = vi->nic;

	if (!vi->attempt.is_listed)
		return;
	vi->attempt.is_listed = false;
	TAILQ_REMOVE(&nic->attempts, vi, attempt.in_nic);
	if (vi->attempt.acceptor)
		acceptor_close(vi->attempt.acceptor);
	vi->attempt.acceptor = NULL;
}

VIP_RETURN attempt_give_up(struct vi *vi)
{
	VIP_RETURN result = vi->attempt.result_if_expired;

	if (vi->attempt.next_at == DEADLINE_NEVER)
		result = connection_cancel(vi->connection);
	vi_withdraw(vi);
	connection_close(vi->connection);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	return result;
}

/* ---- probes ---- */

static void begin_grace(struct vi *vi)
{
	vi->attempt.retry_until = clock_nsec() + config()->grace_msec * NSEC_PER_MSEC;
}

/* The first probe is due at once. */
static void begin_probes(struct vi *vi)
{
	vi->attempt.next_at = clock_nsec();
	vi->attempt.backoff = FIRST_PAUSE;
	begin_grace(vi);
}

static void probe(struct vi *vi)
{
	const struct vi_target *target = &vi->attempt.target;

	vi->attempt.next_at = DEADLINE_NEVER; /* first: it may be over before this returns */
	connection_ask(vi->connection, vi->endpoint, &target->own, &target->host, &target->wanted);
}

static VIP_RETURN await_result(struct vi *vi)
{
	struct attempt *attempt = &vi->attempt;
	unsigned number = attempt->number;

	while (attempt->result == VIP_NOT_DONE) {
		int64_t until = attempt->next_at < attempt->deadline ? attempt->next_at
								      : attempt->deadline;
		int timed_out = condition_wait(&vi->changed, &vi->nic->lock, until);

		if (attempt->number != number) /* disconnected, and used anew by another thread */
			return VIP_INVALID_STATE;
		if (!timed_out || attempt->result != VIP_NOT_DONE)
			continue;
		if (!deadline_left(attempt->deadline))
			atomic_store(&attempt->result, attempt_give_up(vi));
		else if (!deadline_left(attempt->next_at))
			probe(vi);
	}
	return attempt->result;
}

VIP_RETURN attempt_request(struct vi *vi, const struct vi_target *target, int64_t deadline)
{
	VIP_RETURN rc = check_idle(vi);

	if (rc == VIP_SUCCESS)
		rc = vi_prepare(vi);
	if (rc != VIP_SUCCESS)
		return rc;
	begin(vi, target, deadline);
	begin_probes(vi);
	probe(vi);
	return await_result(vi);
}

/* ---- accepting ---- */

VIP_RETURN attempt_accept(struct vi *vi, struct client *client, const struct connect_info *peer,
			  const struct discriminator *wanted)
{
	const struct vi_target target = {
		.own = {.discriminator = *wanted}, .host = peer->host, .wanted = peer->discriminator};

	begin(vi, &target, DEADLINE_NEVER); /* the connection knows how long a requester may take */
	vi->attempt.accepts = true;
	connection_accept(vi->connection, vi->endpoint, client, &vi->attempt.target.own);
	return await_result(vi);
}

/* ---- peer-to-peer ---- */

/* Both ends get the same answer, except for the sign. */
static int compare_ends(const struct vi_target *target)
{
	int order = discriminator_compare(&target->own.discriminator, &target->wanted);

	return order ? order : memcmp(&target->own.host, &target->host, sizeof(target->host));
}

VIP_RETURN attempt_request_peer(struct vi *vi, const struct vi_target *target, int64_t deadline)
{
	const struct discriminator *own = &target->own.discriminator;
	bool listens = compare_ends(target) > 0;
	struct acceptor *acceptor = NULL;
	VIP_RETURN rc = check_idle(vi);

	if (rc != VIP_SUCCESS)
		return rc;
	if (!compare_ends(target))
		return VIP_INVALID_PARAMETER;
	if (listens)
		acceptor = acceptor_open(vi->nic->connector, own);
	if (listens && !acceptor)
		return VIP_ERROR_RESOURCE;
	rc = vi_prepare(vi);
	if (rc != VIP_SUCCESS) {
		if (acceptor)
			acceptor_close(acceptor);
		return rc;
	}
	begin(vi, target, deadline);
	vi->attempt.target.own.peer_to_peer = true;
	vi->attempt.acceptor = acceptor;
	if (!listens)
		begin_probes(vi);
	enlist(vi);
	atomic_store(&vi->attempt.is_peer_to_peer, true);
	agent_wake(vi->nic);
	return VIP_SUCCESS;
}

VIP_RETURN attempt_peer_result(const struct vi *vi)
{
	const struct attempt *attempt = &vi->attempt;

	return atomic_load(&attempt->is_peer_to_peer) ? atomic_load(&attempt->result)
						      : VIP_INVALID_STATE;
}

VIP_RETURN attempt_await_peer(struct vi *vi)
{
	struct attempt *attempt = &vi->attempt;
	unsigned number = attempt->number;

	if (!atomic_load(&attempt->is_peer_to_peer))
		return VIP_INVALID_STATE;
	/* There is no deadline here: the agent knows when the time is over. */
	while (atomic_load(&attempt->result) == VIP_NOT_DONE && attempt->number == number)
		pthread_cond_wait(&vi->changed, &vi->nic->lock);
	/* The VI may have been disconnected, and used anew by another thread. */
	return attempt->number == number ? atomic_load(&attempt->result) : VIP_INVALID_STATE;
}

/* Takes the step that is due. Returns false if the attempt has its result. */
static bool serve(struct vi *vi)
{
	if (atomic_load(&vi->attempt.result) != VIP_NOT_DONE)
		return false;
	if (!deadline_left(vi->attempt.deadline)) {
		/* The other end gets VIP_TIMEOUT, and both ends get the same result, even if the host has no listener. */
		attempt_give_up(vi);
		vi_decide(vi, VIP_TIMEOUT);
	} else if (!deadline_left(vi->attempt.next_at)) {
		probe(vi);
	}
	return atomic_load(&vi->attempt.result) == VIP_NOT_DONE;
}

int64_t attempts_serve(struct nic *nic)
{
	struct vi *vi = TAILQ_FIRST(&nic->attempts), *following;
	int64_t next = DEADLINE_NEVER;

	for (; vi; vi = following) {
		following = TAILQ_NEXT(vi, attempt.in_nic);
		if (!serve(vi)) {
			attempt_end(vi);
			continue;
		}
		if (vi->attempt.deadline < next)
			next = vi->attempt.deadline;
		if (vi->attempt.next_at < next)
			next = vi->attempt.next_at;
	}
	return next;
}

static bool is_asked_for(const struct vi *vi, const struct connect_info *peer,
			 const struct discriminator *wanted)
{
	const struct attempt *attempt = &vi->attempt;
	const struct vi_target *target = &attempt->target;

	return attempt->acceptor && !attempt->accepts && peer->peer_to_peer &&
	       atomic_load(&attempt->result) == VIP_NOT_DONE &&
	       discriminator_equal(&target->own.discriminator, wanted) &&
	       discriminator_equal(&target->wanted, &peer->discriminator) &&
	       host_equal(&target->host, &peer->host);
}

bool attempts_take(struct nic *nic, struct client *client, const struct connect_info *peer,
		   const struct discriminator *wanted)
{
	struct vi *vi;

	TAILQ_FOREACH(vi, &nic->attempts, attempt.in_nic)
		if (is_asked_for(vi, peer, wanted))
			break;
	if (!vi)
		return false;
	if (attempt_check_peer(vi, peer) == VIP_SUCCESS) {
		vi->attempt.accepts = true;
		connection_accept(vi->connection, vi->endpoint, client, &vi->attempt.target.own);
	} else {
		client_reject(client, VIP_REJECT);
		endpoint_refused(vi, VIP_REJECT); /* neither can ever get what it asks for */
	}
	return true;
}

/* ---- the program ends it ---- */

void connection_end(struct vi *vi)
{
	switch (atomic_load(&vi->state)) {
	case VIP_STATE_IDLE:
		break;
	case VIP_STATE_CONNECT_PENDING: /* another thread or the agent waits for the result */
		attempt_give_up(vi);
		attempt_end(vi);
		workqueue_flush(&vi->receive);
		vi_decide(vi, VIP_INVALID_STATE);
		break;
	case VIP_STATE_CONNECTED:
	case VIP_STATE_ERROR:
		vi_disconnect(vi);
		break;
	}
	atomic_store(&vi->attempt.is_peer_to_peer, false); /* VipConnectPeerDone has no result any more */
}

/* ---- what is reported from below ---- */

void endpoint_establishing(struct vi *vi)
{
	if (is_pending(vi))
		workqueue_set_mode(&vi->send, QUEUE_HOLDS);
}

void endpoint_connected(struct vi *vi, const struct connect_info *peer)
{
	if (!is_pending(vi))
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
}

/* Of a peer. */
static void begin_anew(struct vi *vi)
{
	vi_withdraw(vi);
	if (!vi_offer(vi)) {
		atomic_store(&vi->state, VIP_STATE_IDLE);
		vi_decide(vi, VIP_ERROR_RESOURCE);
		return;
	}
	vi->attempt.accepts = false;
	vi->attempt.next_at = DEADLINE_NEVER;
	if (!vi->attempt.acceptor)
		endpoint_no_answer(vi, VIP_TIMEOUT); /* after a pause */
}

void endpoint_refused(struct vi *vi, VIP_RETURN reason)
{
	if (!is_pending(vi))
		return;
	/* A peer that vanished amid connecting may come back as long as there is time. */
	if (reason == VIP_TIMEOUT && atomic_load(&vi->attempt.is_peer_to_peer)) {
		begin_anew(vi);
		return;
	}
	vi_withdraw(vi);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	vi_decide(vi, reason);
}

void endpoint_busy(struct vi *vi)
{
	begin_grace(vi);
}

void endpoint_no_answer(struct vi *vi, VIP_RETURN reason)
{
	/* A dead host may come to life, and a peer may ask, as long as the caller has time. */
	bool goes_on = reason == VIP_TIMEOUT || atomic_load(&vi->attempt.is_peer_to_peer);
	int64_t now = clock_nsec(), longest = LONGEST_PAUSE;
	struct attempt *attempt = &vi->attempt;

	if (!is_pending(vi))
		return;
	if (now >= attempt->retry_until) {
		if (!goes_on) {
			endpoint_refused(vi, reason);
			return;
		}
		longest = RARE_PAUSE;
	}
	attempt->result_if_expired = reason == VIP_NO_MATCH ? VIP_NO_MATCH : VIP_TIMEOUT;
	attempt->next_at = now + attempt->backoff;
	attempt->backoff = attempt->backoff * 2 < longest ? attempt->backoff * 2 : longest;
	pthread_cond_broadcast(&vi->changed);
}

void endpoint_routed(struct vi *vi, int error)
{
	connection_routed(vi->connection, error);
}
