/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, and their states. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/aligned.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/own_memory.h"
#include "rdma.h"

/* The bytes of inline data that are asked for. The device need not fetch inline data. It may allow more, or none. */
#define INLINE_SIZE 128u

/* Waited at most for a queue pair to come to rest. */
#define DRAIN_NSEC NSEC_PER_SEC
#define REWINDS	   8u /* tries, each of which fails only if a message comes just then */

static unsigned lower(unsigned a, int b)
{
	return b > 0 && (unsigned)b < a ? (unsigned)b : a;
}

/* 0 or errno. */
static void limit_inline(struct verbs_endpoint *endpoint)
{
	endpoint->is_careful = own_memory_may_be_protected();
	endpoint->inline_most = endpoint->is_careful ? 0 : endpoint->inline_size;
}

static int create_qp(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_init_attr attributes = endpoint->wanted_qp;
	struct ibv_qp *qp = ibv_create_qp(endpoint->domain->pd, &attributes);

	if (!qp && errno == EINVAL) { /* perhaps a device without inline data */
		attributes = endpoint->wanted_qp;
		attributes.cap.max_inline_data = 0;
		qp = ibv_create_qp(endpoint->domain->pd, &attributes);
	}
	if (!qp) {
		int error = errno;

		log_error("cannot create a queue pair: %s%s", strerror(error), memory_hint(error));
		return error;
	}
	endpoint->qp = qp;
	endpoint->qp->qp_context = endpoint;
	endpoint->inline_size = attributes.cap.max_inline_data;
	limit_inline(endpoint);
	endpoint->request_segments = lower(VERBS_SEND_SEGMENTS, (int)attributes.cap.max_send_sge);
	endpoint->request_segments =
		lower(endpoint->request_segments, endpoint->device->limits.max_sge_rd);
	verbs_limit_requests(endpoint, UINT32_MAX);
	endpoint->receive_segments = attributes.cap.max_recv_sge;
	return 0;
}

/*
 * All zero except the tag, which tells completions of an earlier endpoint in this place. The endpoint that has been
 * unused for longest comes first.
 */
static struct verbs_endpoint *allocate_endpoint(struct verbs_device *device)
{
	struct verbs_endpoint *endpoint = STAILQ_FIRST(&device->unused_endpoints);

	if (endpoint) {
		STAILQ_REMOVE_HEAD(&device->unused_endpoints, in_unused);
	} else {
		endpoint = aligned_create(VERBS_ENDPOINT_ALIGNMENT, sizeof(*endpoint));
		if (!endpoint)
			return NULL;
		atomic_init(&endpoint->wr_id_tag, (uintptr_t)endpoint);
	}
	memset(&endpoint->request_segments, 0,
	       sizeof(*endpoint) - offsetof(struct verbs_endpoint, request_segments));
	return endpoint;
}

void verbs_endpoints_free(struct verbs_device *device)
{
	struct verbs_endpoint *endpoint;

	while ((endpoint = STAILQ_FIRST(&device->unused_endpoints))) {
		STAILQ_REMOVE_HEAD(&device->unused_endpoints, in_unused);
		aligned_free(endpoint);
	}
}

struct device_endpoint *verbs_endpoint_create(struct device *base, struct endpoint_config *config)
{
	struct verbs_device *device = (struct verbs_device *)base;
	struct verbs_endpoint *endpoint = allocate_endpoint(device);

