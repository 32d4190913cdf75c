/* SPDX-License-Identifier: BSD-2-Clause */
/* The way into the ring of posted descriptors, at its tail, and on to the device. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "descriptor.h"
#include "nic.h"
#include "object_at.h"
#include "workqueue_internal.h"

static inline uint32_t operation(bool is_receive, const VIP_DESCRIPTOR *descriptor)
{
	static const uint32_t of_send[] = {
		[VIP_CONTROL_OP_SENDRECV] = VIP_STATUS_OP_SEND,
		[VIP_CONTROL_OP_RDMAWRITE] = VIP_STATUS_OP_RDMA_WRITE,
		[VIP_CONTROL_OP_RDMAREAD] = VIP_STATUS_OP_RDMA_READ,
		[VIP_CONTROL_OP_RESERVED] = VIP_STATUS_OP_SEND,
	};

	return is_receive ? VIP_STATUS_OP_RECEIVE
			  : of_send[descriptor->CS.Control & VIP_CONTROL_OP_MASK];
}

/* After an error the device gets no more, also before the agent ends or revives the connection. */
static bool is_open(const struct workqueue *queue)
{
	return queue->mode == QUEUE_OPEN && !atomic_load(&queue->vi->broken) && !atomic_load(&queue->vi->stalled);
}

bool workqueue_next_part(struct workqueue *queue, uint32_t length)
{
	atomic_fetch_add_explicit(&queue->parts, 1, memory_order_relaxed);
	queue->offset += length;
	if (queue->limit != atomic_load_explicit(&queue->tail, memory_order_relaxed))
		queue->limit--; /* there is room for one post less */
	if (under_way(queue) < queue->depth && cq_reserve(queue->cq, false))
		return true;
	cq_count_one(queue->cq); /* hand_over() gives it back, as after any refusal */
	return false;
}

/*
 * Hands the oldest descriptor that is still here to the device; there is room for a request. 0 or the device's errno. `error`: an
 * error bit when it is the descriptor's fault.
 */
static int hand_over(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor, uint32_t *error)
{
	struct segment segments[MAX_SEGMENTS];
	struct device_send send;
	unsigned count;
	int rc = EINVAL;

	*error = queue->is_receive ? descriptor_read_receive(queue, descriptor, segments, &count)
				   : descriptor_read_send(queue, descriptor, segments, &send);
	if (!*error && queue->is_receive) {
		rc = queue->ops->post_receive(queue->vi->endpoint, segments, count);
	} else if (!*error) {
		send.offset = queue->offset;
		send.by_library = queue->sending.by_library;
		rc = queue->ops->post_send(queue->vi->endpoint, &send);
	}
	if (rc)
		cq_unreserve(queue->cq);
	else
		advance(queue);
	return rc;
}

/* The same, if there is room: else ENOBUFS, as without memory. */
static __attribute__((noinline)) int try_to_hand_over(struct workqueue *queue, uint32_t *error)
{
	if (under_way(queue) >= queue->depth || !cq_reserve(queue->cq, queue->is_receive))
		return ENOBUFS;
	return hand_over(queue, ring_at(queue, queue->submitted)->descriptor, error);
}

/* The oldest descriptor that is still here has failed, and nothing was under way. */
static void fail(struct workqueue *queue, uint32_t error, int rc)
{
	if (rc == EACCES)
		log_error_ratelimited("a descriptor is refused: %s", failure_of(queue->is_receive ? "ibv_post_recv()" : "ibv_post_send()", rc));
	lock_acquire(&queue->cq->lock);
	cq_catch_up(queue->cq);
	if (atomic_load(&queue->done) == queue->submitted) { /* a device may complete what was never posted */
		advance(queue);
		workqueue_note_error(queue, workqueue_complete_oldest(queue, error ? error : VIP_STATUS_TRANSPORT_ERROR, 0, 0));
	}
	lock_release(&queue->cq->lock);
}

static void set_backlog(struct workqueue *queue, bool has_backlog)
{
	if (queue->backlog.exists == has_backlog)
		return;
	lock_acquire(&queue->cq->lock);
	if (has_backlog)
		backlog_add(queue);
	else
		backlog_remove(queue);
	lock_release(&queue->cq->lock);
}

