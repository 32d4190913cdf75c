/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Soft-RoCE's habits, which no adapter has. For other devices these functions do nothing, or return the value that changes nothing.
 */
#include <string.h>

#include "base/deadline.h"
#include "base/log.h"
#include "rdma.h"

#define DRAIN_NSEC NSEC_PER_SEC /* the longest wait until a queue pair does no more work */

/*
 * Programs watch the last bytes of an RDMA write. Soft-RoCE copies a packet by the kernel's memcpy(), which in newer kernels
 * copies backwards on some processors. So these bytes have a request of their own, behind the others.
 */
#define WATCHED 8u

static bool is_soft(const struct verbs_device *device)
{
	return device->limits.vendor_id == 0xffffffu;
}

/* RDMA operations of up to so many bytes go in one request. */
uint32_t soft_whole_bytes(const struct verbs_device *device, uint32_t bytes)
{
	return is_soft(device) ? WATCHED : bytes;
}

/* So many of the last bytes have a request of their own. The target of a write with immediate data waits for its completion. */
uint32_t soft_watched_bytes(const struct verbs_device *device, const struct device_send *send)
{
	bool is_write = (send->control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAWRITE;

	return is_soft(device) && is_write && !(send->control & VIP_CONTROL_IMMEDIATE) && send->length > WATCHED ? WATCHED : 0;
}

/*
 * A UC queue pair receives nothing any more if the last packet of an RDMA write is lost, or finds no receive for its immediate
 * data. Neither end is told. So there each packet is a request of its own.
 */
uint32_t soft_request_bytes(const struct verbs_device *device, enum ibv_mtu path_mtu)
{
	return is_soft(device) ? 128u << path_mtu : UINT32_MAX;
}

/* Of a CQ: soft_drain() needs it, which works on one queue pair at a time. */
unsigned soft_own_entries(const struct verbs_device *device)
{
	return is_soft(device) ? 1 : 0;
}

/*
 * Soft-RoCE has crashed when a message came during the change from ERR to RESET. So the queue pair stays in ERR, where it does
 * nothing once it has drained, until it is replaced or destroyed.
 */
bool soft_stays_in_error(const struct verbs_endpoint *endpoint)
{
	return is_soft(endpoint->device) && endpoint->was_connected;
}

/*
 * Soft-RoCE may still work on a message after its completion. If the queue pair is reset then, the kernel frees the message twice.
 * It has finished all messages when it flushes a receive. So this posts one, and soft_has_drained() looks for its flush. It is
 * posted in ERR, so that no message takes it. A second change to ERR flushes it. For soft-RoCE's queue pairs only.
 */
void soft_drain(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr in_error = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr *bad, last = {
		.wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed) | VERBS_WR_ID_DRAIN,
	};
	int error;

	atomic_store_explicit(&endpoint->drained, false, memory_order_relaxed);
	if (ibv_post_recv(endpoint->qp, &last, &bad))
		return;
	error = ibv_modify_qp(endpoint->qp, &in_error, IBV_QP_STATE);
	if (error)
		log_error_ratelimited("queue pair %u: no change to state ERR: %s", endpoint->qp->qp_num, strerror(error));
	else
		endpoint->drains_until = clock_nsec() + DRAIN_NSEC;
}

/* If the device has a receive, that is flushed in any case. */
void soft_drain_without_receives(struct verbs_endpoint *endpoint)
{
	if (is_soft(endpoint->device) && !workqueue_with_device(endpoint->receive_queue))
		soft_drain(endpoint);
}

bool soft_has_drained(struct verbs_endpoint *endpoint)
{
	if (!endpoint->drains_until)
		return true;
	cq_poll_for_device(endpoint->wanted_qp.recv_cq->cq_context);
	if (!atomic_load_explicit(&endpoint->drained, memory_order_relaxed) && deadline_left(endpoint->drains_until))
		return false;
	endpoint->drains_until = 0;
	return true;
}
