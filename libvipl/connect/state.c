/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a VI and the ways between them. Connecting it is connecting.c's. */
#include <errno.h>
#include <sched.h>

#include "base/deadline.h"
#include "base/futex.h"
#include "connect.h"
#include "core/nic.h"
#include "vis.h"

#define FLUSH_NSEC (20 * NSEC_PER_MSEC) /* a device may take to flush */

/* Between two looks at an end that goes on. Threads that wait for it look more often in the first such time. */
#define END_REST_NSEC NSEC_PER_MSEC

/* Takes what the device has completed. It is bounded, because a shared CQ may never be empty. */
static void take_completions(struct cq *cq)
{
	unsigned most = cq_most(cq);

	while (cq_poll_for_device(cq) && most--)
		;
}

static void take_all_completions(struct vi *vi)
{
	take_completions(vi->send.cq);
	if (vi->receive.cq != vi->send.cq)
		take_completions(vi->receive.cq);
}

VIP_RETURN vi_check_idle(const struct vi *vi)
{
	if (object_retired(&vi->object)) /* VipDestroyVi waits for the caller */
		return VIP_INVALID_PARAMETER;
	return atomic_load(&vi->state) == VIP_STATE_IDLE ? VIP_SUCCESS : VIP_INVALID_STATE;
}

bool vi_offer(struct vi *vi)
{
	if (ops_of(vi)->endpoint_prepare && ops_of(vi)->endpoint_prepare(vi->endpoint)) {
		ops_of(vi)->endpoint_reset(vi->endpoint);
		return false;
	}
	atomic_store(&vi->broken, false);
	atomic_store(&vi->stalled, false);
	vi->closed_by_peer = false;
	atomic_store(&vi->failure, 0);
	atomic_store(&vi->state, VIP_STATE_CONNECT_PENDING);
	workqueue_set_mode(&vi->receive, QUEUE_OPEN);
	return true;
}

static bool is_still(struct vi *vi, bool stops)
{
	return !ops_of(vi)->endpoint_is_still || ops_of(vi)->endpoint_is_still(vi->endpoint, stops);
}

static void begin_ending(struct vi *vi, int stage)
{
	vi->ending.stage = stage;
	vi->ending.number++;
	LIST_INSERT_HEAD(&vi->nic->ending, vi, ending.in_nic);
}

static void end_ending(struct vi *vi)
{
	vi->ending.stage = ENDING_NOT;
	LIST_REMOVE(vi, ending.in_nic);
}

void vi_decide(struct vi *vi, VIP_RETURN result)
{
	atomic_store(&vi->connection->result, result);
	pthread_cond_broadcast(&vi->changed);
}

/* The device has done what it had to do. */
static void finish_withdrawal(struct vi *vi)
{
	bool goes_on = vi->ending.goes_on;

	take_all_completions(vi);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	take_all_completions(vi);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
	if (!goes_on || !vi_offer(vi)) {
		if (vi->ending.result == VIP_INVALID_STATE) /* VipDisconnect has ended it; else they stay posted */
			workqueue_flush(&vi->receive);
		atomic_store(&vi->state, VIP_STATE_IDLE);
		vi_decide(vi, goes_on ? VIP_ERROR_RESOURCE : vi->ending.result);
		goes_on = false;
	}
	connection_withdrawn(vi->connection, vi->ending.result, goes_on);
}

void vi_hold_sends(struct vi *vi)
{
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
}

/*
 * Whether an endpoint that has stopped has flushed, or has had its time for it. The rest is flushed above the device. Kernels have
 * failed when a queue pair was reset with requests under way.
 */
static bool has_flushed(struct vi *vi, bool receives_too, int64_t deadline)
{
	take_all_completions(vi);
	return !(workqueue_with_device(&vi->send) || (receives_too && workqueue_with_device(&vi->receive))) ||
	       atomic_load(&vi->nic->failed) || !deadline_left(deadline);
}

