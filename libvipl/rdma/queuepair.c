/* Queue pairs: their states, posting, and what completions mean in VIA's terms. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "log.h"
#include "rdma.h"

/* Asked for, in bytes: what is sent inline the device need not fetch. It may give more, or none. */
#define INLINE_SIZE 128u

/* Peers gone without a word are noticed after some 4.096 us * 2^16 * (6 + 1) = 2 s. */
#define ACK_TIMEOUT 16
#define ACK_RETRIES 6 /* 7 means for ever on some devices */

/* Waited at most for a queue pair to come to rest. */
#define REST_NSEC 100000000

static_assert(sizeof(struct segment) == sizeof(struct ibv_sge) &&
	      offsetof(struct segment, address) == offsetof(struct ibv_sge, addr) &&
	      offsetof(struct segment, length) == offsetof(struct ibv_sge, length) &&
	      offsetof(struct segment, key) == offsetof(struct ibv_sge, lkey),
	      "segments are passed on as they are");

static unsigned lower(unsigned a, int b)
{
	return b > 0 && (unsigned)b < a ? (unsigned)b : a;
}

/* 0 or errno. */
static int create_qp(struct rdma_endpoint *endpoint)
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
	endpoint->request_segments = lower(RDMA_SEND_SEGMENTS, (int)attributes.cap.max_send_sge);
	endpoint->request_segments =
		lower(endpoint->request_segments, endpoint->device->limits.max_sge_rd);
	endpoint->request_bytes = UINT32_MAX;
	endpoint->receive_segments = attributes.cap.max_recv_sge;
	return 0;
}

struct device_endpoint *rdma_endpoint_create(struct device *base, struct endpoint_config *config)
{
	struct rdma_device *device = (struct rdma_device *)base;
	size_t size = (sizeof(struct rdma_endpoint) + RDMA_ENDPOINT_ALIGNMENT - 1) &
		      ~(size_t)(RDMA_ENDPOINT_ALIGNMENT - 1);
	struct rdma_endpoint *endpoint = aligned_alloc(RDMA_ENDPOINT_ALIGNMENT, size);

