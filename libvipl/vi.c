/* Virtual interfaces: VipCreateVi, VipDestroyVi, VipQueryVi, and the ways between states. */
#include "vi.h"

#include <sched.h>
#include <stdlib.h>

#include "deadline.h"
#include "nic.h"

#define SETTLE_NSEC 20000000

static const struct device_ops *ops_of(const struct vi *vi)
{
	return vi->nic->device->ops;
}

/* Takes what the device has completed; other queues of a shared CQ may never let it run dry. */
static void drain(struct cq *cq)
{
	unsigned most = atomic_load(&cq->outstanding);

	pthread_mutex_lock(&cq->lock);
	while (cq_poll_locked(cq) && most--)
		;
	pthread_mutex_unlock(&cq->lock);
}

static void drain_both(struct vi *vi)
{
	drain(vi->send.cq);
	if (vi->receive.cq != vi->send.cq)
		drain(vi->receive.cq);
}

VIP_RETURN vi_prepare(struct vi *vi)
{
	if (ops_of(vi)->endpoint_prepare(vi->endpoint)) {
		ops_of(vi)->endpoint_reset(vi->endpoint);
		return VIP_ERROR_RESOURCE;
	}
	vi->attempt++;
	vi->outcome = VIP_NOT_DONE;
	atomic_store(&vi->broken, false);
	atomic_store(&vi->state, VIP_STATE_CONNECT_PENDING);
	workqueue_set_mode(&vi->receive, QUEUE_OPEN);
	return VIP_SUCCESS;
}

void vi_unprepare(struct vi *vi)
{
	workqueue_set_mode(&vi->receive, QUEUE_HOLDS);
	drain_both(vi);
	ops_of(vi)->endpoint_reset(vi->endpoint);
	drain_both(vi);
	workqueue_recall(&vi->receive, QUEUE_HOLDS);
	atomic_store(&vi->state, VIP_STATE_IDLE);
}

/*
 * Lets a stopped endpoint complete what it had, as flushed at the latest. It need not: what is left
 * is flushed here. But kernels have been seen to stumble over queue pairs reset in mid-flight.
 */
static void settle(struct vi *vi)
{
	int64_t deadline = clock_nsec() + SETTLE_NSEC;

	drain_both(vi);
	while ((workqueue_with_device(&vi->send) || workqueue_with_device(&vi->receive)) &&
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
	ops_of(vi)->endpoint_stop(vi->endpoint);
	settle(vi);
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
		settle(vi);
		ops_of(vi)->endpoint_reset(vi->endpoint);
	}
	ops_of(vi)->disconnect(vi->endpoint);
	atomic_store(&vi->state, VIP_STATE_IDLE);
	vi->outcome = VIP_INVALID_PARAMETER;
	pthread_cond_broadcast(&vi->changed);
}

void vi_break(struct vi *vi, VIP_ERROR_CODE error)
{
	if (!is_live(vi)) /* while connecting the outcome decides */
		return;
	tear_down(vi, QUEUE_FLUSHES);
	/* Only now: who sees ERROR may rely on the queues being flushed. */
	atomic_store(&vi->state, VIP_STATE_ERROR);
	error_report(vi->nic, error, vi, NULL);
}

void endpoint_connected(struct vi *vi, const struct connect_info *peer)
{
	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
		return;
	vi->peer = *peer;
	workqueue_set_mode(&vi->send, QUEUE_OPEN);
	atomic_store(&vi->state, VIP_STATE_CONNECTED);
	vi->outcome = VIP_SUCCESS;
	pthread_cond_broadcast(&vi->changed);
	/* A first message may have come, and failed, before the connection was known here. */
	if (atomic_load(&vi->broken))
		vi_break(vi, VIP_ERROR_CONN_LOST);
}

void endpoint_refused(struct vi *vi, VIP_RETURN reason)
{
	if (atomic_load(&vi->state) != VIP_STATE_CONNECT_PENDING)
		return;
	vi_unprepare(vi);
	vi->outcome = reason;
	pthread_cond_broadcast(&vi->changed);
}

void endpoint_lost(struct vi *vi)
{
	vi_break(vi, VIP_ERROR_CONN_LOST);
}

void endpoint_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	atomic_store(&vi->broken, true);
	vi_break(vi, error);
}

void cq_failed(struct cq *cq)
{
	struct vi *vi;

	LIST_FOREACH(vi, &cq->nic->vis, in_nic)
		if (vi->send.cq == cq || vi->receive.cq == cq)
			endpoint_failed(vi, VIP_ERROR_CONN_LOST);
}

