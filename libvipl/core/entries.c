/* SPDX-License-Identifier: BSD-2-Clause */
/* The entries of a CQ: the queues that have some, which come and go with their VIs, and VipCQDone. */
#include "entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cq.h"
#include "nic.h"
#include "object_at.h"

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
static int grow(struct cq *cq)
{
	struct entries *entries = &cq->entries;
	struct workqueue **former = entries->queues;
	uint32_t room = entries->queues_room ? 2 * entries->queues_room : QUEUES_AT_FIRST;
	struct workqueue **queues = calloc(room, sizeof(*queues));

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

	if (number == cq->entries.queues_room && grow(cq))
		return ENOMEM;
	lock_acquire(&cq->lock);
	queue->number = number;
	cq->entries.queues[number] = queue;
	lock_release(&cq->lock);
	return 0;
}

/* From the oldest entry on, until all of this queue's are found. */
static void remove_all_of(struct entries *entries, const struct workqueue *queue)
{
	uint32_t left = atomic_load(&queue->done) - queue->reported - queue->waiting;
	uint32_t *entry = entries->first;

	if (!left)
		return;
	for (uint32_t i = 0; i < entries->queues_room; i++)
		if (entries->queues[i])
			entries->queues[i]->passed = entries->queues[i]->reported;
	while (left) {
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

/* The oldest entry is kept where the one before it was, perhaps in a ring that is about to go. */
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

/* ---- VipCQDone ---- */

/* The CQ's lock is held, and released here: an entry of this queue was taken. */
static __attribute__((noinline)) VIP_RETURN leave_with_waiting(struct cq *cq,
							       struct workqueue *queue, bool polled)
{
	entries_add_waiting(&cq->entries, queue);
	return cq_unlock_and_run(cq, &cq->object, polled, false, VIP_SUCCESS);
}

/* Takes the oldest entry, of which there is one. The CQ's lock is held, and released here. */
static inline VIP_RETURN take_entry(struct cq *cq, bool polled, VIP_VI_HANDLE *vi,
				    VIP_BOOLEAN *is_receive)
{
	struct workqueue *queue = entries_take(&cq->entries);

	*vi = object_handle(&queue->vi->object);
	*is_receive = queue->is_receive ? VIP_TRUE : VIP_FALSE;
	if (__builtin_expect(queue->waiting > 0, false))
		return leave_with_waiting(cq, queue, polled);
	return cq_unlock_and_run(cq, &cq->object, polled, false, VIP_SUCCESS);
}

/* Polls, and takes the oldest entry if there is one then. The CQ's lock is held, and released here. */
static __attribute__((noinline)) VIP_RETURN poll_and_take(struct cq *cq, VIP_VI_HANDLE *vi,
							  VIP_BOOLEAN *is_receive)
{
	bool polled = cq_poll_locked(cq);

	return entries_are_none(&cq->entries)
		       ? cq_unlock_and_run(cq, &cq->object, polled, false, VIP_NOT_DONE)
		       : take_entry(cq, polled, vi, is_receive);
}

static inline VIP_RETURN take_from(struct cq *cq, VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi,
				   VIP_BOOLEAN *is_receive)
{
	if (atomic_load_explicit(&cq->handle, memory_order_relaxed) != handle)
		return object_unlock_bad_handle(&cq->lock);
	return entries_are_none(&cq->entries) ? poll_and_take(cq, vi, is_receive)
					      : take_entry(cq, false, vi, is_receive);
}

static __attribute__((noinline)) VIP_RETURN take_slowly(struct cq *cq, VIP_CQ_HANDLE handle,
							VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive,
							enum lock_way way)
{
	if (cq_enter_slowly(cq, way, true))
		return take_from(cq, handle, vi, is_receive);
	return atomic_load_explicit(&cq->handle, memory_order_relaxed) == handle ? VIP_NOT_DONE
										 : VIP_INVALID_PARAMETER;
}

VIP_RETURN cq_take(struct cq *cq, VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive)
{
	enum lock_way way = lock_enter(&cq->lock);

	if (way != LOCK_BIASED)
		return take_slowly(cq, handle, vi, is_receive, way);
	return take_from(cq, handle, vi, is_receive);
}
