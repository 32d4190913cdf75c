/*
 * Reliable Reception: a send is done when its data is in the peer's memory. RC's acknowledgement
 * does not say that. It says that the peer's adapter has the message and will put it there; the
 * writes may still be on their way through the machine. So each message is followed by a mark: an
 * atomic operation on memory of the peer's library. An adapter carries out requests in order, and a
 * read of memory, which an atomic operation is, overtakes none of its writes. When the answer is
 * here the data is there.
 *
 * It is an atomic operation and not an RDMA read so that the queue pair need not allow RDMA reads
 * to a peer that the VI allows none: nothing but the mark can be reached in this way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "rdma.h"

/* In the region of a mark, which begins at address 0: only the key has to be told. */
enum { MARK_OF_PEER = 0, RESULT_OF_OURS = 8, MARK_BYTES = 16 };

bool rdma_has_reception(const struct ibv_device_attr *limits)
{
	return limits->atomic_cap != IBV_ATOMIC_NONE && limits->max_qp_rd_atom > 0 &&
	       limits->max_qp_init_rd_atom > 0;
}

int rdma_mark_create(struct rdma_endpoint *endpoint)
{
	/* Whole pages: what is registered may not be there in a child of this process. */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = aligned_alloc(page, page);
	int error;

	if (!memory)
		return ENOMEM;
	memset(memory, 0, page);
	endpoint->mark = ibv_reg_mr_iova(endpoint->domain->pd, memory, MARK_BYTES, 0,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (endpoint->mark)
		return 0;
	error = errno;
	log_error_ratelimited("cannot register memory for Reliable Reception: %s%s", strerror(error),
			      memory_hint(error));
	free(memory);
	return error;
}

void rdma_mark_destroy(struct rdma_endpoint *endpoint)
{
	void *memory;

	if (!endpoint->mark)
		return;
	memory = endpoint->mark->addr;
	ibv_dereg_mr(endpoint->mark);
	free(memory);
}

int rdma_mark_post(struct rdma_endpoint *endpoint)
{
	struct ibv_sge result = {
		.addr = RESULT_OF_OURS, .length = sizeof(uint64_t), .lkey = endpoint->mark->lkey};
	struct ibv_send_wr *bad, request = {
		.wr_id = atomic_load_explicit(&endpoint->cookie, memory_order_relaxed),
		.sg_list = &result,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = {.remote_addr = MARK_OF_PEER,
			      .compare_add = 1,
			      .rkey = endpoint->peer_extra.mark},
	};

	return ibv_post_send(endpoint->qp, &request, &bad);
}
