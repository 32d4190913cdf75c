/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of queues have in common. */
#ifndef VIPL_WORKQUEUE_INTERNAL_H
#define VIPL_WORKQUEUE_INTERNAL_H

#include "vi.h"

/* The CQ's lock is held; a descriptor is posted. Returns its new Status. */
uint32_t workqueue_complete_oldest(struct workqueue *queue, uint32_t status, uint32_t length,
				   uint32_t immediate);
/* An error on a connection: the agent breaks it. The CQ's lock is held. */
void workqueue_note_error(struct workqueue *queue, uint32_t status);
/* Completes all as flushed; both locks are held. */
void workqueue_flush_locked(struct workqueue *queue);

/* Requests that the device has. An upper bound without the CQ's lock. */
static inline uint32_t under_way(const struct workqueue *queue)
{
	return queue->submitted - atomic_load_explicit(&queue->done, memory_order_acquire) +
	       atomic_load_explicit(&queue->parts, memory_order_acquire);
}

/* The oldest descriptor that waited here is submitted, or done. */
static inline void advance(struct workqueue *queue)
{
	queue->submitted++;
	queue->offset = 0;
}

static inline struct posted *ring_at(struct workqueue *queue, uint32_t index)
{
	return &queue->ring[index & (QUEUE_DESCRIPTORS - 1)];
}

/* Is it a queue of the VI with this handle? One of its locks is held. */
static inline bool is_named(const struct workqueue *queue, VIP_VI_HANDLE handle)
{
	return atomic_load_explicit(&queue->handle, memory_order_relaxed) == handle;
}

static inline bool is_reliable(const struct vi *vi)
{
	return vi->attributes.ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
}

#endif
