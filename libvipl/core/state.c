/* The states of a VI and the ways between them; what devices report about connections. */
#include "vi.h"

#include <sched.h>

#include "base/config.h"
#include "base/deadline.h"
#include "nic.h"
#include "peer.h"

#define MSEC	      INT64_C(1000000)
#define SETTLE_NSEC   (20 * MSEC)
#define FIRST_PAUSE   (1 * MSEC)
#define LONGEST_PAUSE (16 * MSEC)
#define RARE_PAUSE    (256 * MSEC) /* at most, after the grace time */

static const struct device_ops *ops_of(const struct vi *vi)
{
	return vi->nic->device->ops;
}

/* Takes what the device has completed; other queues of a shared CQ may never let it run dry. */
static void drain(struct cq *cq)
{
	unsigned most = cq->is_public ? cq_outstanding(cq) : atomic_load(&cq->capacity);

	while (cq_poll_for_device(cq) && most--)
		;
}

static void drain_both(struct vi *vi)
{
	drain(vi->send.cq);
	if (vi->receive.cq != vi->send.cq)
		drain(vi->receive.cq);
}

/* The device takes the endpoint, and receives. False when it cannot. */
static bool offer(struct vi *vi)
{
	if (ops_of(vi)->endpoint_prepare(vi->endpoint)) {
		ops_of(vi)->endpoint_reset(vi->endpoint);
		return false;
	}
	vi->resume_at = DEADLINE_NEVER;
	atomic_store(&vi->broken, false);
	atomic_store(&vi->stalled, false);
	vi->closed_by_peer = false;
	atomic_store(&vi->failure, 0);
	atomic_store(&vi->state, VIP_STATE_CONNECT_PENDING);
	workqueue_set_mode(&vi->receive, QUEUE_OPEN);
	return true;
}

VIP_RETURN vi_prepare(struct vi *vi)
{
	atomic_store(&vi->is_pairing, false);
	if (!offer(vi))
		return VIP_ERROR_RESOURCE;
	vi->attempt++;
	atomic_store(&vi->outcome, VIP_NOT_DONE);
	return VIP_SUCCESS;
}

/* The device gives back endpoint and receives, which stay posted. Sends that were kept do not. */
static void withdraw(struct vi *vi)
{
	workqueue_set_mode(&vi->send, QUEUE_FLUSHES);
	workqueue_flush(&vi->send);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	drain_both(vi);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	drain_both(vi);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
}

void vi_decide(struct vi *vi, VIP_RETURN outcome)
{
	atomic_store(&vi->outcome, outcome);
	pthread_cond_broadcast(&vi->changed);
}

/*
 * Lets a stopped endpoint complete what it had, as flushed at the latest. It need not: what is left
 * is flushed here. But kernels have been seen to stumble over queue pairs reset in mid-flight.
 */
static void settle(struct vi *vi, bool receives_too)
{
	int64_t deadline = clock_nsec() + SETTLE_NSEC;

	drain_both(vi);
	while ((workqueue_with_device(&vi->send) ||
		(receives_too && workqueue_with_device(&vi->receive))) &&
	       !vi->nic->failed && clock_nsec() < deadline) {
		sched_yield();
		drain_both(vi);
	}
}

/* Connected, or in ERROR and not yet torn down. */
static bool is_live(const struct vi *vi)
{
	return vi->send.mode == QUEUE_OPEN;
}

/* Ends the connection; what completed before stays completed, all else is flushed. */
static void tear_down(struct vi *vi, enum queue_mode receive_mode)
{
	/* Nothing may be posted from here on, least of all to an endpoint that was reset. */
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	drain_both(vi); /* what has come before the end shall arrive */
	ops_of(vi)->endpoint_stop(vi->endpoint);
	settle(vi, true);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	drain_both(vi);
	ops_of(vi)->disconnect(vi->endpoint);
	workqueue_recall(&vi->send, QUEUE_FLUSHES);
	workqueue_recall(&vi->receive, receive_mode);
	workqueue_flush(&vi->send);
	workqueue_flush(&vi->receive);
}

void vi_disconnect(struct vi *vi)
{
	if (is_live(vi))
		tear_down(vi, QUEUE_HOLDS);
	else
		workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	atomic_store(&vi->broken, false);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	error_forget(vi->nic, object_handle(&vi->object));
}

