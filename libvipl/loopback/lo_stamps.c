/* SPDX-License-Identifier: BSD-2-Clause */
/* The counter of a VIPL CQ, and the stamps that are taken from it. */
#include "base/log.h"
#include "order.h"

uint32_t stamps_now(struct loopback_cq *cq)
{
	uint32_t stamp = atomic_load_explicit(&cq->page->stamp, memory_order_acquire);

	if (stamp - cq->order.limit <= STAMPS_MOST)
		return cq->order.seen = stamp;
	if (!cq->order.has_warned)
		log_error_ratelimited("a peer has written to the counter of a completion queue: "
				      "completion order is no longer guaranteed");
	cq->order.has_warned = true;
	atomic_store(&cq->page->stamp, cq->order.seen);
	return cq->order.seen;
}

uint32_t stamps_doubt(struct loopback_cq *cq, uint32_t stamp)
{
	uint32_t end = stamps_now(cq);

	/*
	 * Stamps from the limit to this end were taken after the round began. A stamp that is neither one of these nor before
	 * the limit was never taken. It counts as the latest.
	 */
	return end - stamp - 1 < STAMPS_MOST ? stamp : end - 1;
}
