/* SPDX-License-Identifier: BSD-2-Clause */
/* The queues that have entries in a CQ: they come and go with their VIs. */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "cq.h"
#include "nic.h"

#define QUEUES_AT_FIRST 8u

/* A number that no queue has. */
static uint32_t find_free_number(const struct entries *entries)
{
	uint32_t number = 0;

	while (number < entries->queues_room && entries->queues[number])
		number++;
	return number;
}

/* 0 or errno. Nobody but the caller changes the table; others read it with the CQ's lock. */
static int grow_queues(struct cq *cq)
{
	struct entries *entries = &cq->entries;
	struct workqueue **former = entries->queues;
	uint32_t room = entries->queues_room ? 2 * entries->queues_room : QUEUES_AT_FIRST;
	struct workqueue **queues = zeroed(room, sizeof(*queues));

	if (!queues)
		return ENOMEM;
	if (former)
		memcpy(queues, former, entries->queues_room * sizeof(*queues));
	lock_acquire(&cq->lock);
	entries->queues = queues;
	entries->queues_room = room;
	lock_release(&cq->lock);
	free(former);
	return 0;
}

int entries_admit(struct cq *cq, struct workqueue *queue)
{
	uint32_t number = find_free_number(&cq->entries);

	if (number == cq->entries.queues_room && grow_queues(cq))
		return ENOMEM;
	lock_acquire(&cq->lock);
	queue->number = number;
	cq->entries.queues[number] = queue;
	lock_release(&cq->lock);
	return 0;
}

/*
 * Removes the queue's entries. Walks from the oldest entry of the CQ on, until it has found all of them. They are fewer than `left`
 * if workqueue_drop() has been called.
 */
static void remove_all_of(struct entries *entries, const struct workqueue *queue)
{
	uint32_t left = atomic_load(&queue->done) - queue->reported - queue->waiting;
	uint32_t *entry = entries->first;

	if (!left)
		return;
	for (uint32_t i = 0; i < entries->queues_room; i++)
		if (entries->queues[i])
			entries->queues[i]->passed = entries->queues[i]->reported;
	while (left && entry != entries->last) {
		struct workqueue *of = entries->queues[*entry];
		uint32_t *next = &ring_at(of, of->passed++)->next;

		if (of != queue) {
			entry = next;
			continue;
		}
		*entry = *next;
		if (entries->last == next)
			entries_move(&entries->last, entry);
		left--;
	}
}

/* Moves the oldest entry to `spare`, because its place may be in a ring that is about to go. */
static void leave_rings(struct entries *entries)
{
	entries->spare = *entries->first;
	if (entries_are_none(entries))
		entries_move(&entries->last, &entries->spare);
	entries_move(&entries->first, &entries->spare);
}

void entries_dismiss(struct cq *cq, struct workqueue *queue)
{
	struct entries *entries = &cq->entries;

	lock_acquire(&cq->lock);
	leave_rings(entries);
	if (atomic_load_explicit(&cq->handle, memory_order_relaxed))
		remove_all_of(entries, queue);
	else
		entries_move(&entries->last, entries->first); /* the CQ goes, too, and no thread takes an entry any more */
	entries->queues[queue->number] = NULL;
	lock_release(&cq->lock);
}
