/* Steps that workqueue.c, the way of a descriptor, and workqueue_ends.c have in common. */
#ifndef VIPL_WORKQUEUE_STEPS_H
#define VIPL_WORKQUEUE_STEPS_H

#include "workqueue.h"

/* The CQ's lock is held; a descriptor is posted. Returns what is its Status now. */
uint32_t workqueue_complete_oldest(struct workqueue *queue, uint32_t status, uint32_t length,
				   uint32_t immediate);
/* Completes all as flushed; both locks are held. */
void workqueue_flush_locked(struct workqueue *queue);

/* The CQ's lock is held. */
static inline void leave_starved(struct workqueue *queue)
{
	if (queue->is_starved)
		TAILQ_REMOVE(&queue->cq->starved, queue, in_starved);
	queue->is_starved = false;
}

/* Requests that the device has. An upper bound without the CQ's lock. */
static inline uint32_t under_way(const struct workqueue *queue)
{
	return queue->submitted - atomic_load_explicit(&queue->done, memory_order_acquire) +
	       queue->parts - atomic_load_explicit(&queue->parts_done, memory_order_acquire);
}

/* The oldest descriptor that was still here no longer is. */
static inline void advance(struct workqueue *queue)
{
	queue->submitted++;
	queue->offset = 0;
}

#endif