	if (!endpoint)
		return NULL;
	memset(endpoint, 0, sizeof(*endpoint));
	config->send_depth = lower(config->send_depth, device->limits.max_qp_wr);
	config->receive_depth = lower(config->receive_depth, device->limits.max_qp_wr);
	endpoint->role = RDMA_ENDPOINT;
	endpoint->device = device;
	endpoint->vi = config->vi;
	endpoint->access = config->rights.rdma_write ? IBV_ACCESS_REMOTE_WRITE : 0;
	endpoint->access |= config->rights.rdma_read ? IBV_ACCESS_REMOTE_READ : 0;
	if (config->reliability == VIP_SERVICE_RELIABLE_RECEPTION)
		endpoint->access |= IBV_ACCESS_REMOTE_ATOMIC; /* to the mark */
	endpoint->send_queue = config->send_queue;
	endpoint->receive_queue = config->receive_queue;
	endpoint->cookie = (uintptr_t)endpoint;
	endpoint->domain = (struct rdma_domain *)config->domain;
	TAILQ_INIT(&endpoint->staged_sends);
	TAILQ_INIT(&endpoint->staged_receives);
	endpoint->wanted_qp = (struct ibv_qp_init_attr){
		.send_cq = (struct ibv_cq *)config->send_cq,
		.recv_cq = (struct ibv_cq *)config->receive_cq,
		.cap = {.max_send_wr = config->send_depth,
			.max_recv_wr = config->receive_depth,
			.max_send_sge = lower(RDMA_SEND_SEGMENTS, device->limits.max_sge),
			.max_recv_sge = lower(RDMA_RECEIVE_SEGMENTS, device->limits.max_sge),
			.max_inline_data = INLINE_SIZE},
		.qp_type = config->reliability == VIP_SERVICE_UNRELIABLE ? IBV_QPT_UC : IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	if (create_qp(endpoint))
		goto free_endpoint;
	if (config->reliability != VIP_SERVICE_RELIABLE_RECEPTION || !rdma_mark_create(endpoint))
		return (struct device_endpoint *)endpoint;
	ibv_destroy_qp(endpoint->qp);
free_endpoint:
	free(endpoint);
	return NULL;
}

void rdma_endpoint_destroy(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	rdma_hang_up(base);
	ibv_destroy_qp(endpoint->qp);
	staging_forget(endpoint);
	rdma_mark_destroy(endpoint);
	free(endpoint);
}

static int move_to(struct rdma_endpoint *endpoint, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = {.qp_state = state};
	int error = ibv_modify_qp(endpoint->qp, &attributes, IBV_QP_STATE);

	if (error)
		log_error("queue pair %u: no change to state %d: %s", endpoint->qp->qp_num, state,
			  strerror(error));
	return error;
}

/* What was posted before is forgotten: completions of it mean nothing from now on. */
static void next_generation(struct rdma_endpoint *endpoint)
{
	uint64_t cookie = atomic_load_explicit(&endpoint->cookie, memory_order_relaxed);
	uint64_t generation = (cookie + RDMA_COOKIE_GENERATION) & RDMA_COOKIE_BITS;

	atomic_store_explicit(&endpoint->cookie, (uintptr_t)endpoint | generation,
			      memory_order_relaxed);
	staging_forget(endpoint);
}

static int move_to_init(struct rdma_endpoint *endpoint)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
					 .port_num = endpoint->device->port,
					 .qp_access_flags = endpoint->access};

	return ibv_modify_qp(endpoint->qp, &attributes,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Some devices cannot use a queue pair again once it was in ERR, although they say RESET. */
static int replace_qp(struct rdma_endpoint *endpoint)
{
	struct ibv_qp *former = endpoint->qp;
	int error = create_qp(endpoint);

	if (error)
		return error;
	ibv_destroy_qp(former);
	next_generation(endpoint);
	return 0;
}

int rdma_endpoint_prepare(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;
	int error;

	/* Of a new attempt to connect, which may take several looks, nothing is known yet. */
	endpoint->probe = 0;
	endpoint->nobody = false;
	atomic_store_explicit(&endpoint->stopped, false, memory_order_relaxed);
	if (endpoint->qp->state == IBV_QPS_RESET && !move_to_init(endpoint))
		return 0;
	error = replace_qp(endpoint);
	return error ? error : move_to_init(endpoint);
}

/*
 * Soft-RoCE goes on with a message after it has told that the message has come, and frees it twice
 * when the queue pair is reset meanwhile. When it flushes a receive it is over with all messages. So
 * where no other receive's flush is waited for, one is posted to know when. Only now, lest a message takes
 * it; and a second time ERR, since there such a receive is flushed by that.
 */
static void come_to_rest(struct rdma_endpoint *endpoint)
{
	struct ibv_recv_wr *bad, last = {
		.wr_id = atomic_load_explicit(&endpoint->cookie, memory_order_relaxed) |
			 RDMA_COOKIE_LAST,
	};
	struct cq *cq = endpoint->wanted_qp.recv_cq->cq_context;
	int64_t deadline = clock_nsec() + REST_NSEC;

	atomic_store_explicit(&endpoint->at_rest, false, memory_order_relaxed);
	if (ibv_post_recv(endpoint->qp, &last, &bad) || move_to(endpoint, IBV_QPS_ERR))
		return;
	do
		cq_poll_for_device(cq);
	while (!atomic_load_explicit(&endpoint->at_rest, memory_order_relaxed) &&
	       clock_nsec() < deadline && !sched_yield());
}

void rdma_endpoint_stop(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	atomic_store_explicit(&endpoint->stopped, true, memory_order_relaxed);
	if (!move_to(endpoint, IBV_QPS_ERR) && !workqueue_with_device(endpoint->receive_queue))
		come_to_rest(endpoint);
}

void rdma_endpoint_reset(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	move_to(endpoint, IBV_QPS_RESET);
	next_generation(endpoint);
}

int rdma_endpoint_rewind(struct device_endpoint *base)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;
	int error = move_to(endpoint, IBV_QPS_ERR);

	if (!error)
		error = move_to(endpoint, IBV_QPS_RESET);
	next_generation(endpoint);
	if (!error)
		error = move_to_init(endpoint);
	return error;
}

/* Of what rdma_cm says, as for RC, all that a UC queue pair has. */
#define UC_ATTRIBUTES                                                                             \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |           \
	 IBV_QP_SQ_PSN)

/* What rdma_cm says for this state. */
static int learn(struct rdma_endpoint *endpoint, enum ibv_qp_state state,
		 struct ibv_qp_attr *attributes, int *mask)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->qp_state = state;
	if (!rdma_init_qp_attr(endpoint->id, attributes, mask)) {
		if (rdma_is_unreliable(endpoint) && state != IBV_QPS_INIT)
			*mask &= UC_ATTRIBUTES;
		return 0;
	}
	return errno == EINVAL ? ECONNABORTED : errno;
}

