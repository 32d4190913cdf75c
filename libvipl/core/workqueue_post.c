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

/* After an error nothing more goes to the device, also before the agent ends the connection. */
static bool is_open(const struct workqueue *queue)
{
	return queue->mode == QUEUE_OPEN && !atomic_load(&queue->vi->broken);
}

bool workqueue_next_part(struct workqueue *queue, uint32_t length)
{
	queue->parts++;
	queue->offset += length;
	if (queue->credits)
		queue->credits--;
	return under_way(queue) < queue->depth && cq_reserve(queue->cq, false);
}

/* Why the oldest descriptor that is still here could not be handed over. */
struct refusal {
	enum { NOTHING, NO_ROOM, NO_MEMORY, REFUSED } hindrance;
	bool earlier;	/* earlier requests were under way */
	uint32_t error; /* an error bit when it is the descriptor's fault */
};

/* Gives the reserved entry back, except for EINPROGRESS. `error`: the descriptor's fault; `rc`: the device's errno. */
static __attribute__((noinline)) struct refusal refusal_of(struct workqueue *queue, bool earlier,
							   uint32_t error, int rc)
{
	if (rc == EINPROGRESS) /* there is no room for the rest */
		return (struct refusal){NO_ROOM, earlier, 0};
	cq_unreserve(queue->cq);
	if (rc == EACCES)
		log_error_ratelimited("a descriptor is refused: %s", failure_of(queue->is_receive ? "ibv_post_recv()" : "ibv_post_send()", rc));
	return (struct refusal){rc == ENOBUFS ? NO_MEMORY : REFUSED, earlier, error};
}

/*
 * Hands the oldest descriptor that is still here to the device; there is room for it. `earlier`: other requests may be
 * under way.
 */
static __attribute__((noinline)) struct refusal submit(struct workqueue *queue,
							  const VIP_DESCRIPTOR *descriptor,
							  bool earlier)
{
	struct segment segments[MAX_SEGMENTS];
	struct device_send send;
	uint32_t error;
	unsigned count;
	int rc;

	error = queue->is_receive ? descriptor_read_receive(queue, descriptor, segments, &count)
				  : descriptor_read_send(queue, descriptor, segments, &send);
	if (error)
		return refusal_of(queue, earlier, error, 0);
	if (queue->is_receive) {
		rc = queue->ops->post_receive(queue->vi->endpoint, segments, count);
	} else {
		send.offset = queue->offset;
		send.by_library = queue->sending.by_library;
		rc = queue->ops->post_send(queue->vi->endpoint, &send);
	}
	if (rc)
		return refusal_of(queue, earlier, 0, rc);
	advance(queue);
	return (struct refusal){NOTHING, earlier, 0};
}

/* Hands over the oldest descriptor that is still here, if there is room. The queue's lock is held. */
static struct refusal try_submit(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor)
{
	uint32_t before = under_way(queue);

	if (before >= queue->depth || !cq_reserve(queue->cq, queue->is_receive))
		return (struct refusal){NO_ROOM, before > 0, 0};
	return submit(queue, descriptor, before > 0);
}

/* The CQ's lock is held: the oldest descriptor that is still here has failed, and all before it are done. */
static void fail(struct workqueue *queue, uint32_t error)
{
	cq_catch_up(queue->cq);
	if (atomic_load(&queue->done) != queue->submitted)
		return; /* a device may complete what was never posted */
	advance(queue);
	workqueue_note_error(queue, workqueue_complete_oldest(queue, error, 0, 0));
}

/*
 * The oldest descriptor that is still here could not be handed over.
 *
 * - Requests are under way: it waits for them, because errors are reported in order and room may come.
 * - There was no memory: it waits, and the agent tries again.
 * - There were requests, and they are done by now: it is tried again at once.
 * - Else it fails.
 *
 * Returns true if it is to be tried again at once.
 */
