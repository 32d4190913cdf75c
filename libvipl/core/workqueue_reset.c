/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of posted descriptors when a connection begins, stalls or ends: they are held, handed
 * over, taken back, done, flushed or forgotten.
 */
#include "nic.h"
#include "workqueue_internal.h"

unsigned workqueue_with_device(struct workqueue *queue)
{
	unsigned count;

	workqueue_lock(queue);
	lock_acquire(&queue->cq->lock);
	count = under_way(queue) + queue->orphaned;
	lock_release(&queue->cq->lock);
	lock_release(&queue->lock);
	return count;
}

void workqueue_drop(struct workqueue *queue)
{
	uint32_t tail;

	workqueue_lock(queue);
	lock_acquire(&queue->cq->lock);
	tail = atomic_load(&queue->tail);
	queue->mode = QUEUE_HOLDS;
	queue->orphaned += queue->submitted - atomic_load(&queue->done);
	queue->submitted = tail;
	queue->offset = 0;
	atomic_store(&queue->done, tail);
	atomic_store(&queue->head, tail);
	backlog_remove(queue);
	lock_release(&queue->cq->lock);
	lock_release(&queue->lock);
}

void workqueue_set_mode(struct workqueue *queue, enum queue_mode mode)
{
	workqueue_lock(queue);
	queue->mode = mode;
	lock_release(&queue->lock);
	workqueue_submit_backlog(queue);
}

void workqueue_recall(struct workqueue *queue, enum queue_mode mode)
{
	struct cq *cq = queue->cq;

	workqueue_lock(queue);
	lock_acquire(&cq->lock);
	cq_release_entries(cq, under_way(queue));
	queue->submitted = atomic_load(&queue->done);
	queue->offset = 0;
	atomic_store(&queue->parts, 0);
	queue->mode = mode;
	backlog_remove(queue);
	backlogs_have_room(&cq->backlogs);
	backlogs_leave_to_agent(cq);
	lock_release(&cq->lock);
	lock_release(&queue->lock);
}

void workqueue_assume_done(struct workqueue *queue)
{
	workqueue_lock(queue);
	lock_acquire(&queue->cq->lock);
	cq_catch_up(queue->cq);
	while (atomic_load(&queue->done) != queue->submitted) {
		cq_release_entries(queue->cq, 1);
		workqueue_complete_oldest(queue, 0, 0, 0);
	}
	if (queue->part_error) { /* of the one whose other parts are still here */
		advance(queue);
		workqueue_complete_oldest(queue, 0, 0, 0);
	}
	lock_release(&queue->cq->lock);
	lock_release(&queue->lock);
	cq_kick(queue->cq);
}

void workqueue_flush(struct workqueue *queue)
{
	workqueue_lock(queue);
	lock_acquire(&queue->cq->lock);
	cq_catch_up(queue->cq);
	workqueue_flush_locked(queue);
	lock_release(&queue->cq->lock);
	lock_release(&queue->lock);
	cq_kick(queue->cq);
}