/* The connection may be in a partition that was not known when the queue pair was prepared. */
static int enter_partition(struct rdma_endpoint *endpoint)
{
	struct ibv_qp_attr attributes;
	int mask, error = learn(endpoint, IBV_QPS_INIT, &attributes, &mask);

	if (error || (!attributes.pkey_index && attributes.port_num == endpoint->device->port))
		return error;
	attributes.qp_access_flags = endpoint->access;
	return ibv_modify_qp(endpoint->qp, &attributes, mask);
}

/* At least one: the peer refuses a read if it has none, but with 0 the read would wait for ever. */
static uint8_t clamp(uint8_t value, int limit)
{
	if (limit >= 0 && value > limit)
		return (uint8_t)limit;
	return value || limit <= 0 ? value : 1;
}

int rdma_endpoint_start(struct rdma_endpoint *endpoint)
{
	const struct ibv_device_attr *limits = &endpoint->device->limits;
	struct ibv_qp_attr attributes;
	int mask, error = enter_partition(endpoint);

	if (!error)
		error = learn(endpoint, IBV_QPS_RTR, &attributes, &mask);
	if (error)
		return error;
	/* The peer's wishes; librdmacm would cut them down for a queue pair of its own. */
	attributes.max_dest_rd_atomic = clamp(attributes.max_dest_rd_atomic, limits->max_qp_rd_atom);
	error = ibv_modify_qp(endpoint->qp, &attributes, mask);
	if (error)
		return error;
	if (rdma_is_unreliable(endpoint))
		endpoint->request_bytes = rdma_unreliable_request(endpoint, attributes.path_mtu);

	error = learn(endpoint, IBV_QPS_RTS, &attributes, &mask);
	if (error)
		return error;
	attributes.max_rd_atomic = clamp(attributes.max_rd_atomic, limits->max_qp_init_rd_atom);
	attributes.timeout = ACK_TIMEOUT;
	attributes.retry_cnt = ACK_RETRIES;
	attributes.rnr_retry = 0; /* VIA: a message without a receive breaks the connection */
	return ibv_modify_qp(endpoint->qp, &attributes, mask);
}

