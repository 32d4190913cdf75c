/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable Reception: a send is done when its data is in the peer's memory. RC's acknowledgement
 * does not say that. It says that the peer's adapter has the message and will put it there; the
 * writes may still be on their way through the machine. So each message is followed by a flush atomic: an
 * atomic operation on memory of the peer's library. An adapter carries out requests in order, and a
 * read of memory, which an atomic operation is, overtakes none of its writes. When the answer is
 * here the data is there.
 *
 * It is an atomic operation and not an RDMA read so that the queue pair need not allow RDMA reads
 * to a peer that the VI allows none: nothing but these 16 bytes can be reached in this way.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pages.h"
#include "rdma.h"

/* Offsets in the region flush_mr, which begins at address 0, so that the peer has to know its rkey only. */
enum { FLUSH_TARGET = 0, FLUSH_RESULT = 8, FLUSH_BYTES = 16 };

bool verbs_has_reception(const struct ibv_device_attr *limits)
{
	return limits->atomic_cap != IBV_ATOMIC_NONE && limits->max_qp_rd_atom > 0 &&
	       limits->max_qp_init_rd_atom > 0;
}

int verbs_flush_create(struct verbs_endpoint *endpoint)
{
	/* Whole pages, because registered pages may be missing in a child of this process. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = pages_allocate(page);
	int error;

	if (!memory)
		return ENOMEM;
	endpoint->flush_mr = ibv_reg_mr_iova(endpoint->domain->pd, memory, FLUSH_BYTES, 0,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (endpoint->flush_mr)
		return 0;
	error = errno;
	log_error_ratelimited("cannot register memory for Reliable Reception: %s%s", strerror(error),
			      memory_hint(error));
	pages_free(memory, page);
	return error;
}

void verbs_flush_destroy(struct verbs_endpoint *endpoint)
{
	void *memory;

	if (!endpoint->flush_mr)
		return;
	memory = endpoint->flush_mr->addr;
	ibv_dereg_mr(endpoint->flush_mr);
	pages_free(memory, (size_t)sysconf(_SC_PAGESIZE));
}

int verbs_flush_post(struct verbs_endpoint *endpoint)
{
	struct ibv_sge result = {
		.addr = FLUSH_RESULT, .length = sizeof(uint64_t), .lkey = endpoint->flush_mr->lkey};
	struct ibv_send_wr *bad, request = {
		.wr_id = atomic_load_explicit(&endpoint->wr_id_tag, memory_order_relaxed),
		.sg_list = &result,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = FLUSH_TARGET,
			      .compare_add = 1,
			      .rkey = endpoint->peer_flush_rkey},
	};

	return ibv_post_send(endpoint->qp, &request, &bad);
}
