/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a VI and the ways between them. Connecting it is connecting.c's. */
#include "vi.h"

#include <errno.h>
#include <sched.h>

#include "base/deadline.h"
#include "nic.h"

#define FLUSH_NSEC INT64_C(20000000)

/* Takes what the device has completed. It is bounded, because a shared CQ may never be empty. */
static void take_completions(struct cq *cq)
{
	unsigned most = cq->is_public ? cq_outstanding(cq) : atomic_load(&cq->capacity);

	while (cq_poll_for_device(cq) && most--)
		;
}

static void take_all_completions(struct vi *vi)
{
	take_completions(vi->send.cq);
	if (vi->receive.cq != vi->send.cq)
		take_completions(vi->receive.cq);
}

bool vi_offer(struct vi *vi)
{
	if (ops_of(vi)->endpoint_prepare(vi->endpoint)) {
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

void vi_withdraw(struct vi *vi)
{
	workqueue_set_mode(&vi->send, QUEUE_FLUSHES);
	workqueue_flush(&vi->send);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	take_all_completions(vi);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	take_all_completions(vi);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
}

void vi_decide(struct vi *vi, VIP_RETURN result)
{
	atomic_store(&vi->attempt.result, result);
	pthread_cond_broadcast(&vi->changed);
}

/*
 * Waits until a stopped endpoint has flushed its work requests. The wait is bounded; the rest is flushed above the device.
 * Kernels have failed when a queue pair was reset with requests under way.
 */
static void await_flush(struct vi *vi, bool receives_too)
{
	int64_t deadline = clock_nsec() + FLUSH_NSEC;

	take_all_completions(vi);
	while ((workqueue_with_device(&vi->send) ||
		(receives_too && workqueue_with_device(&vi->receive))) &&
	       !vi->nic->failed && clock_nsec() < deadline) {
		sched_yield();
		take_all_completions(vi);
	}
}

/* Connected, or in ERROR and not yet torn down. */
static bool has_connection(const struct vi *vi)
{
	return vi->send.mode == QUEUE_OPEN;
}

/* Afterwards the endpoint has no work, and no completion names it. */
static void stop_endpoint(struct vi *vi)
{
	ops_of(vi)->endpoint_stop(vi->endpoint);
	await_flush(vi, true);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	take_all_completions(vi);
}

/* Ends the connection; what completed before stays completed, all else is flushed. */
static void tear_down(struct vi *vi, enum queue_mode receive_mode)
{
	/* From here on nothing may be posted to the endpoint, which is going to be reset. */
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	take_all_completions(vi); /* what came before the end still arrives */
	vi->is_answered = false;
	stop_endpoint(vi);
	connection_close(vi->connection, vi->is_answered && !vi->closed_by_peer && !vi->nic->failed);
	workqueue_recall(&vi->send, QUEUE_FLUSHES);
	workqueue_recall(&vi->receive, receive_mode);
	workqueue_flush(&vi->send);
	workqueue_flush(&vi->receive);
}

void vi_disconnect(struct vi *vi)
{
	if (has_connection(vi))
		tear_down(vi, QUEUE_HOLDS);
	else
		workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	atomic_store(&vi->broken, false);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	error_forget(vi->nic, object_handle(&vi->object));
}

void vi_abandon(struct vi *vi)
{
	bool at_work = has_connection(vi) || atomic_load(&vi->state) == VIP_STATE_CONNECT_PENDING;

	workqueue_drop(&vi->send);
	workqueue_drop(&vi->receive);
	if (at_work)
		stop_endpoint(vi);
	connection_close(vi->connection, false);
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
	/* Only now: a thread that sees ERROR may rely on the queues being flushed. */
	atomic_store(&vi->state, VIP_STATE_ERROR);
	error_of_vi(vi, vi->cause, operation_of(vi, vi->cause));
}

static void break_for(struct vi *vi, VIP_ERROR_CODE error)
{
	if (has_connection(vi)) /* while connecting the result decides */
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
 * Receives come back and are posted again in their order. Sends are not: they may have gone out, and even an unreliable
 * message does not arrive twice. If the endpoint has no way out (EAGAIN) receives stay here, and sends are lost.
 */
void vi_revive(struct vi *vi)
{
	int error;

	if (!has_connection(vi)) /* not yet, or not any more: see endpoint_connected() */
		return;
	workqueue_set_mode(&vi->send, QUEUE_HOLDS);
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	await_flush(vi, false);
	error = ops_of(vi)->endpoint_rewind(vi->endpoint);
	take_all_completions(vi);
	/* Threads that polled before this have reported the stall by now, and nobody will report it again. */
	atomic_store(&vi->stalled, false);
	workqueue_assume_done(&vi->send);
	workqueue_recall(&vi->send, QUEUE_HOLDS);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
	if (!error) {
		workqueue_set_mode(&vi->receive, QUEUE_OPEN);
		error = ops_of(vi)->endpoint_resume(vi->endpoint);
	}
	if (error && error != EAGAIN) {
		break_live(vi, VIP_ERROR_CONN_LOST);
		return;
	}
	workqueue_set_mode(&vi->send, QUEUE_OPEN);
}

void vi_run_deferred(struct workqueue *queue)
{
	if (atomic_load(&queue->vi->broken))
		vi_break(queue->vi);
	else if (atomic_load(&queue->vi->stalled))
		vi_revive(queue->vi);
}

void vi_catch_up(struct vi *vi)
{
	if (!atomic_load(&vi->stalled) &&
	    !(atomic_load(&vi->broken) && atomic_load(&vi->state) == VIP_STATE_CONNECTED))
		return;
	pthread_mutex_lock(&vi->nic->lock);
	vi_run_deferred(&vi->send);
	pthread_mutex_unlock(&vi->nic->lock);
}

void endpoint_lost(struct vi *vi)
{
	break_for(vi, VIP_ERROR_CONN_LOST);
}

void endpoint_closed(struct vi *vi)
{
	vi->closed_by_peer = true;
	vi->cause = VIP_ERROR_CONN_LOST;
}

void endpoint_ends_for(struct vi *vi, VIP_ERROR_CODE error)
{
	vi->cause = error;
}

void endpoint_answered(struct vi *vi)
{
	vi->is_answered = true;
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

void device_changed(struct nic *nic)
{
	struct vi *vi;

	LIST_FOREACH(vi, &nic->vis, in_nic)
		if (has_connection(vi) && ops_of(vi)->endpoint_has_moved(vi->endpoint))
			vi_revive(vi);
}

void cq_failed(struct cq *cq)
{
	struct vi *vi;

	LIST_FOREACH(vi, &cq->nic->vis, in_nic)
		if (vi->send.cq == cq || vi->receive.cq == cq)
			endpoint_failed(vi, VIP_ERROR_CONN_LOST);
}