static bool is_rdma(const struct device_send *send)
{
	return (send->control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_SENDRECV;
}

/*
 * Shall it wait for reads? On UC there are none. What they bring may be what is sent: it must not
 * be fetched when it is posted, as inline data is.
 */
static bool is_fenced(const struct rdma_endpoint *endpoint, const struct device_send *send)
{
	return send->control & VIP_CONTROL_QFENCE && !rdma_is_unreliable(endpoint);
}

static bool is_read(const struct device_send *send)
{
	return (send->control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAREAD;
}

/*
 * One request, for what `segments` and `length` say of the send. `kind`: RDMA_COOKIE_PART or
 * RDMA_COOKIE_STAGED. All requests are signalled: each takes a place in the CQ, and what is done is
 * known one by one.
 */
static inline int post_request(struct rdma_endpoint *endpoint, const struct device_send *send,
			       const struct segment *segments, unsigned count, uint32_t length,
			       uint64_t kind)
{
	bool immediate = send->control & VIP_CONTROL_IMMEDIATE && !(kind & RDMA_COOKIE_PART);
	struct ibv_send_wr *bad, request = {
		.wr_id = atomic_load_explicit(&endpoint->cookie, memory_order_relaxed) | kind,
		.sg_list = (struct ibv_sge *)segments,
		.num_sge = (int)count,
		.imm_data = htonl(send->immediate),
	};

	if (rdma_is_marked(endpoint, send))
		request.wr_id |= RDMA_COOKIE_PART;
	if (is_rdma(send)) {
		request.wr_id |= RDMA_COOKIE_RDMA;
		request.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		if (is_read(send))
			request.opcode = IBV_WR_RDMA_READ;
		request.wr.rdma.remote_addr = send->remote_address + send->offset;
		request.wr.rdma.rkey = send->remote_handle;
	} else {
		request.opcode = immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	}
	if (is_fenced(endpoint, send))
		request.send_flags = IBV_SEND_FENCE;
	else if (length <= endpoint->inline_size && !is_read(send))
		request.send_flags = IBV_SEND_INLINE;
	return ibv_post_send(endpoint->qp, &request, &bad);
}

/* The segments of what comes next, as much as one request takes. Returns how many bytes that is. */
static uint32_t cut(const struct rdma_endpoint *endpoint, const struct device_send *send,
		    struct segment *segments, unsigned *count)
{
	uint32_t skip = send->offset, length = 0;

	*count = 0;
	for (unsigned i = 0; i < send->count && *count < endpoint->request_segments &&
			     length < endpoint->request_bytes;
	     i++) {
		struct segment rest = send->segments[i];

		if (skip >= rest.length) {
			skip -= rest.length;
			continue;
		}
		rest.address += skip;
		rest.length -= skip;
		skip = 0;
		if (rest.length > endpoint->request_bytes - length)
			rest.length = endpoint->request_bytes - length;
		segments[(*count)++] = rest;
		length += rest.length;
	}
	return length;
}

/* All data of the send is posted, `length` bytes just now: the mark, if it takes one. */
static inline int finish(struct rdma_endpoint *endpoint, const struct device_send *send,
			 uint32_t length)
{
	if (!rdma_is_marked(endpoint, send))
		return 0;
	return workqueue_next_part(endpoint->send_queue, length) ? rdma_mark_post(endpoint)
								 : EINPROGRESS;
}

/* An RDMA operation in several requests, or what is left of it. */
static int post_parts(struct rdma_endpoint *endpoint, struct device_send send)
{
	for (;;) {
		struct segment segments[RDMA_SEND_SEGMENTS];
		unsigned count;
		uint32_t length = cut(endpoint, &send, segments, &count);
		bool is_last = length >= send.length - send.offset;
		int error;

		if (!length) /* the program has changed the descriptor since */
			return EINVAL;
		error = post_request(endpoint, &send, segments, count, length,
				     is_last ? 0 : RDMA_COOKIE_PART);
		if (error || is_last)
			return error ? error : finish(endpoint, &send, length);
		send.offset += length;
		if (!workqueue_next_part(endpoint->send_queue, length))
			return EINPROGRESS;
	}
}

/* In one request, out of a buffer. */
static int post_staged_send(struct rdma_endpoint *endpoint, const struct device_send *send)
{
	int error = EFAULT; /* deregistered since the descriptor was read */
	struct rdma_buffer *buffer;

	/* It is fetched now, and what the reads before it bring may be what is sent. */
	if (is_fenced(endpoint, send) && !workqueue_is_idle(endpoint->send_queue))
		return EAGAIN;
	buffer = staging_take(endpoint->domain, &endpoint->staged_sends, send->length);
	if (!buffer)
		return ENOBUFS;
	if (workqueue_gather(endpoint->send_queue, staging_data(buffer), send->length))
		error = post_request(endpoint, send, &buffer->segment, 1, send->length,
				     RDMA_COOKIE_STAGED);
	if (error)
		staging_return(&endpoint->staged_sends, buffer);
	return error;
}

int rdma_post_send(struct device_endpoint *base, const struct device_send *send)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;
	bool many = send->count > endpoint->request_segments;
	int error;

	if (rdma_is_marked(endpoint, send) && send->offset == send->length)
		return rdma_mark_post(endpoint);
	/* The target of a write with immediate data is told the length of one request. */
	if (many && (!is_rdma(send) || (send->control & VIP_CONTROL_IMMEDIATE &&
					send->length <= endpoint->request_bytes)))
		error = post_staged_send(endpoint, send);
	else if (is_rdma(send) && (many || send->length > endpoint->request_bytes || send->offset))
		return post_parts(endpoint, *send);
	else
		error = post_request(endpoint, send, send->segments, send->count, send->length, 0);
	return error ? error : finish(endpoint, send, send->length);
}

static int post_receive(struct rdma_endpoint *endpoint, const struct segment *segments,
			unsigned count, uint64_t kind)
{
	struct ibv_recv_wr *bad, request = {
		.wr_id = atomic_load_explicit(&endpoint->cookie, memory_order_relaxed) |
			 RDMA_COOKIE_RECEIVE | kind,
		.sg_list = (struct ibv_sge *)segments,
		.num_sge = (int)count,
	};

	return ibv_post_recv(endpoint->qp, &request, &bad);
}

/* Into a buffer as large as all segments together, since a message may come that is. */
static int post_staged_receive(struct rdma_endpoint *endpoint, const struct segment *segments,
			       unsigned count)
{
	struct rdma_buffer *buffer;
	uint32_t room = 0;
	int error;

	for (unsigned i = 0; i < count; i++)
		room += segments[i].length;
	buffer = staging_take(endpoint->domain, &endpoint->staged_receives, room);
	if (!buffer)
		return ENOBUFS;
	error = post_receive(endpoint, &buffer->segment, 1, RDMA_COOKIE_STAGED);
	if (error)
		staging_return(&endpoint->staged_receives, buffer);
	return error;
}

int rdma_post_receive(struct device_endpoint *base, const struct segment *segments, unsigned count)
{
	struct rdma_endpoint *endpoint = (struct rdma_endpoint *)base;

	if (count > endpoint->receive_segments)
		return post_staged_receive(endpoint, segments, count);
	return post_receive(endpoint, segments, count, 0);
}

/* The error bit of VIA that a failed work request gets. Devices differ in the details. */
static uint32_t error_bit(enum ibv_wc_status status, bool is_receive, bool is_rdma)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return VIP_STATUS_DESC_FLUSHED_ERROR;
	case IBV_WC_LOC_LEN_ERR:
		return VIP_STATUS_LENGTH_ERROR;
	case IBV_WC_LOC_QP_OP_ERR:
		/* rxe: for a message that is too long for the receive; for a bad key of a send. */
		return is_receive ? VIP_STATUS_LENGTH_ERROR : VIP_STATUS_PROTECTION_ERROR;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return VIP_STATUS_PROTECTION_ERROR;
	case IBV_WC_REM_ACCESS_ERR:
		return VIP_STATUS_RDMA_PROT_ERROR;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		/* A VI that does not allow RDMA at all; a receive that is too short. */
		return is_rdma ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_REMOTE_DESC_ERROR;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return VIP_STATUS_REMOTE_DESC_ERROR;
	default:
		return VIP_STATUS_TRANSPORT_ERROR;
	}
}