/* Connected, and it stays so, as far as is known. */
static bool has_connection(const struct vi *vi)
{
	return vi->send.mode == QUEUE_OPEN && vi->ending.stage == ENDING_NOT;
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

/* ---- the end of a connection: what completed before stays completed, all else is flushed ---- */

static void stop_endpoint(struct vi *vi)
{
	/* From here on nothing may be posted to the endpoint, which is going to be reset. */
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	take_all_completions(vi); /* what came before the end still arrives */
	ops_of(vi)->endpoint_stop(vi->endpoint); /* it may know a better cause */
	vi->ending.stage = ENDING_FLUSHES;
	vi->ending.flushed_by = clock_nsec() + FLUSH_NSEC;
}

static void flush(struct vi *vi)
{
	workqueue_recall(&vi->send, QUEUE_FLUSHES);
	workqueue_recall(&vi->receive, vi->ending.state == VIP_STATE_ERROR ? QUEUE_FLUSHES : QUEUE_HOLDS);
	workqueue_flush(&vi->send);
	workqueue_flush(&vi->receive);
}

static void become_idle(struct vi *vi)
{
	atomic_store(&vi->broken, false);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	error_forget(vi->nic, object_handle(&vi->object));
}

static void finish(struct vi *vi)
{
	/* Afterwards the endpoint has no work, and no completion names it. */
	ops_of(vi)->endpoint_reset(vi->endpoint);
	take_all_completions(vi);
	connection_close(vi->connection, vi->is_answered && !vi->closed_by_peer && !atomic_load(&vi->nic->failed));
	if (!object_retired(&vi->object)) /* else vi_abandon() has dropped all */
		flush(vi);
	atomic_store(&vi->stalled, false);
	end_ending(vi);
	if (vi->ending.state == VIP_STATE_IDLE) {
		become_idle(vi);
		return;
	}
	/* Only now: a thread that sees ERROR may rely on the queues being flushed. */
	atomic_store(&vi->state, VIP_STATE_ERROR);
	error_of_vi(vi, vi->cause, operation_of(vi, vi->cause));
}

/* Does what can be done now. False: the end goes on. */
static bool go_on(struct vi *vi)
{
	if (vi->ending.stage == ENDING_WITHDRAWS) {
		if (!is_still(vi, false))
			return false;
		end_ending(vi);
		finish_withdrawal(vi);
		return true;
	}
	if (vi->ending.stage == ENDING_STOPS) {
		if (!is_still(vi, true))
			return false;
		stop_endpoint(vi);
	}
	if (!has_flushed(vi, true, vi->ending.flushed_by) || !is_still(vi, true))
		return false;
	finish(vi);
	return true;
}

static void end(struct vi *vi, VIP_VI_STATE state)
{
	vi->ending.state = state;
	if (vi->ending.stage == ENDING_NOT) {
		begin_ending(vi, ENDING_STOPS);
		vi->is_answered = false;
		socket_unwatch(&vi->connection->conversation.watched);
	}
	if (!go_on(vi))
		agent_wake(vi->nic);
}

void vi_await_end(struct vi *vi)
{
	const unsigned number = vi->ending.number;
	const int64_t began = clock_nsec();
	int64_t now = began;

	while (vi->ending.stage != ENDING_NOT && vi->ending.number == number && !go_on(vi)) {
		pthread_mutex_unlock(&vi->nic->lock);
		if (now - began < END_REST_NSEC)
			sched_yield();
		else
			futex_rest(END_REST_NSEC);
		pthread_mutex_lock(&vi->nic->lock);
		now = clock_nsec();
	}
}

int ends_serve(struct nic *nic)
{
	struct vi *vi, *next;

	for (vi = LIST_FIRST(&nic->ending); vi; vi = next) {
		next = LIST_NEXT(vi, ending.in_nic);
		go_on(vi);
	}
	return LIST_EMPTY(&nic->ending) ? -1 : (int)(END_REST_NSEC / NSEC_PER_MSEC);
}

void ends_await(struct nic *nic)
{
	while (ends_serve(nic) >= 0) {
		pthread_mutex_unlock(&nic->lock);
		futex_rest(END_REST_NSEC);
		pthread_mutex_lock(&nic->lock);
	}
}

/* ---- what begins it ---- */

/* The socket stays until the device is done with the peer, unless that takes long. */
void vi_withdraw(struct vi *vi, VIP_RETURN result, bool goes_on)
{
	vi->ending.result = result;
	vi->ending.goes_on = goes_on;
	if (vi->ending.stage == ENDING_NOT) {
		workqueue_set_mode(&vi->send, QUEUE_FLUSHES);
		workqueue_flush(&vi->send);
		workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
		begin_ending(vi, ENDING_WITHDRAWS);
		if (go_on(vi))
			return;
		agent_wake(vi->nic);
	}
	connection_leave(vi->connection, vi->connection->last_word);
}

void vi_disconnect(struct vi *vi)
{
	if (has_connection(vi) || vi->ending.stage != ENDING_NOT) {
		end(vi, VIP_STATE_IDLE);
		return;
	}
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	become_idle(vi);
}

void vi_abandon(struct vi *vi)
{
	bool has = has_connection(vi) || vi->ending.stage >= ENDING_STOPS;

	workqueue_drop(&vi->send);
	workqueue_drop(&vi->receive);
	if (has) {
		end(vi, VIP_STATE_IDLE);
	} else if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING) {
		connection_close(vi->connection, false);
		atomic_store(&vi->state, VIP_STATE_IDLE);
	}
}

