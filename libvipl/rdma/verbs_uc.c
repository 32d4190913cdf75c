/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable VIs: UC queue pairs. In VIA an error concerns the descriptor, and the connection goes on. But a UC queue pair
 * does nothing more after an error. So it is reset and started again. The peer notices nothing, because UC accepts any packet
 * that begins a message.
 */
#include <errno.h>

#include "base/log.h"
#include "rdma.h"

int verbs_find_uc(struct ibv_context *context, bool *found)
{
	struct ibv_qp_init_attr attributes = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UC,
	};
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int error = 0;

	if (!pd)
		return cause("ibv_alloc_pd()", errno);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	if (!cq) {
		error = cause("ibv_create_cq()", errno);
		goto free_pd;
	}
	attributes.send_cq = attributes.recv_cq = cq;
	qp = ibv_create_qp(pd, &attributes);
	*found = qp;
	if (qp)
		ibv_destroy_qp(qp);
	else if (errno == ENOMEM || errno == EAGAIN) /* of memory, or of what the cgroup allows; else it has none */
		error = cause("ibv_create_qp()", errno);
	ibv_destroy_cq(cq);
free_pd:
	ibv_dealloc_pd(pd);
	return error;
}

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
