/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, and their states. */
#include <errno.h>
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

#define ANSWER_NSEC NSEC_PER_SEC /* a device may take to answer */
#define REWINDS	    8u /* tries: each fails only if a message comes at that moment */

static void limit_inline(struct verbs_endpoint *endpoint)
{
	endpoint->is_careful = own_memory_may_be_protected();
	endpoint->inline_most = endpoint->is_careful ? 0 : endpoint->inline_size;
}

static int create_qp(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_init_attr attributes = endpoint->wanted_qp;
	struct ibv_qp *qp;

	errno = 0; /* which some providers do not set */
	qp = ibv_create_qp(endpoint->domain->pd, &attributes);
	if (!qp) {
		int error = errno ? errno : EINVAL;

		log_error("cannot create a queue pair: %s", failure_of("ibv_create_qp()", error));
		return error;
	}
	endpoint->qp = qp;
	endpoint->qp->qp_context = endpoint;
	/* The device may give more; docs/PORTING.md says how much of a message is read when it is posted. */
	endpoint->inline_size = verbs_lower(endpoint->device->caps.inline_bytes, (int)attributes.cap.max_inline_data);
	limit_inline(endpoint);
	endpoint->send_segments = verbs_lower(VERBS_SEND_SEGMENTS, (int)attributes.cap.max_send_sge);
	endpoint->fewest_segments = verbs_lower(endpoint->send_segments, (int)endpoint->device->caps.read_segments);
	verbs_limit_requests(endpoint, UINT32_MAX);
	endpoint->receive_segments = attributes.cap.max_recv_sge;
	return 0;
}

/*
 * Zeroed memory, except for the tag, by which completions of an earlier endpoint in this memory are told apart. The memory
 * that has been unused for longest is taken first.
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
	memset(&endpoint->fewest_segments, 0,
	       sizeof(*endpoint) - offsetof(struct verbs_endpoint, fewest_segments));
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
	config->send_depth = verbs_lower(config->send_depth, device->limits.max_qp_wr);
	config->receive_depth = verbs_lower(config->receive_depth, device->limits.max_qp_wr);
	endpoint->device = device;
	endpoint->vi = config->vi;
	endpoint->access = (unsigned)verbs_remote_access(config->rights);
	if (config->reliability == VIP_SERVICE_RELIABLE_RECEPTION)
		endpoint->access |= IBV_ACCESS_REMOTE_ATOMIC; /* of verbs_flush.c */
	endpoint->send_queue = config->send_queue;
	endpoint->receive_queue = config->receive_queue;
	endpoint->domain = (struct verbs_domain *)config->domain;
	TAILQ_INIT(&endpoint->staged[false]);
	TAILQ_INIT(&endpoint->staged[true]);
	endpoint->wanted_qp = (struct ibv_qp_init_attr){
		.send_cq = ((struct verbs_cq *)config->send_cq)->cq,
		.recv_cq = ((struct verbs_cq *)config->receive_cq)->cq,
		.cap = {.max_send_wr = config->send_depth,
			.max_recv_wr = config->receive_depth,
			.max_send_sge = device->caps.send_segments,
			.max_recv_sge = device->caps.receive_segments,
			.max_inline_data = device->caps.inline_bytes},
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

/* To ERR or RESET. */
static int change_state(struct verbs_endpoint *endpoint, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = {.qp_state = state};
	int error = ibv_modify_qp(endpoint->qp, &attributes, IBV_QP_STATE);

	if (error)
		log_error_ratelimited("queue pair %u: no change to state %s: %s", endpoint->qp->qp_num,
				      state == IBV_QPS_ERR ? "ERR" : "RESET", failure_of("ibv_modify_qp()", error));
	return error;
}

/* From now on completions of work that was posted before are ignored. */
static void disown_completions(struct verbs_endpoint *endpoint)
{
	uint64_t wr_id_tag = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed);
	uint64_t generation = (wr_id_tag + VERBS_WR_ID_GENERATION) & VERBS_WR_ID_BITS;

	atomic_store_explicit(&endpoint->wr_id_tag, (uintptr_t)endpoint | generation,
			      memory_order_relaxed);
}

/* Forgets work that was posted before. */
static void next_generation(struct verbs_endpoint *endpoint)
{
	disown_completions(endpoint);
	staging_forget(endpoint);
}

/* Takes what is in the CQ, and no more than it has room for. */
static void take_all(struct ibv_cq *cq)
{
	int most;

	cq_lock(cq->cq_context); /* another thread may let it grow */
	most = cq->cqe;
	cq_unlock(cq->cq_context);
	while (most-- > 0 && cq_poll_for_device(cq->cq_context))
		;
}

/* Some devices, as soft-RoCE and qedr, leave the completions of a destroyed queue pair in the CQs. */
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

	destroy_qp(endpoint, endpoint->qp);
	verbs_flush_destroy(endpoint);
	STAILQ_INSERT_TAIL(&endpoint->device->unused_endpoints, endpoint, in_unused);
}