void vi_abandon(struct vi *vi)
{
	bool at_work = is_live(vi) || atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING;

	workqueue_drop(&vi->send);
	workqueue_drop(&vi->receive);
	if (at_work) {
		ops_of(vi)->endpoint_stop(vi->endpoint);
		settle(vi, true);
		ops_of(vi)->endpoint_reset(vi->endpoint);
		drain_both(vi); /* no completion shall name it when it is gone */
	}
	ops_of(vi)->disconnect(vi->endpoint);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	vi_decide(vi, VIP_INVALID_PARAMETER);
}

/* The operation, as in a descriptor's Status, that an error of a connection is about. */
static uint32_t operation_of(const struct vi *vi, VIP_ERROR_CODE error)
{
	switch (error) {
	case VIP_ERROR_RECVQ_EMPTY:
		return VIP_STATUS_OP_RECEIVE;
	case VIP_ERROR_RDMAW_PROT:
		return VIP_STATUS_OP_REMOTE_RDMA_WRITE;
	case VIP_ERROR_RDMAR_PROT:
		return VIP_STATUS_OP_RDMA_READ;
	case VIP_ERROR_RDMA_TRANSPORT:
		return atomic_load(&vi->failure) & VIP_STATUS_OP_MASK;
	default:
		return 0;
	}
}

static void break_live(struct vi *vi, VIP_ERROR_CODE error)
{
	vi->cause = error;
	tear_down(vi, QUEUE_FLUSHES); /* the device may know a better cause */
	/* Only now: who sees ERROR may rely on the queues being flushed. */
	atomic_store(&vi->state, VIP_STATE_ERROR);
	error_of_vi(vi, vi->cause, operation_of(vi, vi->cause));
}

static void break_for(struct vi *vi, VIP_ERROR_CODE error)
{
	if (is_live(vi)) /* while connecting the outcome decides */
		break_live(vi, error);
}

void vi_break(struct vi *vi)
{
	uint32_t failure = atomic_load(&vi->failure), operation = failure & VIP_STATUS_OP_MASK;
	bool is_rdma = operation == VIP_STATUS_OP_RDMA_WRITE || operation == VIP_STATUS_OP_RDMA_READ;

	break_for(vi, is_rdma && failure & VIP_STATUS_TRANSPORT_ERROR ? VIP_ERROR_RDMA_TRANSPORT
								      : VIP_ERROR_CONN_LOST);
}

/*
 * Receives come back and are handed over again in their order. Sends do not: they may have gone
 * out, and even an unreliable message does not arrive twice.
 */
void vi_revive(struct vi *vi)
{
	int error;

	if (!is_live(vi)) /* not yet, or not any more: see endpoint_connected() */
		return;
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	settle(vi, false);
	error = ops_of(vi)->endpoint_rewind(vi->endpoint);
	drain_both(vi);
	/* Whoever polled before has told of it by now, and nobody will again. */
	atomic_store(&vi->stalled, false);
	workqueue_assume_done(&vi->send);
	workqueue_recall(&vi->send, QUEUE_HOLDS);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
	if (!error) {
		workqueue_set_mode(&vi->receive, QUEUE_OPEN);
		error = ops_of(vi)->endpoint_resume(vi->endpoint);
	}
	if (error) {
		break_live(vi, VIP_ERROR_CONN_LOST);
		return;
	}
	workqueue_set_mode(&vi->send, QUEUE_OPEN);
}

void endpoint_establishing(struct vi *vi)
{
	if (atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING)
		workqueue_set_mode(&vi->send, QUEUE_HOLDS);
}

