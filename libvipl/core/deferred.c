/* SPDX-License-Identifier: BSD-2-Clause */
/* Backlogs: which queues of a CQ have one, and the threads that submit them. */
#include "deferred.h"

#include "base/cancel.h"
#include "nic.h"
#include "workqueue.h"

#define MOST_AT_ONCE 16u /* backlogs that a call tries; a poll finds half as many completions */

void deferred_init(struct cq_deferred *deferred)
{
	TAILQ_INIT(&deferred->in_turn);
}

void deferred_leave_to_agent(struct cq *cq)
{
	if (cq->deferred.pending)
		agent_wake(cq->nic);
}

void backlog_add(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	TAILQ_INSERT_TAIL(&deferred->in_turn, queue, deferred.in_turn);
	queue->deferred.has_backlog = true;
	atomic_fetch_add(&deferred->backlogs, 1);
	atomic_store(&deferred->is_served, true); /* there was no room just now */
	agent_wake(queue->cq->nic);		  /* the program may not ask for completions */
}

void backlog_remove(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (!queue->deferred.has_backlog)
		return;
	TAILQ_REMOVE(&deferred->in_turn, queue, deferred.in_turn);
	queue->deferred.has_backlog = false;
	atomic_fetch_sub(&deferred->backlogs, 1);
}

/* If a call cannot try all, those that have completed something come first, and some of the others in turn. */
void backlog_progresses(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (atomic_load_explicit(&deferred->backlogs, memory_order_relaxed) <= MOST_AT_ONCE)
		return;
	TAILQ_REMOVE(&deferred->in_turn, queue, deferred.in_turn);
	TAILQ_INSERT_HEAD(&deferred->in_turn, queue, deferred.in_turn);
}

/* The next queue with a backlog, with a reference to its VI. A VI that is being destroyed has nothing to submit. */
static struct workqueue *next_in_turn(struct cq *cq)
{
	struct cq_deferred *deferred = &cq->deferred;
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	TAILQ_FOREACH(queue, &deferred->in_turn, deferred.in_turn)
		if (object_hold(&queue->vi->object))
			break;
	if (queue) {
		TAILQ_REMOVE(&deferred->in_turn, queue, deferred.in_turn);
		TAILQ_INSERT_TAIL(&deferred->in_turn, queue, deferred.in_turn);
	}
	lock_release(&cq->lock);
	return queue;
}

/* Tries each backlog once, or as many as this. True when it has left out some, and there was room for all that were tried. */
static bool submit_backlogs(struct cq *cq, unsigned most)
{
	const unsigned all = atomic_load(&cq->deferred.backlogs);
	unsigned count = all < most ? all : most;
	bool had_room = true;
	struct workqueue *queue;

	while (count-- && (queue = next_in_turn(cq))) {
		had_room &= queue->deferred.submit(queue);
		object_put(&queue->vi->object);
	}
	return all > most && had_room;
}

/* Leaves to the agent what this thread has not done. */
static void leave_rest(struct cq *cq, bool has_more)
{
	bool rest;

	lock_acquire(&cq->lock);
	rest = cq->deferred.pending && has_more;
	cq->deferred.pending = false;
	lock_release(&cq->lock);
	if (rest)
		agent_wake(cq->nic);
}

void deferred_run(struct cq *cq)
{
	int cancel = cancel_hold();
	bool has_more = submit_backlogs(cq, MOST_AT_ONCE);

	atomic_store(&cq->deferred.is_served, !has_more);
	leave_rest(cq, has_more);
	cancel_resume(cancel);
}

bool deferred_serve(struct cq *cq, bool may_skip, bool *progress)
{
	struct cq_deferred *deferred = &cq->deferred;
	unsigned backlogs;
	bool polled;

	/* The CQ's lock is left to the threads that use it. */
	if (!atomic_load(&deferred->backlogs))
		return false;
	if (atomic_exchange(&deferred->is_served, false) && may_skip)
		return true;
	lock_acquire(&cq->lock);
	backlogs = atomic_load(&deferred->backlogs);
	polled = cq_poll_locked(cq);
	deferred->pending = false;
	lock_release(&cq->lock);
	submit_backlogs(cq, backlogs); /* room may have come without a completion, too */
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	return atomic_load(&deferred->backlogs);
}
