/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable VIs: UC queue pairs. In VIA an error concerns the descriptor, and the connection goes on. But a UC queue pair
 * does nothing more after an error. So it is reset and started again. The peer notices nothing, because UC accepts any packet
 * that begins a message.
 */
#include "rdma.h"

/*
 * On soft-RoCE a UC queue pair receives nothing any more if the last packet of an RDMA write is lost, or finds no receive for
 * its immediate data. Neither end is told. So there each packet is a request of its own.
 */
uint32_t verbs_unreliable_request(const struct verbs_endpoint *endpoint, enum ibv_mtu path_mtu)
{
	return verbs_is_soft(endpoint->device) ? 128u << path_mtu : UINT32_MAX;
}

bool verbs_unreliable_error(struct verbs_endpoint *endpoint, bool is_receive, uint32_t *status)
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