static void break_live(struct vi *vi, VIP_ERROR_CODE error)
{
	vi->cause = error;
	end(vi, VIP_STATE_ERROR);
}

void vi_lose(struct vi *vi, VIP_ERROR_CODE error)
{
	if (has_connection(vi)) /* while connecting the result decides */
		break_live(vi, error);
}

/* A descriptor has failed, or the device. */
static void vi_break(struct vi *vi)
{
	uint32_t failure = atomic_load(&vi->failure), operation = failure & VIP_STATUS_OP_MASK;
	bool is_rdma = operation == VIP_STATUS_OP_RDMA_WRITE || operation == VIP_STATUS_OP_RDMA_READ;

	vi_lose(vi, is_rdma && failure & VIP_STATUS_TRANSPORT_ERROR ? VIP_ERROR_RDMA_TRANSPORT
								      : VIP_ERROR_CONN_LOST);
}

/*
 * Receives come back and are posted again in their order. Sends are not: they may have gone out, and even an unreliable
 * message does not arrive twice. If the endpoint has no way out (EAGAIN) receives stay here, and sends are lost.
 */
void vi_revive(struct vi *vi)
{
	const int64_t flushed_by = clock_nsec() + FLUSH_NSEC;
	int error;

	if (!has_connection(vi)) /* not yet, or not any more: see vi_connected() */
		return;
	/* Who sees a completion of what follows may ask by VipQueryVi when messages arrive again. */
	atomic_store(&vi->reviving, true);
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	while (!has_flushed(vi, false, flushed_by))
		sched_yield();
	error = ops_of(vi)->endpoint_rewind(vi->endpoint);
	take_all_completions(vi);
	/* No stale report of the stall can come after this. */
	atomic_store(&vi->stalled, false);
	workqueue_assume_done(&vi->send);
	workqueue_recall(&vi->send, QUEUE_HOLDS);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
	if (!error) {
		workqueue_set_mode(&vi->receive, QUEUE_OPEN);
		error = ops_of(vi)->endpoint_resume(vi->endpoint);
	}
	if (error && error != EAGAIN)
		break_live(vi, VIP_ERROR_CONN_LOST);
	else
		workqueue_set_mode(&vi->send, QUEUE_OPEN);
	atomic_store(&vi->reviving, false);
}

static void break_or_revive(struct vi *vi)
{
	if (atomic_load(&vi->broken))
		vi_break(vi);
	else if (atomic_load(&vi->stalled))
		vi_revive(vi);
}

void faults_serve(struct nic *nic)
{
	struct vi *vi;

	if (!atomic_exchange(&nic->has_faults, false))
		return;
	LIST_FOREACH(vi, &nic->vis, in_nic)
		break_or_revive(vi);
}

void vi_catch_up(struct vi *vi)
{
	if (!atomic_load(&vi->stalled) && !atomic_load(&vi->reviving) &&
	    !(atomic_load(&vi->broken) && atomic_load(&vi->state) == VIP_STATE_CONNECTED))
		return;
	pthread_mutex_lock(&vi->nic->lock);
	break_or_revive(vi);
	vi_await_end(vi);
	pthread_mutex_unlock(&vi->nic->lock);
}

void vi_follow(struct vi *vi)
{
	if (!has_connection(vi))
		return;
	switch (ops_of(vi)->endpoint_way(vi->endpoint)) {
	case ENDPOINT_MOVED:
		vi_revive(vi);
		break;
	case ENDPOINT_CUT:
		break_live(vi, VIP_ERROR_CONN_LOST);
		break;
	default:
		break;
	}
}

void vi_connected(struct vi *vi, const struct connect_info *peer)
{
	vi->peer = *peer;
	workqueue_set_mode(&vi->send, QUEUE_OPEN);
	atomic_store(&vi->state, VIP_STATE_CONNECTED);
	vi_decide(vi, VIP_SUCCESS);
	/* A first message may have come, and failed, before the connection was known here. */
	if (atomic_load(&vi->broken) || atomic_load(&vi->stalled))
		break_or_revive(vi);
	else if (vi->connection->changes != vi->nic->changes) /* the path may be that from before */
		vi_follow(vi);
}
