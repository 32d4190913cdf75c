/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way out of the ring of posted descriptors, at its head: VipSendDone and VipRecvDone.
 *
 * Who takes from a queue that has a CQ of its own polls that CQ, and has its lock. The head of a queue on a VIPL CQ is
 * guarded by the queue's lock: many threads look at such a CQ, and who serves a VI that the CQ has named does not wait for them.
 */
#include "object_at.h"
#include "workqueue_internal.h"

static inline VIP_RETURN take_nothing(const struct workqueue *queue, VIP_DESCRIPTOR **descriptor)
{
	*descriptor = NULL;
	return workqueue_is_empty(queue) ? VIP_DESCRIPTOR_ERROR : VIP_NOT_DONE;
}

/* The lock that guards the head is held, and the one at the head is done. */
static inline VIP_RETURN take_done(struct workqueue *queue, uint32_t head, VIP_DESCRIPTOR **descriptor)
{
	const struct posted *posted = ring_at(queue, head);
	VIP_RETURN rc = VIP_SUCCESS;

	*descriptor = posted->descriptor;
	if (posted->status & VIP_STATUS_ERROR_MASK)
		rc = VIP_DESCRIPTOR_ERROR;
	atomic_store_explicit(&queue->head, head + 1, memory_order_release);
	return rc;
}

/*
 * Releases the CQ's lock for a caller that is told of an error. Nothing that it posts after this goes out. The agent ends the
 * connection: VipQueryVi and VipDisconnect wait for that.
 */
static __attribute__((noinline)) VIP_RETURN tell_error(struct workqueue *queue, struct cq *cq, bool polled)
{
	struct vi *vi = queue->vi;
	bool held = object_hold(&vi->object);

	cq_unlock_and_submit(cq, &vi->object, polled, VIP_SUCCESS);
	if (held) {
		workqueue_lock(&vi->send); /* so that the next post looks whether the VI is broken */
		workqueue_unlock(&vi->send);
		vi_put(vi);
	}
	return VIP_DESCRIPTOR_ERROR;
}

/* ---- of a queue with a CQ of its own: the CQ's lock is held, and released here ---- */

/* The one at the head is done. */
static inline VIP_RETURN take_head(struct workqueue *queue, struct cq *cq, uint32_t head, bool polled,
				   VIP_DESCRIPTOR **descriptor)
{
	VIP_RETURN rc = take_done(queue, head, descriptor);

	return rc == VIP_SUCCESS ? cq_unlock_and_submit(cq, &queue->vi->object, polled, rc) : tell_error(queue, cq, polled);
}

/* Polls, and takes the head if it is done then. */
static __attribute__((noinline)) VIP_RETURN poll_and_take(struct cq *cq, VIP_DESCRIPTOR **descriptor,
							  struct workqueue *queue)
{
	bool polled = cq_poll_locked(cq);
	uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);

	if (head != atomic_load_explicit(&queue->done, memory_order_relaxed))
		return take_head(queue, cq, head, polled, descriptor);
	return cq_unlock_and_submit(cq, &queue->vi->object, polled, take_nothing(queue, descriptor));
}

static inline VIP_RETURN take_own(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor, struct workqueue *queue,
				  struct cq *cq)
{
	uint32_t head;

	if (!is_named(queue, handle) ||
	    atomic_load_explicit(&queue->own_cq, memory_order_relaxed) != cq)
		return object_unlock_bad_handle(&cq->lock);
	head = atomic_load_explicit(&queue->head, memory_order_relaxed);
	if (head == atomic_load_explicit(&queue->done, memory_order_relaxed))
		return poll_and_take(cq, descriptor, queue);
	return take_head(queue, cq, head, false, descriptor);
}

static __attribute__((noinline)) VIP_RETURN take_own_slowly(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor,
							    struct workqueue *queue, struct cq *cq)
{
	lock_wait(&cq->lock);
	return take_own(handle, descriptor, queue, cq);
}

/* ---- of a queue on a VIPL CQ: the queue's lock is held, and released here ---- */

static inline VIP_RETURN release_with(struct lock *lock, VIP_RETURN rc)
{
	lock_release(lock);
	return rc;
}

/* The head is not done, or is done with an error. */
static __attribute__((noinline)) VIP_RETURN take_with_cq(struct workqueue *queue, VIP_DESCRIPTOR **descriptor)
{
	struct cq *cq = atomic_load_explicit(&queue->cq, memory_order_relaxed);
	bool polled = false, has_done;
	VIP_RETURN rc;

	if (queue_has_done(queue))
		lock_acquire(&cq->lock);
	else if (cq_enter(cq))
		polled = cq_poll_locked(cq);
	else
		return release_with(&queue->lock, take_nothing(queue, descriptor));
	has_done = queue_has_done(queue);
	rc = has_done ? take_done(queue, atomic_load_explicit(&queue->head, memory_order_relaxed), descriptor)
		      : take_nothing(queue, descriptor);
	lock_release(&queue->lock);
	return has_done && rc != VIP_SUCCESS ? tell_error(queue, cq, polled) : cq_unlock_and_submit(cq, &queue->vi->object, polled, rc);
}

static inline VIP_RETURN take_shared(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor, struct workqueue *queue)
{
	uint32_t head;

	if (!is_named(queue, handle) || atomic_load_explicit(&queue->own_cq, memory_order_relaxed))
		return object_unlock_bad_handle(&queue->lock);
	head = atomic_load_explicit(&queue->head, memory_order_relaxed);
	if (head == atomic_load_explicit(&queue->done, memory_order_acquire) ||
	    ring_at(queue, head)->status & VIP_STATUS_ERROR_MASK)
		return take_with_cq(queue, descriptor);
	return release_with(&queue->lock, take_done(queue, head, descriptor));
}

static __attribute__((noinline)) VIP_RETURN take_shared_slowly(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor,
							       struct workqueue *queue)
{
	lock_wait(&queue->lock);
	return take_shared(handle, descriptor, queue);
}

VIP_RETURN workqueue_take(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor, struct workqueue *queue)
{
	struct cq *own = atomic_load_explicit(&queue->own_cq, memory_order_relaxed);

	if (!own)
		return lock_try(&queue->lock) ? take_shared(handle, descriptor, queue)
					      : take_shared_slowly(handle, descriptor, queue);
	if (!lock_try(&own->lock))
		return take_own_slowly(handle, descriptor, queue, own);
	return take_own(handle, descriptor, queue, own);
}
