/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entries of a VIPL CQ: one for each completion, in the order in which they happened, over all queues
 * that complete there. An entry is the number of its queue, because a queue's completions are reported in their order.
 *
 * The ring has ENTRIES_MOST places, 4 KiB, for each queue. A program may take descriptors without asking the CQ, so a queue can have
 * more completions that the CQ has not reported. Those wait. When an entry of that queue is taken, one of them gets an entry at
 * the end of the CQ. That is too late, but only for a queue whose descriptors the program takes without asking.
 */
#ifndef VIPL_ENTRIES_H
#define VIPL_ENTRIES_H

#include "workqueue.h"

#define ENTRIES_MOST QUEUE_DESCRIPTORS

/* [nic] The queue completes into this CQ from now on. 0 or errno. */
int entries_admit(struct cq *cq, struct workqueue *queue);
/* [nic] It does not any more: its entries vanish, all others stay in their order. */
void entries_dismiss(struct cq *cq, struct workqueue *queue);
void entries_free(struct entries *entries);

/* Without the CQ's lock. It changes with each entry that is taken. */
static inline uint32_t entries_first(const struct entries *entries)
{
	return atomic_load_explicit(&entries->first, memory_order_acquire);
}
/* Without the CQ's lock. Returns false if there was an entry all the time. */
static inline bool entries_seem_none(const struct entries *entries)
{
	return entries_first(entries) == atomic_load_explicit(&entries->last, memory_order_acquire);
}

/* The CQ's lock is held in all that follows. */

static inline bool entries_are_none(const struct entries *entries)
{
	return atomic_load_explicit(&entries->first, memory_order_relaxed) ==
	       atomic_load_explicit(&entries->last, memory_order_relaxed);
}

/* A descriptor of the queue has completed. */
static inline void entries_add(struct entries *entries, struct workqueue *queue)
{
	uint32_t last = atomic_load_explicit(&entries->last, memory_order_relaxed);

	if (__builtin_expect(queue->entries == ENTRIES_MOST, false)) {
		queue->waiting++;
		return;
	}
	queue->entries++;
	entries->ring[last & entries->mask] = queue->number;
	atomic_store_explicit(&entries->last, last + 1, memory_order_release);
}

/* Takes the oldest entry; there is one. Returns its queue. */
static inline struct workqueue *entries_take(struct entries *entries)
{
	uint32_t first = atomic_load_explicit(&entries->first, memory_order_relaxed);
	struct workqueue *queue = entries->queues[entries->ring[first & entries->mask]];

	atomic_store_explicit(&entries->first, first + 1, memory_order_release);
	if (__builtin_expect(queue->entries-- == ENTRIES_MOST && queue->waiting, false)) {
		queue->waiting--;
		entries_add(entries, queue);
	}
	return queue;
}

#endif