VIP_RETURN vi_await_outcome(struct vi *vi, int64_t deadline)
{
	unsigned attempt = vi->attempt;

	while (vi->outcome == VIP_NOT_DONE) {
		int timed_out = condition_wait(&vi->changed, &vi->nic->lock, deadline);

		if (vi->attempt != attempt) /* disconnected, and used anew by another thread */
			return VIP_INVALID_STATE;
		if (timed_out && vi->outcome == VIP_NOT_DONE) {
			vi->outcome = ops_of(vi)->cancel(vi->endpoint);
			vi_unprepare(vi);
		}
	}
	return vi->outcome;
}

static VIP_RETURN check_attributes(const struct nic *nic, const VIP_VI_ATTRIBUTES *attributes)
{
	VIP_RELIABILITY_LEVEL level = attributes->ReliabilityLevel;

	if (!level || level & (level - 1) || !(level & nic->attributes.ReliabilityLevelSupport))
		return VIP_INVALID_RELIABILITY_LEVEL;
	if (!attributes->MaxTransferSize ||
	    attributes->MaxTransferSize > nic->attributes.MaxTransferSize)
		return VIP_INVALID_MTU;
	if (attributes->QoS)
		return VIP_INVALID_QOS;
	if (attributes->EnableRdmaRead && !(level & nic->attributes.RDMAReadSupport))
		return VIP_INVALID_RDMAREAD;
	return VIP_SUCCESS;
}

/* The program's CQ, or one of the queue's own. */
static struct cq *use_cq(struct nic *nic, struct cq *given, unsigned depth)
{
	struct cq *cq = given ? given : cq_create(nic, depth, false);

	if (cq)
		cq->queues++;
	return cq;
}

static void release_cq(struct cq *cq)
{
	if (!--cq->queues && !cq->is_public)
		cq_destroy(cq);
}

static int create_endpoint(struct vi *vi)
{
	struct endpoint_config config = {
		.vi = vi,
		.domain = vi->tag->domain,
		.rights = {.rdma_write = vi->attributes.EnableRdmaWrite,
			   .rdma_read = vi->attributes.EnableRdmaRead},
		.send_queue = &vi->send,
		.receive_queue = &vi->receive,
		.send_cq = vi->send.cq->device_cq,
		.receive_cq = vi->receive.cq->device_cq,
		.send_depth = SEND_DEPTH,
		.receive_depth = RECEIVE_DEPTH,
	};

	vi->endpoint = ops_of(vi)->endpoint_create(vi->nic->device, &config);
	vi->send.depth = config.send_depth;
	vi->receive.depth = config.receive_depth;
	return vi->endpoint ? 0 : -1;
}

/* The NIC's lock is held; `vi` has its tag. */
static VIP_RETURN build(struct vi *vi, struct cq *send_cq, struct cq *receive_cq)
{
	struct nic *nic = vi->nic;

	/* Destroying them was allowed, since no queue was on them. */
	if ((send_cq && object_retired(&send_cq->object)) ||
	    (receive_cq && object_retired(&receive_cq->object)))
		return VIP_INVALID_PARAMETER;
	send_cq = use_cq(nic, send_cq, SEND_DEPTH);
	if (!send_cq)
		return VIP_ERROR_RESOURCE;
	atomic_store(&send_cq->has_sends, true);
	receive_cq = use_cq(nic, receive_cq, RECEIVE_DEPTH);
	if (!receive_cq)
		goto release_send_cq;
	if (workqueue_init(&vi->send, vi, send_cq, false))
		goto release_receive_cq;
	if (workqueue_init(&vi->receive, vi, receive_cq, true))
		goto destroy_send;
	if (create_endpoint(vi))
		goto destroy_receive;
	if (condition_init(&vi->changed))
		goto destroy_endpoint;
	if (object_publish(&vi->object, OBJECT_VI))
		goto destroy_changed;
	vi->tag->users++;
	LIST_INSERT_HEAD(&nic->vis, vi, in_nic);
	return VIP_SUCCESS;

destroy_changed:
	pthread_cond_destroy(&vi->changed);
destroy_endpoint:
	ops_of(vi)->endpoint_destroy(vi->endpoint);
destroy_receive:
	workqueue_destroy(&vi->receive);
destroy_send:
	workqueue_destroy(&vi->send);
release_receive_cq:
	release_cq(receive_cq);
release_send_cq:
	release_cq(send_cq);
	return VIP_ERROR_RESOURCE;
}