	if (!endpoint)
		return NULL;
	config->send_depth = lower(config->send_depth, device->limits.max_qp_wr);
	config->receive_depth = lower(config->receive_depth, device->limits.max_qp_wr);
	endpoint->device = device;
	endpoint->vi = config->vi;
	endpoint->access = (unsigned)verbs_remote_access(config->rights);
	if (config->reliability == VIP_SERVICE_RELIABLE_RECEPTION)
		endpoint->access |= IBV_ACCESS_REMOTE_ATOMIC; /* of verbs_flush.c */
	endpoint->send_queue = config->send_queue;
	endpoint->receive_queue = config->receive_queue;
	endpoint->domain = (struct verbs_domain *)config->domain;
	TAILQ_INIT(&endpoint->staged_sends);
	TAILQ_INIT(&endpoint->staged_receives);
	endpoint->wanted_qp = (struct ibv_qp_init_attr){
		.send_cq = ((struct verbs_cq *)config->send_cq)->cq,
		.recv_cq = ((struct verbs_cq *)config->receive_cq)->cq,
		.cap = {.max_send_wr = config->send_depth,
			.max_recv_wr = config->receive_depth,
			.max_send_sge = lower(VERBS_SEND_SEGMENTS, device->limits.max_sge),
			.max_recv_sge = lower(VERBS_RECEIVE_SEGMENTS, device->limits.max_sge),
			.max_inline_data = INLINE_SIZE},
		.qp_type = config->reliability == VIP_SERVICE_UNRELIABLE ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	if (create_qp(endpoint))
		goto keep_memory;
	if (config->reliability != VIP_SERVICE_RELIABLE_RECEPTION || !verbs_flush_create(endpoint))
		return (struct device_endpoint *)endpoint;
	ibv_destroy_qp(endpoint->qp);
keep_memory:
	STAILQ_INSERT_TAIL(&device->unused_endpoints, endpoint, in_unused);
	return NULL;
}

static int change_state(struct verbs_endpoint *endpoint, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = {.qp_state = state};
	int error = ibv_modify_qp(endpoint->qp, &attributes, IBV_QP_STATE);

	if (error)
		log_error_ratelimited("queue pair %u: no change to state %d: %s", endpoint->qp->qp_num, state,
				      strerror(error));
	return error;
}

/* Completions of work that was posted before mean nothing from now on. */
static void disown_completions(struct verbs_endpoint *endpoint)
{
	uint64_t wr_id_tag = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed);
	uint64_t generation = (wr_id_tag + VERBS_WR_ID_GENERATION) & VERBS_WR_ID_BITS;

	atomic_store_explicit(&endpoint->wr_id_tag, (uintptr_t)endpoint | generation,
			      memory_order_relaxed);
}

/* Work that was posted before is forgotten. */
static void next_generation(struct verbs_endpoint *endpoint)
{
	disown_completions(endpoint);
	staging_forget(endpoint);
}

/* Takes what is in the CQ at this moment: no more than it has room for. */
static void take_all(struct ibv_cq *cq)
{
	int most;

	cq_lock(cq->cq_context); /* another thread may let it grow */
	most = cq->cqe;
	cq_unlock(cq->cq_context);
	while (most-- > 0 && cq_poll_for_device(cq->cq_context))
		;
}

/* Some devices leave the completions of a queue pair that is destroyed in the CQs, as soft-RoCE and qedr do. */
static void destroy_qp(struct verbs_endpoint *endpoint, struct ibv_qp *qp)
{
	const struct ibv_qp_init_attr *cqs = &endpoint->wanted_qp;

	ibv_destroy_qp(qp);
	next_generation(endpoint);
	take_all(cqs->send_cq);
	if (cqs->recv_cq != cqs->send_cq)
		take_all(cqs->recv_cq);
}

void verbs_endpoint_destroy(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	verbs_route_forget(endpoint);
	destroy_qp(endpoint, endpoint->qp);
	verbs_flush_destroy(endpoint);
	STAILQ_INSERT_TAIL(&endpoint->device->unused_endpoints, endpoint, in_unused);
}

static int move_to_init(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
					 .port_num = endpoint->device->port,
					 .qp_access_flags = endpoint->access};

	return ibv_modify_qp(endpoint->qp, &attributes,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/*
 * One that was connected is not used for another connection. Soft-RoCE does not forget a read that it was
 * answering, and takes the first request of the next connection for more of it. Some devices cannot use
 * one again once it was in ERR, although they say RESET. And a peer that has not noticed the end yet
 * refuses one that it knows.
 */
static int replace_qp(struct verbs_endpoint *endpoint)
{
	struct ibv_qp *former = endpoint->qp;
	int error = create_qp(endpoint);

	if (error)
		return error;
	destroy_qp(endpoint, former);
	endpoint->was_connected = false;
	return 0;
}

/* Packets of an earlier connection that come late do not fit. */
static uint32_t any_psn(void)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != sizeof(psn))
		psn = (uint32_t)clock_nsec();
	return psn & 0xffffff;
}

