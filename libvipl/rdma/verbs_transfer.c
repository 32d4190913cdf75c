/* SPDX-License-Identifier: BSD-2-Clause */
/* Moving data: posts sends and receives as work requests, and reports work completions. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/log.h"
#include "span.h"
#include "rdma.h"

static_assert(sizeof(struct segment) == sizeof(struct ibv_sge) &&
	      offsetof(struct segment, address) == offsetof(struct ibv_sge, addr) &&
	      offsetof(struct segment, length) == offsetof(struct ibv_sge, length) &&
	      offsetof(struct segment, key) == offsetof(struct ibv_sge, lkey),
	      "segments are passed on as they are");

static bool is_rdma(const struct device_send *send)
{
	return (send->control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_SENDRECV;
}

/*
 * Returns true if the send has to wait for earlier RDMA reads, of which UC has none. The reads may bring the data that
 * is sent, so it must not be inline: inline data is fetched when it is posted.
 */
static bool is_fenced(const struct verbs_endpoint *endpoint, const struct device_send *send)
{
	return send->control & VIP_CONTROL_QFENCE && !verbs_is_unreliable(endpoint);
}

static bool is_read(const struct device_send *send)
{
	return (send->control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAREAD;
}

void verbs_limit_requests(struct verbs_endpoint *endpoint, uint32_t bytes)
{
	endpoint->request_bytes = bytes;
	endpoint->whole_bytes = soft_whole_bytes(endpoint->device, bytes);
}

/* Inline data is read by this thread, which may fault where an adapter does not: own_memory.h. */
static inline bool may_inline(const struct verbs_endpoint *endpoint, const struct device_send *send, uint32_t length)
{
	return (length | send->by_library) <= endpoint->inline_most;
}

/* Posts a message in one request, as most are. */
static inline int post_message(struct verbs_endpoint *endpoint, const struct device_send *send)
{
	struct ibv_send_wr *request = &endpoint->send_request;

	request->wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed);
	request->sg_list = (struct ibv_sge *)send->segments;
	request->num_sge = (int)send->count;
	request->opcode = IBV_WR_SEND;
	request->send_flags = may_inline(endpoint, send, send->length) ? IBV_SEND_INLINE : 0;
	return ibv_post_send(endpoint->qp, request, &endpoint->bad_send);
}

/*
 * Posts one request for a part of the send or for all of it: `length` bytes, in `segments`. `kind`: VERBS_WR_ID_PART,
 * VERBS_WR_ID_STAGED or 0. All requests are signalled, so each takes a place in the CQ and has its own completion.
 */
static inline int post_request(struct verbs_endpoint *endpoint, const struct device_send *send,
			       const struct segment *segments, unsigned count, uint32_t length,
			       uint64_t kind)
{
	bool immediate = send->control & VIP_CONTROL_IMMEDIATE && !(kind & VERBS_WR_ID_PART);
	uint64_t part = verbs_is_flushed_by_atomic(endpoint, send) ? VERBS_WR_ID_PART : 0;
	struct ibv_send_wr *request = &endpoint->send_request;

	/* The other members are for other operations. There is never a next request. */
	request->wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed) | kind |
			part;
	request->sg_list = (struct ibv_sge *)segments;
	request->num_sge = (int)count;
	request->send_flags = 0;
	request->imm_data = htonl(send->immediate);
	if (is_rdma(send)) {
		request->wr_id |= VERBS_WR_ID_RDMA;
		request->opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		if (is_read(send))
			request->opcode = IBV_WR_RDMA_READ;
		request->wr.rdma.remote_addr = send->remote_address + send->offset;
		request->wr.rdma.rkey = send->remote_handle;
	} else {
		request->opcode = immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	}
	if (is_fenced(endpoint, send))
		request->send_flags = IBV_SEND_FENCE;
	else if (may_inline(endpoint, send, length) && !is_read(send))
		request->send_flags = IBV_SEND_INLINE;
	return ibv_post_send(endpoint->qp, request, &endpoint->bad_send);
}