void vi_free(struct vi *vi)
{
	LIST_REMOVE(vi, in_nic);
	ops_of(vi)->endpoint_destroy(vi->endpoint);
	workqueue_destroy(&vi->receive);
	workqueue_destroy(&vi->send);
	release_cq(vi->receive.cq);
	release_cq(vi->send.cq);
	vi->tag->users--;
	pthread_cond_destroy(&vi->changed);
	free(vi);
}

static VIP_RETURN create(struct nic *nic, const VIP_VI_ATTRIBUTES *attributes, struct cq *send_cq,
			 struct cq *receive_cq, VIP_VI_HANDLE *handle)
{
	VIP_RETURN rc = check_attributes(nic, attributes);
	struct vi *vi;

	if (rc != VIP_SUCCESS)
		return rc;
	vi = calloc(1, sizeof(*vi));
	if (!vi)
		return VIP_ERROR_RESOURCE;
	vi->nic = nic;
	vi->attributes = *attributes;
	pthread_mutex_lock(&nic->lock);
	vi->tag = tag_find(nic, attributes->Ptag);
	rc = vi->tag ? build(vi, send_cq, receive_cq) : VIP_INVALID_PTAG;
	if (rc == VIP_SUCCESS)
		*handle = object_handle(&vi->object);
	pthread_mutex_unlock(&nic->lock);
	if (rc != VIP_SUCCESS)
		free(vi);
	return rc;
}

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
		       VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
		       VIP_VI_HANDLE *ViHandle)
{
	struct nic *nic = nic_get(NicHandle);
	struct cq *send_cq = SendCQHandle ? object_get(SendCQHandle, OBJECT_CQ) : NULL;
	struct cq *receive_cq = RecvCQHandle ? object_get(RecvCQHandle, OBJECT_CQ) : NULL;
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (nic && ViAttribs && ViHandle && !SendCQHandle == !send_cq &&
	    !RecvCQHandle == !receive_cq && (!send_cq || send_cq->nic == nic) &&
	    (!receive_cq || receive_cq->nic == nic))
		rc = create(nic, ViAttribs, send_cq, receive_cq, ViHandle);
	if (receive_cq)
		object_put(&receive_cq->object);
	if (send_cq)
		object_put(&send_cq->object);
	if (nic)
		nic_put(nic);
	return rc;
}

/* Makes the handle invalid, if the state allows. */
static VIP_RETURN retire(struct vi *vi)
{
	VIP_RETURN rc = VIP_SUCCESS;

	pthread_mutex_lock(&vi->nic->lock);
	if (atomic_load(&vi->state) != VIP_STATE_IDLE)
		rc = VIP_INVALID_STATE;
	else if (!object_retire(&vi->object))
		rc = VIP_INVALID_PARAMETER;
	pthread_mutex_unlock(&vi->nic->lock);
	return rc;
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct nic *nic;

	if (!vi)
		return rc;
	nic = vi->nic;
	if (!object_hold(&nic->object)) /* being closed, with all its VIs */
		goto put_vi;
	rc = retire(vi);
	if (rc != VIP_SUCCESS) {
		nic_put(nic);
		goto put_vi;
	}
	channel_kick(vi->send.cq->channel, vi->send.cq);
	channel_kick(vi->receive.cq->channel, vi->receive.cq);
	object_drain(&vi->object, 1);
	pthread_mutex_lock(&nic->lock);
	vi_free(vi);
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
	return rc;

put_vi:
	vi_put(vi);
	return rc;
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *Attributes,
		      VIP_BOOLEAN *ViSendQEmpty, VIP_BOOLEAN *ViRecvQEmpty)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!vi)
		return rc;
	if (State && Attributes && ViSendQEmpty && ViRecvQEmpty) {
		/* A program that asks for nothing else shall learn of an error, too. */
		cq_look(vi->send.cq);
		cq_look(vi->receive.cq);
		*State = atomic_load(&vi->state);
		*Attributes = vi->attributes;
		*ViSendQEmpty = workqueue_is_empty(&vi->send) ? VIP_TRUE : VIP_FALSE;
		*ViRecvQEmpty = workqueue_is_empty(&vi->receive) ? VIP_TRUE : VIP_FALSE;
		rc = VIP_SUCCESS;
	}
	vi_put(vi);
	return rc;
}
