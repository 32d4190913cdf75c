/* SPDX-License-Identifier: BSD-2-Clause */
/* Backlogs: which queues of a CQ have one, and the threads that submit them. */
#include "backlog.h"

#include "base/cancel.h"
#include "nic.h"
#include "workqueue.h"

#define MOST_AT_ONCE 16u /* backlogs that a call tries; a poll finds half as many completions */

void backlogs_init(struct cq_backlogs *backlogs)
{
	TAILQ_INIT(&backlogs->in_turn);
}

void backlogs_leave_to_agent(struct cq *cq)
{
	if (cq->backlogs.pending)
		agent_wake(cq->nic);
}

void backlog_add(struct workqueue *queue)
{
	struct cq_backlogs *backlogs = &queue->cq->backlogs;

	TAILQ_INSERT_TAIL(&backlogs->in_turn, queue, backlog.in_turn);
	queue->backlog.exists = true;
	atomic_fetch_add(&backlogs->count, 1);
	atomic_store(&backlogs->is_served, true); /* there was no room just now */
	agent_wake(queue->cq->nic);		  /* the program may not ask for completions */
}

void backlog_remove(struct workqueue *queue)
{
	struct cq_backlogs *backlogs = &queue->cq->backlogs;

	if (!queue->backlog.exists)
		return;
	TAILQ_REMOVE(&backlogs->in_turn, queue, backlog.in_turn);
	queue->backlog.exists = false;
	atomic_fetch_sub(&backlogs->count, 1);
}

/* If a call cannot try all, those that have completed something come first, and some of the others in turn. */
void backlog_progresses(struct workqueue *queue)
{
	struct cq_backlogs *backlogs = &queue->cq->backlogs;

	if (atomic_load_explicit(&backlogs->count, memory_order_relaxed) <= MOST_AT_ONCE)
		return;
	TAILQ_REMOVE(&backlogs->in_turn, queue, backlog.in_turn);
	TAILQ_INSERT_HEAD(&backlogs->in_turn, queue, backlog.in_turn);
}

/* The next queue with a backlog, with a reference to its VI. A VI that is being destroyed has nothing to submit. */
static struct workqueue *next_in_turn(struct cq *cq)
{
	struct cq_backlogs *backlogs = &cq->backlogs;
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	TAILQ_FOREACH(queue, &backlogs->in_turn, backlog.in_turn)
		if (object_hold(&queue->vi->object))
			break;
	if (queue) {
		TAILQ_REMOVE(&backlogs->in_turn, queue, backlog.in_turn);
		TAILQ_INSERT_TAIL(&backlogs->in_turn, queue, backlog.in_turn);
	}
	lock_release(&cq->lock);
	return queue;
}

/* Tries each backlog once, or as many as this. True when it has left out some, and there was room for all that were tried. */
static bool try_in_turn(struct cq *cq, unsigned most)
{
	const unsigned all = atomic_load(&cq->backlogs.count);
	unsigned count = all < most ? all : most;
	bool had_room = true;
	struct workqueue *queue;

	while (count-- && (queue = next_in_turn(cq))) {
		had_room &= queue->backlog.submit(queue);
		object_put(&queue->vi->object);
	}
	return all > most && had_room;
}

void backlogs_submit(struct cq *cq)
{
	int cancel = cancel_hold();
	bool has_more = try_in_turn(cq, MOST_AT_ONCE);

	atomic_store(&cq->backlogs.is_served, !has_more);
	if (has_more)
		agent_wake(cq->nic);
	cancel_resume(cancel);
}

bool backlogs_serve(struct cq *cq, bool may_skip, bool *progress)
{
	struct cq_backlogs *backlogs = &cq->backlogs;
	unsigned count;
	bool polled;

	/* The CQ's lock is left to the threads that use it. */
	if (!atomic_load(&backlogs->count))
		return false;
	if (atomic_exchange(&backlogs->is_served, false) && may_skip)
		return true;
	lock_acquire(&cq->lock);
	count = atomic_load(&backlogs->count);
	polled = cq_poll_locked(cq);
	backlogs->pending = false;
	lock_release(&cq->lock);
	try_in_turn(cq, count); /* room may have come without a completion, too */
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	return atomic_load(&backlogs->count);
}