/* A device may take fewer segments of an RDMA read than of other requests. */
static unsigned most_segments(const struct verbs_endpoint *endpoint, const struct device_send *send)
{
	return is_read(send) ? endpoint->fewest_segments : endpoint->send_segments;
}

/* Cuts off the next part of the send: as many segments and bytes as one request takes. Returns its length. */
static uint32_t cut_part(const struct verbs_endpoint *endpoint, const struct device_send *send,
			 struct segment *segments, unsigned *count)
{
	uint32_t left = send->length - send->offset, most = endpoint->request_bytes;
	uint32_t watched = soft_watched_bytes(endpoint->device, send);
	struct span span;

	if (left > watched && most > left - watched)
		most = left - watched;
	span = (struct span){send->offset, most};
	*count = 0;
	for (unsigned i = 0;
	     i < send->count && *count < most_segments(endpoint, send) && span.length; i++) {
		struct segment piece = span_next(&span, send->segments[i]);

		if (piece.length)
			segments[(*count)++] = piece;
	}
	return most - span.length;
}

/* All data of the send is posted, `length` bytes just now. Posts the flush atomic, if the send takes one. */
static inline int finish_data(struct verbs_endpoint *endpoint, const struct device_send *send,
			      uint32_t length)
{
	if (!verbs_is_flushed_by_atomic(endpoint, send))
		return 0;
	return workqueue_next_part(endpoint->send_queue, length) ? verbs_flush_post(endpoint)
								 : EAGAIN;
}

/* Posts an RDMA operation in several requests, from send.offset on. */
static int post_parts(struct verbs_endpoint *endpoint, struct device_send send)
{
	for (;;) {
		struct segment segments[VERBS_SEND_SEGMENTS];
		unsigned count;
		uint32_t length = cut_part(endpoint, &send, segments, &count);
		bool is_last = length >= send.length - send.offset;
		int error;

		if (!length) /* the program has changed the descriptor meanwhile */
			return EINVAL;
		error = post_request(endpoint, &send, segments, count, length,
				     is_last ? 0 : VERBS_WR_ID_PART);
		if (error || is_last)
			return error ? error : finish_data(endpoint, &send, length);
		send.offset += length;
		if (!workqueue_next_part(endpoint->send_queue, length))
			return EAGAIN;
	}
}

/* Copies the send into a buffer, and posts it in one request. */
static int post_staged_send(struct verbs_endpoint *endpoint, const struct device_send *send)
{
	int error = EFAULT; /* if the memory was deregistered after the descriptor was read */
	struct verbs_buffer *buffer;

	/* The data is copied now, but earlier reads may still have to bring it. */
	if (is_fenced(endpoint, send) && !workqueue_is_idle(endpoint->send_queue))
		return EAGAIN;
	buffer = staging_take(endpoint, send->length, false);
	if (!buffer)
		return ENOBUFS;
	if (workqueue_gather(endpoint->send_queue, staging_data(buffer), send->length, endpoint->is_careful))
		error = post_request(endpoint, send, &buffer->segment, 1, send->length,
				     VERBS_WR_ID_STAGED);
	if (error)
		staging_return(endpoint, buffer, false);
	return error;
}

/* Posts a send that may take more than one request, or a buffer. */
static __attribute__((noinline)) int post_unusual(struct verbs_endpoint *endpoint, const struct device_send *send)
{
	bool many = send->count > most_segments(endpoint, send);
	int error;

	if (verbs_is_flushed_by_atomic(endpoint, send) && send->offset == send->length)
		return verbs_flush_post(endpoint);
	/* The target of a write with immediate data learns the length of one request only. */
	if (many && (!is_rdma(send) || (send->control & VIP_CONTROL_IMMEDIATE &&
					send->length <= endpoint->request_bytes)))
		error = post_staged_send(endpoint, send);
	else if (soft_watched_bytes(endpoint->device, send) ||
		 (is_rdma(send) && (many || send->length > endpoint->request_bytes || send->offset)))
		return post_parts(endpoint, *send);
	else
		error = post_request(endpoint, send, send->segments, send->count, send->length, 0);
	return error ? error : finish_data(endpoint, send, send->length);
}

