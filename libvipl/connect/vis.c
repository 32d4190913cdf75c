/* SPDX-License-Identifier: BSD-2-Clause */
/* Making a VI, changing its attributes, and freeing it. */
#include "vis.h"

#include <string.h>

#include "base/deadline.h"
#include "base/log.h"
#include "connect.h"
#include "core/nic.h"

struct region_rights vi_rights(const VIP_VI_ATTRIBUTES *attributes)
{
	return (struct region_rights){.rdma_write = attributes->EnableRdmaWrite,
				      .rdma_read = attributes->EnableRdmaRead};
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

/* The program's CQ, or a new one of the queue's own, which has this channel if it is not NULL. */
static struct cq *use_cq(struct nic *nic, struct cq *given, struct channel *channel,
			 unsigned depth)
{
	struct cq *cq = given ? given : cq_create(nic, channel, depth, false);

	if (cq)
		cq->queues++;
	return cq;
}

static void release_cq(struct cq *cq)
{
	if (!--cq->queues && !cq->is_public)
		cq_destroy(cq);
}

/* A queue's own CQ must have room for all its requests: see cq_reserve(). */
static unsigned depth_of(const struct workqueue *queue, unsigned depth)
{
	unsigned capacity = atomic_load(&queue->cq->capacity);

	return queue->cq->is_public || depth < capacity ? depth : capacity;
}

/* The endpoint for these attributes, which are not yet the VI's, or NULL. */
static struct device_endpoint *create_endpoint(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes,
					       const struct tag *tag)
{
	struct endpoint_config config = {
		.vi = vi,
		.domain = tag->domain,
		.reliability = attributes->ReliabilityLevel,
		.rights = vi_rights(attributes),
		.send_queue = &vi->send,
		.receive_queue = &vi->receive,
		.send_cq = vi->send.cq->device_cq,
		.receive_cq = vi->receive.cq->device_cq,
		.send_depth = SEND_DEPTH,
		.receive_depth = RECEIVE_DEPTH,
	};
	struct device_endpoint *endpoint =
		ops_of(vi)->endpoint_create(vi->nic->device, &config);

	if (endpoint) { /* all endpoints of a device are equally deep */
		vi->send.depth = depth_of(&vi->send, config.send_depth);
		vi->receive.depth = depth_of(&vi->receive, config.receive_depth);
	}
	return endpoint;
}

/* Undoes what build_vi() has done so far. */
static void dismantle(struct vi *vi, struct cq *send, struct cq *receive)
{
	if (vi->connection)
		connection_destroy(vi->connection);
	if (vi->endpoint)
		ops_of(vi)->endpoint_destroy(vi->endpoint);
	if (vi->receive.ops)
		workqueue_destroy(&vi->receive);
	if (vi->send.ops)
		workqueue_destroy(&vi->send);
	if (receive)
		release_cq(receive);
	if (send)
		release_cq(send);
	pthread_cond_destroy(&vi->changed);
}

/* The NIC's lock is held; `vi` has its tag. */
static VIP_RETURN build_vi(struct vi *vi, struct cq *send_cq, struct cq *receive_cq)
{
	struct nic *nic = vi->nic;
	struct cq *send, *receive = NULL;

	/* Another thread may have begun to destroy a CQ, since no queue was on it. */
	if ((send_cq && object_retired(&send_cq->object)) ||
	    (receive_cq && object_retired(&receive_cq->object)))
		return VIP_INVALID_PARAMETER;
	if (condition_init(&vi->changed))
		return VIP_ERROR_RESOURCE;
	send = use_cq(nic, send_cq, NULL, SEND_DEPTH);
	if (!send)
		goto fail;
	atomic_store(&send->has_sends, true);
	/* One thread usually waits for both queues, so they share a channel. VIs would wake each other's threads. */
	receive = use_cq(nic, receive_cq, send->is_public ? NULL : send->channel, RECEIVE_DEPTH);
	if (!receive || workqueue_init(&vi->send, send, false, workqueue_submit_backlog) ||
	    workqueue_init(&vi->receive, receive, true, workqueue_submit_backlog))
		goto fail;
	vi->endpoint = create_endpoint(vi, &vi->attributes, vi->tag);
	if (!vi->endpoint)
		goto fail;
	vi->connection = connection_create(nic->connector, vi);
	if (!vi->connection) {
		log_error_ratelimited("no memory for connections: %s", failure(errno));
		goto fail;
	}
	if (object_publish(&vi->object, OBJECT_VI))
		goto fail;
	workqueue_set_handle(&vi->send, object_handle(&vi->object));
	workqueue_set_handle(&vi->receive, object_handle(&vi->object));
	vi->tag->users++;
	LIST_INSERT_HEAD(&nic->vis, vi, in_nic);
	return VIP_SUCCESS;

fail:
	dismantle(vi, send, receive);
	return VIP_ERROR_RESOURCE;
}

void vi_free(struct vi *vi)
{
	LIST_REMOVE(vi, in_nic);
	vi->tag->users--;
	dismantle(vi, vi->send.cq, vi->receive.cq);
	object_free(&vi->object);
}

static struct vi *allocate_vi(void)
{
	bool is_new;
	struct vi *vi = object_allocate(OBJECT_VI, sizeof(*vi), &is_new);