int verbs_endpoint_prepare(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	int error;

	limit_inline(endpoint);
	endpoint->own_psn = any_psn();
	atomic_store_explicit(&endpoint->stopped, false, memory_order_relaxed);
	if (!endpoint->was_connected && endpoint->qp->state == IBV_QPS_RESET && !move_to_init(endpoint))
		return 0;
	error = replace_qp(endpoint);
	/* There may be as many as there can be, and no room for one more: then the former has to do. */
	if (error && endpoint->was_connected && !change_state(endpoint, IBV_QPS_RESET))
		error = 0;
	return error ? error : move_to_init(endpoint);
}

/*
 * Only for soft-RoCE. It still works on a message after the message's completion. If the queue pair is reset then, the
 * kernel frees the message twice. When soft-RoCE flushes a receive it has finished all messages. So if no flush of
 * another receive is outstanding, one receive is posted, and its flush is the end. It is posted only now, so that no
 * message takes it. The second change to ERR flushes it.
 */
static void drain_qp(struct verbs_endpoint *endpoint)
{
	struct ibv_recv_wr *bad, last = {
		.wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed) |
			 VERBS_WR_ID_DRAIN,
	};
	struct cq *cq = endpoint->wanted_qp.recv_cq->cq_context;
	int64_t deadline = clock_nsec() + DRAIN_NSEC;

	atomic_store_explicit(&endpoint->drained, false, memory_order_relaxed);
	if (ibv_post_recv(endpoint->qp, &last, &bad) || change_state(endpoint, IBV_QPS_ERR))
		return;
	do
		cq_poll_for_device(cq);
	while (!atomic_load_explicit(&endpoint->drained, memory_order_relaxed) &&
	       clock_nsec() < deadline && !sched_yield());
}

void verbs_endpoint_stop(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	atomic_store_explicit(&endpoint->stopped, true, memory_order_relaxed);
	if (!change_state(endpoint, IBV_QPS_ERR) && verbs_is_soft(endpoint->device) &&
	    !workqueue_with_device(endpoint->receive_queue))
		drain_qp(endpoint);
}

/*
 * Soft-RoCE has been seen to crash when a message came during the change from ERR to RESET. Without it there is
 * no harm: what is in ERR does nothing, and this queue pair is going to be replaced or destroyed.
 */
void verbs_endpoint_reset(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	bool stays_in_error = verbs_is_soft(endpoint->device) && endpoint->was_connected;

	verbs_route_forget(endpoint);
	if (!stays_in_error)
		change_state(endpoint, IBV_QPS_RESET);
	disown_completions(endpoint); /* the receives that are flushed now stay posted */
	/* It was not stopped if its connection did not come about. A flush is no error from now on. */
	if (stays_in_error && !atomic_exchange_explicit(&endpoint->stopped, true, memory_order_relaxed) &&
	    !change_state(endpoint, IBV_QPS_ERR))
		drain_qp(endpoint);
	staging_forget(endpoint);
}

/*
 * Soft-RoCE of newer kernels (seen in Linux 6.12) works on acknowledgements behind the arrival of packets, and drops
 * those that it has not got to when the queue pair changes to ERR. So what the peer has received before it
 * disconnected would be flushed.
 */
bool verbs_awaits_acks(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	return verbs_is_soft(endpoint->device) && !verbs_is_unreliable(endpoint) &&
	       workqueue_with_device(endpoint->send_queue);
}

static bool has_stalled(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr attributes;

	return !ibv_query_qp(endpoint->qp, &attributes, IBV_QP_STATE, &unused) &&
	       attributes.qp_state == IBV_QPS_ERR;
}

/* Soft-RoCE may still be at a message that is an error, and change to ERR behind the change to RESET. */
int verbs_endpoint_rewind(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	unsigned tries = 0;
	int error;

	do {
		error = change_state(endpoint, IBV_QPS_ERR);
		if (!error)
			error = change_state(endpoint, IBV_QPS_RESET);
		next_generation(endpoint);
		if (error)
			break;
		error = move_to_init(endpoint);
	} while (error && ++tries < REWINDS && has_stalled(endpoint));
	if (error)
		log_error_ratelimited("queue pair %u: cannot begin anew after an error: %s", endpoint->qp->qp_num,
				      strerror(error));
	return error;
}

int verbs_endpoint_resume(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	int error = verbs_endpoint_start(endpoint);

	if (error && has_stalled(endpoint))
		return 0; /* again, by a message that came before RTS: a completion tells of it */
	if (error)
		log_error_ratelimited("queue pair %u: cannot go on after an error: %s", endpoint->qp->qp_num,
				      strerror(error));
	return error;
}
