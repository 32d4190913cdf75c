/* SPDX-License-Identifier: BSD-2-Clause */
/* The completions of VIPL CQs, in the order in which they happened. */
#ifndef VIPL_LOOPBACK_ORDER_H
#define VIPL_LOOPBACK_ORDER_H

#include "loopback.h"

/* 0 or errno. */
int order_init(struct loopback_cq *cq);
/* Threads may still look. */
void order_destroy(struct loopback_cq *cq);
/* The look of device.h. */
bool order_is_empty(const struct cq_look *look);
/* [nic] A queue completes here from now on, or no more. 0 or errno. */
int order_join(struct loopback_cq *cq, struct loopback_source *source);
void order_leave(struct loopback_cq *cq, struct loopback_source *source);
/* The CQ's lock is held. */
int order_poll(struct loopback_cq *cq);

static inline bool order_has_come(const struct loopback_order *order, const struct cq_page *page)
{
	return atomic_load(&order->called) || atomic_load(&page->summary);
}

/* Without the lock, too: a poll may find something. */
static inline bool order_has_news(const struct loopback_order *order, const struct cq_page *page)
{
	return atomic_load_explicit(&order->is_filled, memory_order_relaxed) || order_has_come(order, page);
}

/* lo_stamps.c: the counter */
#define STAMPS_MOST (1u << 30) /* far more than there can be completions at a time */

/* The CQ's lock is held: what the counter has reached. */
uint32_t stamps_now(struct loopback_cq *cq);
/* A peer may write any number as a stamp. This is the stamp that it counts as. */
uint32_t stamps_doubt(struct loopback_cq *cq, uint32_t stamp);

static inline uint32_t order_stamp(struct loopback_cq *cq, uint32_t stamp)
{
	return cq->order.limit - stamp - 1 < STAMPS_MOST ? stamp : stamps_doubt(cq, stamp);
}

/*
 * Something has finished at this source, so the CQ has to look there. Sequentially consistent. A CQ of one queue looks in any
 * case.
 */
static inline void order_call(struct loopback_cq *cq, struct loopback_source *source)
{
	struct loopback_source *first;

	if (!cq->page)
		return;
	/* If it is called already, the CQ has yet to look at it. */
	if (atomic_exchange(&source->is_called, true))
		return;
	first = atomic_load_explicit(&cq->order.called, memory_order_relaxed);
	do
		source->next_called = first;
	while (!atomic_compare_exchange_weak(&cq->order.called, &first, source));
}

#endif