void endpoint_connected(struct vi *vi, const struct connect_info *peer)
{
	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
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

void endpoint_refused(struct vi *vi, VIP_RETURN reason)
{
	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
		return;
	/* Of equals, one that vanished amid connecting may come back as long as there is time. */
	if (reason == VIP_TIMEOUT && atomic_load(&vi->is_pairing)) {
		endpoint_unheard(vi);
		return;
	}
	withdraw(vi);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	vi_decide(vi, reason);
}

void endpoint_unheard(struct vi *vi)
{
	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
		return;
	withdraw(vi);
	if (offer(vi)) {
		pairing_goes_on(vi);
		return;
	}
	atomic_store(&vi->state, VIP_STATE_IDLE);
	vi_decide(vi, VIP_ERROR_RESOURCE);
}

static void begin_grace(struct vi *vi)
{
	vi->grace_ends = clock_nsec() + config()->grace_msec * MSEC;
}

void endpoint_busy(struct vi *vi)
{
	begin_grace(vi);
}

/* A look has decided nothing: who connects, or the agent, looks again after a pause. */
void endpoint_undecided(struct vi *vi, VIP_RETURN reason)
{
	/* A dead host may come to life, and an equal ask, as long as the caller has time. */
	bool goes_on = reason == VIP_TIMEOUT || atomic_load(&vi->is_pairing);
	int64_t now = clock_nsec(), longest = LONGEST_PAUSE;

	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
		return;
	if (now >= vi->grace_ends) {
		if (!goes_on) {
			endpoint_refused(vi, reason);
			return;
		}
		longest = RARE_PAUSE;
	}
	vi->in_pause = reason == VIP_NO_MATCH ? VIP_NO_MATCH : VIP_TIMEOUT;
	vi->resume_at = now + vi->pause;
	vi->pause = vi->pause * 2 < longest ? vi->pause * 2 : longest;
	pthread_cond_broadcast(&vi->changed);
}

void endpoint_nobody(struct vi *vi)
{
	endpoint_undecided(vi, VIP_NO_MATCH);
}

void endpoint_lost(struct vi *vi)
{
	break_for(vi, VIP_ERROR_CONN_LOST);
}

void endpoint_closed(struct vi *vi)
{
	vi->closed_by_peer = true;
	vi->cause = VIP_ERROR_CONN_LOST;
	endpoint_lost(vi);
}

void endpoint_ends_for(struct vi *vi, VIP_ERROR_CODE error)
{
	vi->cause = error;
}

void endpoint_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	atomic_store(&vi->broken, true);
	break_for(vi, error);
}

void endpoint_stalled(struct vi *vi)
{
	atomic_store(&vi->stalled, true);
	vi_revive(vi);
}

void cq_failed(struct cq *cq)
{
	struct vi *vi;

	LIST_FOREACH(vi, &cq->nic->vis, in_nic)
		if (vi->send.cq == cq || vi->receive.cq == cq)
			endpoint_failed(vi, VIP_ERROR_CONN_LOST);
}

VIP_RETURN vi_give_up(struct vi *vi)
{
	VIP_RETURN outcome = vi->in_pause;

	if (vi->resume_at == DEADLINE_NEVER)
		outcome = ops_of(vi)->cancel(vi->endpoint);
	withdraw(vi);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	return outcome;
}

void vi_begin_looking(struct vi *vi)
{
	vi->resume_at = clock_nsec();
	begin_grace(vi);
	vi->pause = FIRST_PAUSE;
}

void vi_look(struct vi *vi, const struct vi_target *target)
{
	vi->resume_at = DEADLINE_NEVER; /* first: the look may be over before connect() returns */
	ops_of(vi)->connect(vi->endpoint, &target->own, &target->host, &target->wanted);
}

/* `target`: whom to look for again after each pause. Who accepts has no pauses, and none. */
static VIP_RETURN await_outcome(struct vi *vi, const struct vi_target *target, int64_t deadline)
{
	unsigned attempt = vi->attempt;

	while (vi->outcome == VIP_NOT_DONE) {
		int64_t until = vi->resume_at < deadline ? vi->resume_at : deadline;
		int timed_out = condition_wait(&vi->changed, &vi->nic->lock, until);

		if (vi->attempt != attempt) /* disconnected, and used anew by another thread */
			return VIP_INVALID_STATE;
		if (!timed_out || vi->outcome != VIP_NOT_DONE)
			continue;
		if (!deadline_left(deadline))
			atomic_store(&vi->outcome, vi_give_up(vi));
		else if (!deadline_left(vi->resume_at))
			vi_look(vi, target);
	}
	return vi->outcome;
}

VIP_RETURN vi_connect(struct vi *vi, const struct vi_target *target, int64_t deadline)
{
	vi_begin_looking(vi);
	vi_look(vi, target);
	return await_outcome(vi, target, deadline);
}

VIP_RETURN vi_await_outcome(struct vi *vi, int64_t deadline)
{
	return await_outcome(vi, NULL, deadline);
}
