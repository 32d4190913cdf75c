/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A VI's send or receive queue: a ring of the descriptors that were posted, in that order.
 *
 *     head <= done <= submitted <= tail
 *
 * [head, done) are completed and wait for the program; [done, submitted) are with the device;
 * [submitted, tail) are still here, but that parts of the first of these may be with the device:
 * some sends take it several requests. Posting moves tail and submitted under the queue's lock; the
 * CQ's lock guards done. Taking moves head: workqueue_take.c. All are atomic since each side reads the other's.
 */
#ifndef VIPL_WORKQUEUE_H
#define VIPL_WORKQUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "cq.h"
#include "region_table.h"
#include "vipl.h"

#define QUEUE_DESCRIPTORS 1024u /* MaxDescriptorsPerQueue; a power of two */
_Static_assert(RECEIVE_DEPTH == QUEUE_DESCRIPTORS, "the device must be able to take all receives: the peer sees them there");

#define QUEUE_HINTS	  4u /* a power of two */

enum queue_mode {
	QUEUE_HOLDS,   /* keeps descriptors: receives before there is a connection */
	QUEUE_OPEN,    /* the device takes descriptors */
	QUEUE_FLUSHES, /* completes descriptors at once */
};

struct posted {
	VIP_DESCRIPTOR *descriptor;
	uint32_t status; /* its operation; once it is done, what was written into it */
};

/* One thread may post while another completes. So what they write is on different cache lines. */
struct workqueue {
	/* The queue of the next VI in this memory keeps the members before the next blank line: see object_at(). */
	alignas(OBJECT_ALIGNMENT) struct lock lock; /* posting, and taking if the CQ is a VIPL CQ */
	struct vi *vi;
	_Atomic(struct cq *) cq;
	_Atomic(struct cq *) own_cq; /* the same, or NULL if it is a VIPL CQ */
	/* Of the VI, while calls of the data path may come: written with both locks, read with one. */
	_Atomic(VIP_VI_HANDLE) handle;

	const struct device_ops *ops;
	struct posted *ring;
	unsigned depth;
	uint32_t number; /* in a VIPL CQ, among the queues there */
	bool is_receive;

	/* Guarded by the queue's lock. */
	alignas(OBJECT_ALIGNMENT) enum queue_mode mode;
	uint32_t limit; /* until `tail` is here posts may skip the checks: see post_to() */
	_Atomic uint32_t tail;
	uint32_t submitted;
	uint32_t offset; /* bytes of the descriptor at `submitted` for which the device has requests, or had: its parts */
	struct device_send sending; /* the send that is being posted, if it is short: it has this segment */
	struct segment segment;
	struct region_hint regions[QUEUE_HINTS]; /* see hint_for(); all have the VI's tag */

	/* Guarded by the CQ's lock, but `head` by the queue's if the CQ is a VIPL CQ. */
	alignas(OBJECT_ALIGNMENT) _Atomic uint32_t head;
	_Atomic uint32_t done;
	_Atomic uint32_t parts; /* requests under way that are not the last of their descriptor; counted up with the queue's lock */
	uint32_t part_error; /* of a part of the descriptor at `done` */
	uint32_t entries;	     /* in a VIPL CQ */
	uint32_t waiting;	     /* completions that wait for an entry there: see entries.h */
	uint32_t orphaned;	     /* requests that the device had when workqueue_drop() emptied the ring for good */
	struct queue_backlog backlog;
};

/* Makes a queue of memory in the VI. If it is not new it was the queue of an earlier VI. */
void workqueue_clear(struct workqueue *queue, struct vi *vi, bool is_new);
/* [nic] `submit`: workqueue_submit_backlog(). 0 or errno. */
int workqueue_init(struct workqueue *queue, struct cq *cq, bool is_receive, bool (*submit)(struct workqueue *));
/* [nic] Leaves its CQ's lists, too. */
void workqueue_destroy(struct workqueue *queue);

/* Sets the VI's handle as calls of the data path see it. After NULL none of them is inside any more. */
void workqueue_set_handle(struct workqueue *queue, VIP_VI_HANDLE handle);

/*
 * VipPostSend and VipPostRecv, VipSendDone and VipRecvDone: their arguments, and the queue at the handle's place. The queue may
 * be of any VI, or of none: they check whether it is of the VI with this handle. The arguments stay in their registers.
 */
VIP_RETURN workqueue_post_send(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue);
VIP_RETURN workqueue_post_receive(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, struct workqueue *queue);
VIP_RETURN workqueue_take(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor, struct workqueue *queue);

/*
 * Submits as much of the backlog as the device has room for. Called after a completion, or when the queue is opened. Returns true
 * if there was some room.
 */
bool workqueue_submit_backlog(struct workqueue *queue);

/* There is a descriptor to take. */
static inline bool queue_has_done(const struct workqueue *queue)
{
	return atomic_load_explicit(&queue->head, memory_order_acquire) !=
	       atomic_load_explicit(&queue->done, memory_order_acquire);
}

static inline bool workqueue_is_empty(const struct workqueue *queue)
{
	return atomic_load(&queue->head) == atomic_load(&queue->tail);
}

/* What follows is for when a connection begins, stalls or ends: workqueue_reset.c. */

void workqueue_set_mode(struct workqueue *queue, enum queue_mode mode);

/* Takes back what the device had, and sets the mode. */
void workqueue_recall(struct workqueue *queue, enum queue_mode mode);

/* Forgets everything that is posted; its memory may be gone. */
void workqueue_drop(struct workqueue *queue);

/* Completes what the device has, though the device has not reported it. */
void workqueue_assume_done(struct workqueue *queue);

/* Completes everything that is posted as flushed. */
void workqueue_flush(struct workqueue *queue);

#endif