	if (!vi)
		return NULL;
	memset(&vi->nic, 0, sizeof(*vi) - offsetof(struct vi, nic));
	workqueue_clear(&vi->send, vi, is_new);
	workqueue_clear(&vi->receive, vi, is_new);
	return vi;
}

VIP_RETURN vi_create(struct nic *nic, const VIP_VI_ATTRIBUTES *attributes, struct cq *send_cq,
		     struct cq *receive_cq, VIP_VI_HANDLE *handle)
{
	VIP_RETURN rc = check_attributes(nic, attributes);
	struct vi *vi;

	if (rc != VIP_SUCCESS)
		return rc;
	vi = allocate_vi();
	if (!vi)
		return VIP_ERROR_RESOURCE;
	vi->nic = nic;
	vi->attributes = *attributes;
	pthread_mutex_lock(&nic->lock);
	vi->tag = tag_find(nic, attributes->Ptag);
	rc = vi->tag ? build_vi(vi, send_cq, receive_cq) : VIP_INVALID_PTAG;
	if (rc == VIP_SUCCESS)
		*handle = object_handle(&vi->object);
	pthread_mutex_unlock(&nic->lock);
	if (rc != VIP_SUCCESS)
		object_free(&vi->object);
	return rc;
}

void vi_retract_handle(struct vi *vi)
{
	workqueue_set_handle(&vi->send, NULL);
	workqueue_set_handle(&vi->receive, NULL);
	object_retire(&vi->object);
}

VIP_RETURN vi_retire(struct vi *vi)
{
	VIP_RETURN rc;

	pthread_mutex_lock(&vi->nic->lock);
	rc = vi_check_idle(vi);
	if (rc == VIP_SUCCESS)
		vi_retract_handle(vi);
	pthread_mutex_unlock(&vi->nic->lock);
	if (rc == VIP_SUCCESS) {
		cq_wake(vi->send.cq, true);
		cq_wake(vi->receive.cq, true);
	}
	return rc;
}

void vi_destroy(struct vi *vi)
{
	struct nic *nic = vi->nic;

	object_drain(&vi->object, 1);
	pthread_mutex_lock(&nic->lock);
	vi_free(vi);
	pthread_mutex_unlock(&nic->lock);
}

static bool same_endpoint(const struct vi *vi, const VIP_VI_ATTRIBUTES *wanted,
			  const struct tag *tag)
{
	const VIP_VI_ATTRIBUTES *attributes = &vi->attributes;

	return wanted->ReliabilityLevel == attributes->ReliabilityLevel &&
	       !wanted->EnableRdmaWrite == !attributes->EnableRdmaWrite &&
	       !wanted->EnableRdmaRead == !attributes->EnableRdmaRead &&
	       tag->domain == vi->tag->domain;
}

/* Posting reads these with the queue's lock, completing with the CQ's. The device has no descriptor, so no receive is lost. */
static void become(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes, struct tag *tag,
		   struct device_endpoint *endpoint)
{
	workqueue_lock(&vi->send);
	workqueue_lock(&vi->receive);
	vi->attributes = *attributes;
	vi->tag = tag;
	vi->endpoint = endpoint;
	/* The hints are about the former tag. */
	memset(vi->send.regions, 0, sizeof(vi->send.regions));
	memset(vi->receive.regions, 0, sizeof(vi->receive.regions));
	workqueue_unlock(&vi->receive);
	workqueue_unlock(&vi->send);
	/* Nothing completes yet. These locks only order the memory accesses. */
	cq_lock(vi->send.cq);
	cq_unlock(vi->send.cq);
	cq_lock(vi->receive.cq);
	cq_unlock(vi->receive.cq);
}

VIP_RETURN vi_set_attributes(struct vi *vi, const VIP_VI_ATTRIBUTES *attributes)
{
	struct device_endpoint *former = vi->endpoint, *endpoint = former;
	struct tag *tag, *former_tag = vi->tag;
	VIP_RETURN rc = vi_check_idle(vi);

	if (rc == VIP_SUCCESS)
		rc = check_attributes(vi->nic, attributes);
	if (rc != VIP_SUCCESS)
		return rc;
	tag = tag_find(vi->nic, attributes->Ptag);
	if (!tag)
		return VIP_INVALID_PTAG;
	if (!same_endpoint(vi, attributes, tag))
		endpoint = create_endpoint(vi, attributes, tag);
	if (!endpoint)
		return VIP_ERROR_RESOURCE;
	become(vi, attributes, tag, endpoint);
	if (endpoint != former)
		ops_of(vi)->endpoint_destroy(former);
	tag->users++;
	former_tag->users--;
	return VIP_SUCCESS;
}
