/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable Reception: a send is done when its data is in the peer's memory. An acknowledgement of RC says less: the peer's
 * adapter has the message, but its writes to memory may still be on their way. So each message is followed by a flush atomic,
 * an atomic operation on memory of the peer's library. An adapter carries out requests in order, and an atomic operation
 * reads memory, which overtakes none of the adapter's writes. When its answer is here, the data is there.
 *
 * An RDMA read would do, too, but the queue pair would have to allow RDMA reads also if the VI allows none. An atomic operation
 * can reach only these 16 bytes.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pages.h"
#include "rdma.h"

/* Offsets in the region flush_mr. It begins at address 0, so the peer only has to know its rkey. */
enum { FLUSH_TARGET = 0, FLUSH_RESULT = 8, FLUSH_BYTES = 16 };

int verbs_flush_create(struct verbs_endpoint *endpoint)
{
	/* A whole page, because a child of this process may lack registered pages. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = pages_allocate(page);
	int error;

	if (!memory) {
		error = errno;
		log_error_ratelimited("cannot create a VI: %s", failure(error));
		return error;
	}
	endpoint->flush_mr = ibv_reg_mr_iova(endpoint->domain->pd, memory, FLUSH_BYTES, 0,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (endpoint->flush_mr)
		return 0;
	error = errno;
	log_error_ratelimited("cannot register memory for Reliable Reception: %s",
			      failure_of("ibv_reg_mr()", error));
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