static bool defer_or_fail(struct workqueue *queue, struct refusal why)
{
	struct cq *cq = queue->cq;
	uint32_t requests;
	bool waits, crowded = why.hindrance == NO_MEMORY;

	lock_acquire(&cq->lock);
	requests = under_way(queue);
	waits = requests > 0 || why.hindrance == NO_MEMORY;
	if (why.hindrance == NO_ROOM) {
		crowded = requests < queue->depth;
		waits = !crowded || cq_is_full(cq, queue->is_receive);
	}
	if (waits)
		backlog_add(queue, crowded);
	else if (why.hindrance != NO_ROOM && !why.earlier)
		fail(queue, why.error ? why.error : VIP_STATUS_TRANSPORT_ERROR);
	lock_release(&cq->lock);
	return !waits && (why.hindrance == NO_ROOM || why.earlier);
}

/*
 * The queue's lock is held. `why`: what has just hindered try_submit(), if it was called. Returns true if something was
 * completed here, without the device.
 */
static bool submit_backlog(struct workqueue *queue, struct refusal why)
{
	bool completed = false;

	while (queue->submitted != atomic_load_explicit(&queue->tail, memory_order_relaxed)) {
		if (!why.hindrance)
			why = try_submit(queue, ring_at(queue, queue->submitted)->descriptor);
		if (!why.hindrance)
			continue;
		if (!defer_or_fail(queue, why)) {
			completed |= why.hindrance == REFUSED;
			/* On an Unreliable VI the next one may do better. */
			if (why.hindrance != REFUSED || queue->deferred.has_backlog ||
			    is_reliable(queue->vi))
				return completed;
		}
		why.hindrance = NOTHING;
	}
	if (queue->deferred.has_backlog) { /* no longer */
		lock_acquire(&queue->cq->lock);
		backlog_remove(queue);
		lock_release(&queue->cq->lock);
	}
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

/*
 * Handles the descriptor that was posted last and not handed to the device. `why`: the reason, if that was tried. Releases
 * the queue's lock.
 */
static __attribute__((noinline)) void submit_slowly(struct workqueue *queue,
						const VIP_DESCRIPTOR *descriptor,
						struct refusal why)
{
	bool completed = false;
	struct vi *vi = queue->vi;

	object_hold(&vi->object);
	queue->credits = 0;
	switch (queue->mode) {
	case QUEUE_OPEN:
		completed = is_open(queue) && submit_backlog(queue, why);
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
	lock_release(&queue->lock);

	if (completed) {
		lock_acquire(&queue->cq->lock);
		cq_unlock_and_run(queue->cq, &vi->object, true, VIP_SUCCESS);
	}
	vi_put(vi);
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
	posted->descriptor = descriptor; /* and `next` stays: it is the CQ's */
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

/* There is no backlog: how many descriptors can be posted before the checks are needed again? */
static uint32_t post_credits(const struct workqueue *queue, uint32_t tail)
{
	uint32_t waiting = tail - atomic_load_explicit(&queue->head, memory_order_acquire);
	uint32_t with_device = under_way(queue), ring = QUEUE_DESCRIPTORS - waiting;
	uint32_t device = queue->depth > with_device ? queue->depth - with_device : 0;

	return ring < device ? ring : device;
}

/* Posts with all checks. Releases the queue's lock. */
static __attribute__((noinline)) VIP_RETURN post_with_checks(struct workqueue *queue, VIP_DESCRIPTOR *descriptor)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	struct refusal why = {NOTHING, false, 0};

	if (tail - atomic_load_explicit(&queue->head, memory_order_acquire) >= QUEUE_DESCRIPTORS)
		return overrun(queue, descriptor);
	append_posted(queue, tail, operation(queue->is_receive, descriptor), descriptor);
	if (is_open(queue) && queue->submitted == tail) {
		why = try_submit(queue, descriptor);
		if (!why.hindrance) {
			queue->credits = post_credits(queue, tail + 1);
			lock_release(&queue->lock);
			return VIP_SUCCESS;
		}
	}
	submit_slowly(queue, descriptor, why);
	return VIP_SUCCESS;
}

/* With a credit, and with a place reserved in the CQ: posts a descriptor that is not a short one. */
static __attribute__((noinline)) VIP_RETURN post_long(struct workqueue *queue,
						      VIP_DESCRIPTOR *descriptor)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	struct refusal why;

	queue->credits--;
	append_posted(queue, tail, operation(queue->is_receive, descriptor), descriptor);
	why = submit(queue, descriptor, true);
	if (why.hindrance)
		submit_slowly(queue, descriptor, why);
	else
		lock_release(&queue->lock);
	return VIP_SUCCESS;
}

/* A short one that the device has not taken. */
static __attribute__((noinline)) VIP_RETURN post_refused(struct workqueue *queue, int error)
{
	submit_slowly(queue, ring_at(queue, queue->submitted)->descriptor,
		      refusal_of(queue, true, 0, error));
	return VIP_SUCCESS;
}

/*
 * The queue's lock is held, and released here. While the queue has credits it is open and has no backlog, and the ring and
 * the device have room for as many posts. Completions only make more room. Code that changes any of this sets the credits
 * to 0. Only the room in a VIPL CQ is checked each time, because other queues fill it, too.
 *
 * Each unusual case ends in another function, so that only the queue is kept over a call.
 */
static inline __attribute__((always_inline))
VIP_RETURN post_to(struct workqueue *queue, VIP_VI_HANDLE handle, bool is_receive,
		   VIP_DESCRIPTOR *descriptor)
{
	/* This is queue->vi, without a load. */
	const struct vi *vi = (const struct vi *)((const char *)queue -
						  (is_receive ? offsetof(struct vi, receive)
							      : offsetof(struct vi, send)));
	uint32_t tail;
	int rc;

	if (!is_named(queue, handle))
		return object_unlock_bad_handle(&queue->lock);
	if (!queue->credits || !cq_reserve_at_once(queue->cq, is_receive))
		return post_with_checks(queue, descriptor);
	if (!(is_receive ? descriptor_read_short_receive(queue, vi, descriptor)
			 : descriptor_read_short_send(queue, vi, descriptor)))
		return post_long(queue, descriptor);
	queue->credits--;
	tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	append_posted(queue, tail, operation_of_short(queue, is_receive), descriptor);
	rc = is_receive ? queue->ops->post_receive(vi->endpoint, &queue->segment, 1)
			: queue->ops->post_send(vi->endpoint, &queue->sending);
	if (rc)
		return post_refused(queue, rc);
	advance(queue);
	lock_release(&queue->lock);
	return VIP_SUCCESS;
}

static __attribute__((noinline))
VIP_RETURN post_send_slowly(struct workqueue *queue, VIP_VI_HANDLE handle,
			    VIP_DESCRIPTOR *descriptor)
{
	lock_wait(&queue->lock);
	return post_to(queue, handle, false, descriptor);
}

VIP_RETURN workqueue_post_send(struct workqueue *queue, VIP_VI_HANDLE handle,
			       VIP_DESCRIPTOR *descriptor)
{
	if (!lock_try(&queue->lock))
		return post_send_slowly(queue, handle, descriptor);
	return post_to(queue, handle, false, descriptor);
}

static __attribute__((noinline))
VIP_RETURN post_receive_slowly(struct workqueue *queue, VIP_VI_HANDLE handle,
			       VIP_DESCRIPTOR *descriptor)
{
	lock_wait(&queue->lock);
	return post_to(queue, handle, true, descriptor);
}

VIP_RETURN workqueue_post_receive(struct workqueue *queue, VIP_VI_HANDLE handle,
				  VIP_DESCRIPTOR *descriptor)
{
	if (!lock_try(&queue->lock))
		return post_receive_slowly(queue, handle, descriptor);
	return post_to(queue, handle, true, descriptor);
}

void workqueue_submit_backlog(struct workqueue *queue)
{
	bool completed = false;

	workqueue_lock(queue);
	queue->sending.by_library = thread_is_library ? POSTED_BY_LIBRARY : 0;
	if (is_open(queue))
		completed = submit_backlog(queue, (struct refusal){NOTHING, false, 0});
	queue->sending.by_library = 0;
	lock_release(&queue->lock);
	if (completed)
		cq_kick(queue->cq);
}