/*
 * The queue's lock is held. Hands over what is still here, in order. What is refused fails at once if nothing was under way, else
 * it waits, because errors are reported in order, and a device may refuse what it has no room for. What waits is tried once more
 * when the queue is among those with a backlog: from then on no completion is missed. Returns true if something was completed here,
 * without the device.
 */
static bool submit_backlog(struct workqueue *queue)
{
	bool completed = false;

	while (queue->submitted != atomic_load_explicit(&queue->tail, memory_order_relaxed)) {
		const uint32_t offset = queue->offset;
		bool was_idle = workqueue_is_idle(queue);
		uint32_t error;
		int rc = try_to_hand_over(queue, &error);

		if (!rc)
			continue;
		if (was_idle && queue->offset == offset && rc != ENOBUFS) {
			fail(queue, error, rc);
			completed = true;
			if (is_reliable(queue->vi)) /* and broken: the rest is flushed */
				break;
		} else if (queue->backlog.exists) {
			return completed;
		} else {
			set_backlog(queue, true);
		}
	}
	set_backlog(queue, false);
	return completed;
}

/* A bad receive fails at once, even if there is never a connection. */
static bool fail_if_bad(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor)
{
	struct segment segments[MAX_SEGMENTS];
	uint32_t error, tail = atomic_load(&queue->tail);
	unsigned count;

	error = descriptor_read_receive(queue, descriptor, segments, &count);
	if (!error)
		return false;
	lock_acquire(&queue->cq->lock);
	cq_catch_up(queue->cq);
	if (atomic_load(&queue->done) == tail - 1) {
		workqueue_complete_oldest(queue, error, 0, 0);
		queue->submitted = tail;
	}
	lock_release(&queue->cq->lock);
	return true;
}

/* Until where are no checks needed? The depth changes while the queue is not open. */
static uint32_t post_limit(const struct workqueue *queue)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	uint32_t ring = QUEUE_DESCRIPTORS - (tail - atomic_load_explicit(&queue->head, memory_order_acquire));
	uint32_t with_device = under_way(queue), device;

	if (!is_open(queue) || queue->submitted != tail)
		return tail;
	device = queue->depth > with_device ? queue->depth - with_device : 0;
	return tail + (ring < device ? ring : device);
}

/* Handles the descriptor that was posted last. Releases the queue's lock. */
static __attribute__((noinline)) VIP_RETURN submit_posted(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor)
{
	bool completed = false;
	struct vi *vi = queue->vi;

	switch (queue->mode) {
	case QUEUE_OPEN:
		completed = is_open(queue) && !queue->backlog.exists && submit_backlog(queue);
		break;
	case QUEUE_HOLDS:
		completed = queue->is_receive && fail_if_bad(queue, descriptor);
		break;
	case QUEUE_FLUSHES:
		lock_acquire(&queue->cq->lock);
		cq_catch_up(queue->cq);
		workqueue_flush_locked(queue);
		lock_release(&queue->cq->lock);
		completed = true;
		break;
	}
	queue->limit = post_limit(queue);
	if (completed)
		object_hold(&vi->object);
	lock_release(&queue->lock);

	if (completed) {
		lock_acquire(&queue->cq->lock);
		cq_unlock_and_submit(queue->cq, &vi->object, true, VIP_SUCCESS);
		vi_put(vi);
	}
	return VIP_SUCCESS;
}

/* There are as many descriptors as there can be. Releases the queue's lock. */
static __attribute__((noinline)) VIP_RETURN overrun(struct workqueue *queue,
						    VIP_DESCRIPTOR *descriptor)
{
	struct vi *vi = queue->vi;

	object_hold(&vi->object);
	lock_release(&queue->lock);
	error_of_post(vi, VIP_ERROR_VI_OVERRUN, operation(queue->is_receive, descriptor),
		      descriptor);
	vi_put(vi);
	return VIP_ERROR_RESOURCE;
}

/* The queue's lock is held. */
static inline void append_posted(struct workqueue *queue, uint32_t tail, uint32_t operation,
				 VIP_DESCRIPTOR *descriptor)
{
	struct posted *posted = ring_at(queue, tail);

	descriptor->CS.Status = 0;
	posted->descriptor = descriptor;
	posted->status = operation;
	atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
}

