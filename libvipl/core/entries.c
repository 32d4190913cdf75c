/* SPDX-License-Identifier: BSD-2-Clause */
/* The queues that have entries in a CQ: they come and go with their VIs. */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"

void entries_free(struct entries *entries)
{
	free(entries->queues);
	free(entries->ring);
	entries->queues = NULL;
	entries->ring = NULL;
	entries->room = 0;
}

/* Room for twice as many queues. 0 or ENOMEM. Only the caller exchanges table and ring; others use them with the CQ's lock. */
static int grow(struct cq *cq)
{
	struct entries *entries = &cq->entries;
	uint32_t former_mask = entries->mask, *former_ring = entries->ring;
	struct workqueue **former_queues = entries->queues;
	uint32_t room = entries->room ? 2 * entries->room : 1, mask = room * ENTRIES_MOST - 1;
	struct workqueue **queues = zeroed(room, sizeof(*queues));
	uint32_t *ring = zeroed((size_t)room * ENTRIES_MOST, sizeof(*ring));

	if (!queues || !ring) {
		free(queues);
		free(ring);
		return ENOMEM;
	}
	lock_acquire(&cq->lock);
	if (entries->room)
		memcpy(queues, former_queues, entries->room * sizeof(*queues));
	for (uint32_t i = atomic_load(&entries->first); i != atomic_load(&entries->last); i++)
		ring[i & mask] = former_ring[i & former_mask];
	entries->queues = queues;
	entries->ring = ring;
	entries->room = room;
	entries->mask = mask;
	lock_release(&cq->lock);
	free(former_queues);
	free(former_ring);
	return 0;
}

int entries_admit(struct cq *cq, struct workqueue *queue)
{
	uint32_t number = 0;

	while (number < cq->entries.room && cq->entries.queues[number])
		number++;
	if (number == cq->entries.room && grow(cq))
		return ENOMEM;
	lock_acquire(&cq->lock);
	queue->number = number;
	cq->entries.queues[number] = queue;
	lock_release(&cq->lock);
	return 0;
}

static void remove_all_of(struct entries *entries, const struct workqueue *queue)
{
	uint32_t i = atomic_load(&entries->first), kept = i;

	for (; i != atomic_load(&entries->last); i++)
		if (entries->ring[i & entries->mask] != queue->number)
			entries->ring[kept++ & entries->mask] = entries->ring[i & entries->mask];
	atomic_store(&entries->last, kept);
}

void entries_dismiss(struct cq *cq, struct workqueue *queue)
{
	struct entries *entries = &cq->entries;

	lock_acquire(&cq->lock);
	if (!atomic_load(&cq->handle)) /* the CQ goes, too, and no thread takes an entry any more */
		atomic_store(&entries->last, atomic_load(&entries->first));
	else if (queue->entries)
		remove_all_of(entries, queue);
	entries->queues[queue->number] = NULL;
	lock_release(&cq->lock);
}