int verbs_post_send(struct device_endpoint *base, const struct device_send *send)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (endpoint->flush_mr || send->count > endpoint->fewest_segments)
		return post_unusual(endpoint, send);
	if (send->control == VIP_CONTROL_OP_SENDRECV)
		return post_message(endpoint, send);
	if (is_rdma(send) && (send->length > endpoint->whole_bytes || send->offset))
		return post_unusual(endpoint, send);
	return post_request(endpoint, send, send->segments, send->count, send->length, 0);
}

static inline int post_receive(struct verbs_endpoint *endpoint, const struct segment *segments,
			       unsigned count, uint64_t kind)
{
	struct ibv_recv_wr *request = &endpoint->receive_request; /* there is never a next one */

	request->wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed) |
			 VERBS_WR_ID_RECEIVE | kind;
	request->sg_list = (struct ibv_sge *)segments;
	request->num_sge = (int)count;
	return ibv_post_recv(endpoint->qp, request, &endpoint->bad_receive);
}

/* Receives into a buffer as large as all segments together, because the message may be as large. */
static __attribute__((noinline))
int post_staged_receive(struct verbs_endpoint *endpoint, const struct segment *segments,
			unsigned count)
{
	struct verbs_buffer *buffer;
	uint32_t room = 0;
	int error;

	for (unsigned i = 0; i < count; i++)
		room += segments[i].length;
	buffer = staging_take(endpoint, room, true);
	if (!buffer)
		return ENOBUFS;
	error = post_receive(endpoint, &buffer->segment, 1, VERBS_WR_ID_STAGED);
	if (error)
		staging_return(endpoint, buffer, true);
	return error;
}

int verbs_post_receive(struct device_endpoint *base, const struct segment *segments, unsigned count)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (__builtin_expect(count > endpoint->receive_segments, false))
		return post_staged_receive(endpoint, segments, count);
	return post_receive(endpoint, segments, count, 0);
}

/* The error bit of VIA that a failed work request gets. Devices differ in the details. */
static uint32_t error_bit(struct workqueue *queue, enum ibv_wc_status status, bool is_receive, bool is_rdma)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return VIP_STATUS_DESC_FLUSHED_ERROR;
	case IBV_WC_LOC_LEN_ERR:
		return VIP_STATUS_LENGTH_ERROR;
	case IBV_WC_LOC_QP_OP_ERR:
		/* Of soft-RoCE also: memory is not registered any more; or the message is too long for the receive. */
		if (!workqueue_is_registered(queue))
			return VIP_STATUS_PROTECTION_ERROR;
		return is_receive ? VIP_STATUS_LENGTH_ERROR : VIP_STATUS_TRANSPORT_ERROR;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return VIP_STATUS_PROTECTION_ERROR;
	case IBV_WC_REM_ACCESS_ERR:
		return VIP_STATUS_RDMA_PROT_ERROR;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		/* The peer's VI allows no RDMA; or its receive is too short. */
		return is_rdma ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_REMOTE_DESC_ERROR;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return VIP_STATUS_REMOTE_DESC_ERROR;
	default:
		return VIP_STATUS_TRANSPORT_ERROR;
	}
}

/* Handles the completion of a drain, a staged or a part request. Returns true if the descriptor is done. */
static bool completes_descriptor(struct verbs_endpoint *endpoint, const struct ibv_wc *completion,
				 uint32_t *status)
{
	if ((completion->wr_id & VERBS_WR_ID_KIND) == VERBS_WR_ID_DRAIN) {
		atomic_store_explicit(&endpoint->drained, true, memory_order_relaxed);
		return false;
	}
	if (completion->wr_id & VERBS_WR_ID_STAGED && !staging_done(endpoint, completion))
		*status = VIP_STATUS_PROTECTION_ERROR;
	if (!(completion->wr_id & VERBS_WR_ID_PART))
		return true;
	workqueue_part_done(endpoint->send_queue, *status);
	return false;
}