static int move_to_init(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
					 .port_num = endpoint->device->port,
					 .qp_access_flags = endpoint->access};

	return cause("ibv_modify_qp()", ibv_modify_qp(endpoint->qp, &attributes,
						      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/*
 * A queue pair that was connected is not used for another connection. Soft-RoCE does not forget a read that it was answering,
 * and takes the first request of the next connection for a part of it. Some devices cannot use a queue pair again that was
 * in ERR, although they say RESET. And a peer that has not yet noticed the end refuses a queue pair that it knows.
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

/* A random PSN, so that late packets of an earlier connection do not fit. */
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
	endpoint->cause = VIP_ERROR_CONN_LOST;
	endpoint->answers_until = endpoint->drains_until = 0;
	atomic_store_explicit(&endpoint->refuses, false, memory_order_relaxed);
	atomic_store_explicit(&endpoint->fails, false, memory_order_relaxed);
	atomic_store_explicit(&endpoint->stopped, false, memory_order_relaxed);
	if (!endpoint->was_connected && endpoint->qp->state == IBV_QPS_RESET && !move_to_init(endpoint))
		return 0;
	error = replace_qp(endpoint);
	/* If the device has no room for one more queue pair, the former one has to do. */
	if (error && endpoint->was_connected && !change_state(endpoint, IBV_QPS_RESET))
		error = 0;
	return error ? error : move_to_init(endpoint);
}

/* Also if the device cannot tell, as mana. */
static bool is_in_error(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_init_attr unused;
	struct ibv_qp_attr attributes;

	return ibv_query_qp(endpoint->qp, &attributes, IBV_QP_STATE, &unused) || attributes.qp_state == IBV_QPS_ERR;
}

/* The device has told that a request of the peer's was at fault, and of no error of our own. */
static bool has_refused(const struct verbs_endpoint *endpoint)
{
	return !verbs_is_unreliable(endpoint) && atomic_load_explicit(&endpoint->refuses, memory_order_relaxed) &&
	       !atomic_load_explicit(&endpoint->fails, memory_order_relaxed);
}

/*
 * A device may tell of an error before it has answered the request at fault, as soft-RoCE does (by events since Linux 7.2, and
 * by the completion of a receive). It does not answer in ERR, and the peer would not learn what was wrong. So the queue pair
 * goes to ERR by itself, which takes a device no longer than its answer.
 */
static bool has_answered(struct verbs_endpoint *endpoint)
{
	if (endpoint->device->hears) /* an event has led here, and the cause may be the next one */
		return false;
	verbs_hear(endpoint->device); /* or it may have come behind its consequences */
	if (!has_refused(endpoint) || is_in_error(endpoint))
		return true;
	if (!endpoint->answers_until)
		endpoint->answers_until = clock_nsec() + ANSWER_NSEC;
	return !deadline_left(endpoint->answers_until);
}

bool verbs_endpoint_is_still(struct device_endpoint *base, bool stops)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (stops && !atomic_load_explicit(&endpoint->stopped, memory_order_relaxed))
		return has_answered(endpoint);
	if (!soft_stays_in_error(endpoint))
		return true;
	/* From now on a flush is no error. */
	if (!stops && !atomic_exchange_explicit(&endpoint->stopped, true, memory_order_relaxed)) {
		disown_completions(endpoint); /* the receives that are flushed now stay posted */
		if (!change_state(endpoint, IBV_QPS_ERR))
			soft_drain(endpoint);
	}
	return soft_has_drained(endpoint);
}

void verbs_endpoint_stop(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (has_refused(endpoint))
		vi_answered(endpoint->vi);
	if (endpoint->cause != VIP_ERROR_CONN_LOST)
		vi_ends_for(endpoint->vi, endpoint->cause);
	atomic_store_explicit(&endpoint->stopped, true, memory_order_relaxed);
	if (!change_state(endpoint, IBV_QPS_ERR))
		soft_drain_without_receives(endpoint);
}

void verbs_endpoint_reset(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (!soft_stays_in_error(endpoint))
		change_state(endpoint, IBV_QPS_RESET);
	next_generation(endpoint);
}

/*
 * What the peer has answered may come behind the word of its end. Soft-RoCE of newer kernels (seen in Linux 6.12) also queues
 * acknowledgements, and drops those that are queued when the queue pair changes to ERR.
 */
bool verbs_awaits_acks(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	return !verbs_is_unreliable(endpoint) && workqueue_with_device(endpoint->send_queue);
}

/*
 * Soft-RoCE may still be working on a message with an error, and change to ERR after the change to RESET.
 *
 * Our GID may have another index by now, or be gone for a while. Until it is back the queue pair stays in ERR, where sends are
 * lost, as those on a broken wire.
 */
int verbs_endpoint_rewind(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	struct verbs_path now = endpoint->path;
	unsigned tries = 0;
	int error = verbs_path_complete(endpoint->device, &now);

	if (!error && now.own_lid != endpoint->path.own_lid)
		return cause("the port's LID, to which the peer sends", EADDRNOTAVAIL);
	if (!error)
		endpoint->path = now;
	endpoint->is_adrift = error == ENODEV || error == EPROTO;
	if (endpoint->is_adrift && !change_state(endpoint, IBV_QPS_ERR)) {
		next_generation(endpoint);
		return EAGAIN;
	}
	do {
		error = change_state(endpoint, IBV_QPS_ERR);
		if (!error)
			error = change_state(endpoint, IBV_QPS_RESET);
		next_generation(endpoint);
		if (error)
			break;
		error = move_to_init(endpoint);
	} while (error && ++tries < REWINDS && is_in_error(endpoint));
	if (error)
		log_error_ratelimited("queue pair %u: cannot begin anew after an error: %s", endpoint->qp->qp_num,
				      failure_of("ibv_modify_qp()", error));
	return error;
}

int verbs_endpoint_resume(struct device_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	int error = verbs_endpoint_start(endpoint);

	if (error && is_in_error(endpoint))
		return 0; /* a message that came before RTS has stopped it again, and a completion will tell */
	if (error)
		log_error_ratelimited("queue pair %u: cannot go on after an error: %s", endpoint->qp->qp_num,
				      failure_of("ibv_modify_qp()", error));
	return error;
}