/* What is not one request for one descriptor. False when that was all there is to it. */
static bool completes_descriptor(struct rdma_endpoint *endpoint, const struct ibv_wc *completion,
				 uint32_t *status)
{
	if ((completion->wr_id & RDMA_COOKIE_KIND) == RDMA_COOKIE_LAST) {
		atomic_store_explicit(&endpoint->at_rest, true, memory_order_relaxed);
		return false;
	}
	if (completion->wr_id & RDMA_COOKIE_STAGED && !staging_done(endpoint, completion))
		*status = VIP_STATUS_PROTECTION_ERROR;
	if (!(completion->wr_id & RDMA_COOKIE_PART))
		return true;
	workqueue_part_done(endpoint->send_queue, *status);
	return false;
}

/* wc.opcode may be read of successful ones only. */
static void report(const struct ibv_wc *completion)
{
	bool is_receive = completion->wr_id & RDMA_COOKIE_RECEIVE;
	struct rdma_endpoint *endpoint =
		(struct rdma_endpoint *)(uintptr_t)(completion->wr_id & ~RDMA_COOKIE_BITS);
	uint32_t status = error_bit(completion->status, is_receive,
				    completion->wr_id & RDMA_COOKIE_RDMA);
	uint32_t length = 0, immediate = 0;

	if ((completion->wr_id ^ atomic_load_explicit(&endpoint->cookie, memory_order_relaxed)) &
	    ~RDMA_COOKIE_KIND)
		return; /* from before a reset: that work was flushed then */
	if (status && rdma_is_unreliable(endpoint) &&
	    !rdma_unreliable_error(endpoint, is_receive, &status))
		return;
	if (completion->wr_id & (RDMA_COOKIE_PART | RDMA_COOKIE_STAGED) &&
	    !completes_descriptor(endpoint, completion, &status))
		return;
	if (!status && is_receive) {
		length = completion->byte_len;
		if (completion->wc_flags & IBV_WC_WITH_IMM) {
			status |= VIP_STATUS_IMMEDIATE;
			immediate = ntohl(completion->imm_data);
		}
		if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			status |= VIP_STATUS_OP_REMOTE_RDMA_WRITE;
	}
	workqueue_complete(is_receive ? endpoint->receive_queue : endpoint->send_queue, status, length,
			   immediate);
}

int rdma_cq_poll(struct device_cq *base)
{
	struct ibv_wc completions[16];
	int count = ibv_poll_cq((struct ibv_cq *)base, 16, completions);

	for (int i = 0; i < count; i++)
		report(&completions[i]);
	return count;
}
