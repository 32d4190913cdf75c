/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of posted descriptors: making it, and completing what the device has done. */
#include "workqueue_internal.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"
#include "entries.h"
#include "nic.h"
#include "object_at.h"

#define RING_BYTES (QUEUE_DESCRIPTORS * sizeof(struct posted))

void workqueue_clear(struct workqueue *queue, struct vi *vi, bool is_new)
{
	if (is_new) {
		lock_init(&queue->lock);
		queue->vi = vi;
	}
	memset(&queue->ops, 0, sizeof(*queue) - offsetof(struct workqueue, ops));
}

int workqueue_init(struct workqueue *queue, struct cq *cq, bool is_receive, bool (*submit)(struct workqueue *))
{
	queue->ring = pages_allocate(RING_BYTES);
	if (!queue->ring || (cq->is_public && entries_admit(cq, queue))) {
		log_error_ratelimited("no work queue: %s", failure(ENOMEM));
		pages_free(queue->ring, RING_BYTES);
		return ENOMEM;
	}
	atomic_store_explicit(&queue->cq, cq, memory_order_relaxed);
	atomic_store_explicit(&queue->own_cq, cq->is_public ? NULL : cq, memory_order_relaxed);
	if (!cq->is_public)
		cq->own = queue;
	queue->is_receive = is_receive;
	queue->backlog.submit = submit;
	queue->ops = queue->vi->nic->device->ops;
	queue->mode = is_receive ? QUEUE_HOLDS : QUEUE_FLUSHES;
	queue->sending = (struct device_send){.segments = &queue->segment, .count = 1};
	return 0;
}

void workqueue_destroy(struct workqueue *queue)
{
	struct cq *cq = queue->cq;

	if (cq->is_public)
		entries_dismiss(cq, queue);
	lock_acquire(&cq->lock);
	backlog_remove(queue);
	lock_release(&cq->lock);
	pages_free(queue->ring, RING_BYTES);
}

void workqueue_set_handle(struct workqueue *queue, VIP_VI_HANDLE handle)
{
	lock_acquire(&queue->lock);
	lock_acquire(&queue->cq->lock);
	atomic_store_explicit(&queue->handle, handle, memory_order_relaxed);
	lock_release(&queue->cq->lock);
	lock_release(&queue->lock);
}

void workqueue_lock(struct workqueue *queue)
{
	lock_acquire(&queue->lock);
	queue->limit = atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

void workqueue_unlock(struct workqueue *queue)
{
	lock_release(&queue->lock);
}

/* `retires`: an entry of the CQ was reserved for it. */
static inline uint32_t complete_oldest(struct workqueue *queue, uint32_t done, bool retires,
				       uint32_t status, uint32_t length, uint32_t immediate)
{
	struct cq *cq = atomic_load_explicit(&queue->cq, memory_order_relaxed);
	struct posted *posted = ring_at(queue, done);
	VIP_DESCRIPTOR *descriptor = posted->descriptor;

	if (queue->part_error) { /* the first thing that went wrong with it */
		status = queue->part_error;
		queue->part_error = 0;
	}
	status |= VIP_STATUS_DONE | posted->status;
	if (queue->is_receive) {
		descriptor->CS.Length = length;
		if (status & VIP_STATUS_IMMEDIATE)
			descriptor->CS.ImmediateData = immediate;
	}
	posted->status = status;
	/* Programs poll the status in memory: it must come after all the rest. */
	__atomic_store_n(&descriptor->CS.Status, status, __ATOMIC_RELEASE);
	atomic_store_explicit(&queue->done, done + 1, memory_order_release);

	if (cq->is_public) {
		if (retires)
			cq_release_entries(cq, 1);
		entries_add(&cq->entries, queue);
	}
	return status;
}

uint32_t workqueue_complete_oldest(struct workqueue *queue, uint32_t status, uint32_t length,
				   uint32_t immediate)
{
	return complete_oldest(queue, atomic_load_explicit(&queue->done, memory_order_relaxed), false,
			       status, length, immediate);
}

void workqueue_flush_locked(struct workqueue *queue)
{
	while (atomic_load(&queue->done) != atomic_load(&queue->tail))
		workqueue_complete_oldest(queue, VIP_STATUS_DESC_FLUSHED_ERROR, 0, 0);
	queue->submitted = atomic_load(&queue->tail);
	queue->offset = 0;
}

void workqueue_note_error(struct workqueue *queue, uint32_t status)
{
	uint32_t none = 0;

	if (!is_reliable(queue->vi))
		return; /* it is the descriptor's, and no more */
	atomic_compare_exchange_strong(&queue->vi->failure, &none, status);
	atomic_store(&queue->vi->broken, true);
	nic_has_faults(queue->vi->nic);
}

/* A descriptor with an error, or of a queue with a backlog. */
static __attribute__((noinline)) void completed_unusually(struct workqueue *queue, uint32_t status)
{
	if (queue->backlog.exists)
		backlog_progresses(queue);
	if (status & VIP_STATUS_ERROR_MASK)
		workqueue_note_error(queue, status);
}

void workqueue_complete(struct workqueue *queue, uint32_t status, uint32_t length,
			uint32_t immediate)
{
	/* The descriptor came here through the device. This load also orders its memory after the post, for our own threads. */
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
	uint32_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);

	if (tail == done) { /* after workqueue_drop(); or the device completes what was never posted */
		cq_release_entries(queue->cq, 1);
		if (queue->orphaned)
			queue->orphaned--;
		return;
	}
	status = complete_oldest(queue, done, true, status, length, immediate);
	if (__builtin_expect(status & VIP_STATUS_ERROR_MASK || queue->backlog.exists, false))
		completed_unusually(queue, status);
}

void workqueue_stalled(struct workqueue *queue)
{
	atomic_store(&queue->vi->stalled, true);
	nic_has_faults(queue->vi->nic);
}

void workqueue_part_done(struct workqueue *queue, uint32_t error)
{
	atomic_fetch_sub_explicit(&queue->parts, 1, memory_order_release);
	cq_release_entries(queue->cq, 1);
	if (queue->backlog.exists)
		backlog_progresses(queue);
	if (!error ||
	    atomic_load_explicit(&queue->tail, memory_order_acquire) ==
		    atomic_load_explicit(&queue->done, memory_order_relaxed))
		return;
	if (!queue->part_error)
		queue->part_error = error;
	workqueue_note_error(queue, error | ring_at(queue, atomic_load(&queue->done))->status);
}

bool workqueue_is_idle(const struct workqueue *queue)
{
	return !under_way(queue);
}