/* What descriptor_read_short_send() has read just now, or a receive. */
static inline uint32_t operation_of_short(const struct workqueue *queue, bool is_receive)
{
	_Static_assert(VIP_CONTROL_OP_SENDRECV == 0 && VIP_STATUS_OP_SEND == 0 &&
			       VIP_CONTROL_OP_RDMAWRITE == 1,
		       "there is no branch for these two");
	return is_receive ? VIP_STATUS_OP_RECEIVE
			  : (uint32_t)queue->sending.control * VIP_STATUS_OP_RDMA_WRITE;
}

/* Posts with all checks. Releases the queue's lock. */
static __attribute__((noinline)) VIP_RETURN post_with_checks(struct workqueue *queue, VIP_DESCRIPTOR *descriptor)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	if (tail - atomic_load_explicit(&queue->head, memory_order_acquire) >= QUEUE_DESCRIPTORS)
		return overrun(queue, descriptor);
	append_posted(queue, tail, operation(queue->is_receive, descriptor), descriptor);
	return submit_posted(queue, descriptor);
}

/* Before the limit, and with a place reserved in the CQ: posts a descriptor that is not a short one. */
static __attribute__((noinline)) VIP_RETURN post_long(struct workqueue *queue,
						      VIP_DESCRIPTOR *descriptor)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed), error;

	append_posted(queue, tail, operation(queue->is_receive, descriptor), descriptor);
	if (hand_over(queue, descriptor, &error))
		return submit_posted(queue, descriptor);
	lock_release(&queue->lock);
	return VIP_SUCCESS;
}

/* A short one that the device has not taken. */
static __attribute__((noinline)) VIP_RETURN post_refused(struct workqueue *queue)
{
	cq_unreserve(queue->cq);
	return submit_posted(queue, ring_at(queue, queue->submitted)->descriptor);
}

/*
 * The queue's lock is held, and released here. Until the tail is at the limit the queue is open and has no backlog, and ring and
 * device have room. Completions only make more room. Code that changes any of this moves the limit to the tail. Only the room in
 * a VIPL CQ is checked each time, because other queues fill it, too.
 *
 * Each unusual case ends in another function, so that only the queue is kept over a call.
 */
static inline __attribute__((always_inline))
VIP_RETURN post_to(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue, bool is_receive)
{
	/* This is queue->vi, without a load. */
	const struct vi *vi = (const struct vi *)((const char *)queue -
						  (is_receive ? offsetof(struct vi, receive)
							      : offsetof(struct vi, send)));
	uint32_t tail;

	if (!is_named(queue, handle))
		return object_unlock_bad_handle(&queue->lock);
	tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	if (tail == queue->limit || !cq_reserve_at_once(queue->cq, is_receive))
		return post_with_checks(queue, descriptor);
	if (!(is_receive ? descriptor_read_short_receive(queue, vi, descriptor)
			 : descriptor_read_short_send(queue, vi, descriptor)))
		return post_long(queue, descriptor);
	append_posted(queue, tail, operation_of_short(queue, is_receive), descriptor);
	if (is_receive ? queue->ops->post_receive(vi->endpoint, &queue->segment, 1)
		       : queue->ops->post_send(vi->endpoint, &queue->sending))
		return post_refused(queue);
	advance(queue);
	lock_release(&queue->lock);
	return VIP_SUCCESS;
}

static __attribute__((noinline)) VIP_RETURN post_slowly(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue)
{
	lock_wait(&queue->lock);
	return queue->is_receive ? post_to(handle, descriptor, queue, true) : post_to(handle, descriptor, queue, false);
}

VIP_RETURN workqueue_post_send(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue)
{
	return lock_try(&queue->lock) ? post_to(handle, descriptor, queue, false) : post_slowly(handle, descriptor, queue);
}

VIP_RETURN workqueue_post_receive(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue)
{
	return lock_try(&queue->lock) ? post_to(handle, descriptor, queue, true) : post_slowly(handle, descriptor, queue);
}

bool workqueue_submit_backlog(struct workqueue *queue)
{
	bool completed = false, had_room;
	uint32_t before;

	workqueue_lock(queue);
	before = queue->submitted;
	queue->sending.by_library = thread_is_library ? POSTED_BY_LIBRARY : 0;
	if (is_open(queue))
		completed = submit_backlog(queue);
	queue->sending.by_library = 0;
	had_room = queue->submitted != before;
	lock_release(&queue->lock);
	if (completed)
		cq_kick(queue->cq);
	return had_room;
}
