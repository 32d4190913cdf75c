/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable VIs: UC queue pairs. VIA lets an error be the descriptor's, and the connection go on;
 * a UC queue pair does nothing more after one. So it is stopped, and started again as before; the peer notices nothing, for UC takes any message that begins.
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
		return errno;
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	if (!cq) {
		error = errno;
		goto free_pd;
	}
	attributes.send_cq = attributes.recv_cq = cq;
	qp = ibv_create_qp(pd, &attributes);
	*found = qp;
	if (qp)
		ibv_destroy_qp(qp);
	else if (errno == ENOMEM) /* any other error means that it has none */
		error = errno;
	ibv_destroy_cq(cq);
free_pd:
	ibv_dealloc_pd(pd);
	return error;
}

/*
 * Soft-RoCE: after an RDMA write in several packets of which the last one was lost, or found no
 * receive for its immediate data, a UC queue pair takes nothing any more, and neither end is told.
 * So there each packet is a request of its own.
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
	/* A message is lost, which is no error. A receive is handed over again. */
	*status = 0;
	return !is_receive;
}
