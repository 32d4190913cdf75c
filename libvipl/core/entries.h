/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entries of a VIPL CQ: one for each completion, in the order in which they happened, over all queues
 * that complete there.
 *
 * An entry is the number of its queue, and no more, because a queue's completions are reported in their order. Entries are a
 * linked list, each beside the descriptor of the one before, in the ring of that descriptor's queue. So they take hardly any
 * memory of their own, and nothing is searched.
 *
 * A program may take descriptors without asking the CQ. Their entries stay, while their places in the ring are used again. So a
 * queue may have more unreported completions than places. Then only ENTRIES_MOST of them have entries, and the others wait.
 * When an entry of that queue is taken, a completion that waits gets an entry at the end of the CQ. That is too late, but only
 * for a queue whose descriptors the program takes without asking.
 */
#ifndef VIPL_ENTRIES_H
#define VIPL_ENTRIES_H

#include <stdlib.h>

#include "workqueue_internal.h"

/* Of a queue. One place stays free, because the entry that was taken last leads to the oldest one. */
#define ENTRIES_MOST (QUEUE_DESCRIPTORS - 1)

static inline void entries_move(uint32_t **end, uint32_t *to)
{
	__atomic_store_n(end, to, __ATOMIC_RELEASE);
}

static inline void entries_init(struct entries *entries)
{
	entries_move(&entries->first, &entries->spare);
	entries_move(&entries->last, &entries->spare);
	entries->queues = NULL;
	entries->queues_room = 0;
}
static inline void entries_free(struct entries *entries)
{
	free(entries->queues);
}

/* [nic] The queue completes into this CQ from now on. 0 or errno. */
int entries_admit(struct cq *cq, struct workqueue *queue);
/* [nic] It does not any more: its entries vanish, all others stay in their order. */
void entries_dismiss(struct cq *cq, struct workqueue *queue);

/* Without the CQ's lock. It moves with each entry that is taken. */
static inline const uint32_t *entries_first(const struct entries *entries)
{
	return __atomic_load_n(&entries->first, __ATOMIC_ACQUIRE);
}
/* Without the CQ's lock. Returns false if there was an entry all the time. */
static inline bool entries_seem_none(const struct entries *entries)
{
	return entries_first(entries) == __atomic_load_n(&entries->last, __ATOMIC_ACQUIRE);
}

/* The CQ's lock is held in all that follows. */

static inline bool entries_are_none(const struct entries *entries)
{
	return entries->first == entries->last;
}

static inline void entries_append(struct entries *entries, const struct workqueue *queue,
				  struct posted *place)
{
	*entries->last = queue->number;
	entries_move(&entries->last, &place->next);
}

/* The queue's descriptor in this place has completed; `done` is the queue's index after it. */
static inline void entries_add(struct entries *entries, struct workqueue *queue, uint32_t done,
			       struct posted *place)
{
	if (__builtin_expect(done - queue->reported <= ENTRIES_MOST, true))
		entries_append(entries, queue, place);
	else
		queue->waiting++;
}

/*
 * Takes the oldest entry; there is one. Returns its queue. If completions of the queue wait for entries, the caller calls
 * entries_add_waiting() next.
 */
static inline struct workqueue *entries_take(struct entries *entries)
{
	struct workqueue *queue = entries->queues[*entries->first];

	entries_move(&entries->first, &ring_at(queue, queue->reported++)->next);
	return queue;
}

static inline void entries_add_waiting(struct entries *entries, struct workqueue *queue)
{
	queue->waiting--;
	entries_append(entries, queue, ring_at(queue, queue->reported + ENTRIES_MOST - 1));
}

#endif