/* wc.opcode is valid only in a successful completion. */
static inline void complete_descriptor(struct verbs_endpoint *endpoint, const struct ibv_wc *completion,
				       uint32_t status)
{
	bool is_receive = completion->wr_id & VERBS_WR_ID_RECEIVE;
	uint32_t length = 0, immediate = 0;

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

/* A completion of an Unreliable VI with this error bit. True when `status` is to be reported. */
static bool unreliable_error(struct verbs_endpoint *endpoint, bool is_receive, uint32_t *status)
{
	if (atomic_load_explicit(&endpoint->stopped, memory_order_relaxed))
		return true;
	workqueue_stalled(is_receive ? endpoint->receive_queue : endpoint->send_queue);
	if (*status != VIP_STATUS_DESC_FLUSHED_ERROR)
		return true;
	/* A flushed send is a lost message, which is no error. A flushed receive is posted again. */
	*status = 0;
	return !is_receive;
}

/* An error, or not one request for one descriptor. */
static __attribute__((noinline)) void report_unusual(struct verbs_endpoint *endpoint,
						     const struct ibv_wc *completion)
{
	bool is_receive = completion->wr_id & VERBS_WR_ID_RECEIVE;
	uint32_t status = error_bit(is_receive ? endpoint->receive_queue : endpoint->send_queue, completion->status, is_receive,
				    completion->wr_id & VERBS_WR_ID_RDMA);

	if (status && status != VIP_STATUS_DESC_FLUSHED_ERROR)
		log_ratelimited(LOG_LEVEL_INFO, "queue pair %u: a %s has failed: %s (0x%x)", completion->qp_num,
				is_receive ? "receive" : "send",
				ibv_wc_status_str(completion->status), completion->vendor_err);
	/* Sends are flushed with ours that has failed, or with the receives. */
	if (status && (is_receive || status != VIP_STATUS_DESC_FLUSHED_ERROR))
		atomic_store_explicit(is_receive ? &endpoint->refuses : &endpoint->fails, true, memory_order_relaxed);
	if (status && verbs_is_unreliable(endpoint) && !unreliable_error(endpoint, is_receive, &status))
		return;
	if (completion->wr_id & (VERBS_WR_ID_PART | VERBS_WR_ID_STAGED) &&
	    !completes_descriptor(endpoint, completion, &status))
		return;
	complete_descriptor(endpoint, completion, status);
}

static inline void report_completion(const struct ibv_wc *completion)
{
	struct verbs_endpoint *endpoint =
		(struct verbs_endpoint *)(uintptr_t)(completion->wr_id & ~VERBS_WR_ID_BITS);

	if ((completion->wr_id ^ atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed)) &
	    ~VERBS_WR_ID_KIND)
		return; /* it is from before a reset, which has flushed that work */
	if (completion->status != IBV_WC_SUCCESS ||
	    completion->wr_id & (VERBS_WR_ID_PART | VERBS_WR_ID_STAGED))
		report_unusual(endpoint, completion);
	else
		complete_descriptor(endpoint, completion, 0);
}

/* Two functions, because most polls find one completion, and one completion needs fewer saved registers. */
static __attribute__((noinline)) int report_one(const struct ibv_wc *completion)
{
	report_completion(completion);
	return 1;
}

static __attribute__((noinline)) int report_several(const struct ibv_wc *completions, int count)
{
	const struct ibv_wc *completion = completions, *end = completions + count;

	do
		report_completion(completion);
	while (++completion != end);
	return count;
}

int verbs_cq_poll(struct device_cq *base)
{
	struct verbs_cq *cq = (struct verbs_cq *)base;
	int count = ibv_poll_cq(cq->cq, VERBS_COMPLETIONS, cq->completions);

	if (count <= 0)
		return count;
	return count == 1 ? report_one(cq->completions) : report_several(cq->completions, count);
}
