/* SPDX-License-Identifier: BSD-2-Clause */
/* Backlogs: which queues of a CQ have one, and the threads that submit them. */
#include "backlog.h"

#include "base/cancel.h"
#include "nic.h"
#include "workqueue.h"

#define MOST_AT_ONCE 16u /* backlogs that a call tries; a poll of verbs finds half as many completions */

void backlogs_init(struct cq_backlogs *backlogs)
{
	TAILQ_INIT(&backlogs->in_turn[false]);
	TAILQ_INIT(&backlogs->in_turn[true]);
}

void backlogs_leave_to_agent(struct cq *cq)
{
	if (cq->backlogs.pending)
		agent_wake(cq->nic);
}

void backlog_add(struct workqueue *queue)
{
	struct cq_backlogs *backlogs = &queue->cq->backlogs;

	TAILQ_INSERT_TAIL(&backlogs->in_turn[queue->is_receive], queue, backlog.in_turn);
	backlogs->in_list[queue->is_receive]++;
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
	TAILQ_REMOVE(&backlogs->in_turn[queue->is_receive], queue, backlog.in_turn);
	backlogs->in_list[queue->is_receive]--;
	queue->backlog.exists = false;
	atomic_fetch_sub(&backlogs->count, 1);
}

/* If a call cannot try all, those that have completed something come first, and some of the others in turn. */
void backlog_progresses(struct workqueue *queue)
{
	struct cq_backlogs *backlogs = &queue->cq->backlogs;
	struct queue_list *list = &backlogs->in_turn[queue->is_receive];

	if (atomic_load_explicit(&backlogs->count, memory_order_relaxed) <= MOST_AT_ONCE)
		return;
	TAILQ_REMOVE(list, queue, backlog.in_turn);
	TAILQ_INSERT_HEAD(list, queue, backlog.in_turn);
}

/* The next queue of the list, with a reference to its VI. A VI that is being destroyed has nothing to submit. */
static struct workqueue *next_in_turn(struct cq *cq, struct queue_list *list)
{
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	TAILQ_FOREACH(queue, list, backlog.in_turn)
		if (object_hold(&queue->vi->object))
			break;
	if (queue) {
		TAILQ_REMOVE(list, queue, backlog.in_turn);
		TAILQ_INSERT_TAIL(list, queue, backlog.in_turn);
	}
	lock_release(&cq->lock);
	return queue;
}

/* Tries so many of the list. True when there was room for some. */
static bool try_some(struct cq *cq, struct queue_list *list, unsigned count)
{
	bool had_room = false;
	struct workqueue *queue;

	while (count-- && (queue = next_in_turn(cq, list))) {
		had_room |= queue->backlog.submit(queue);
		object_put(&queue->vi->object);
	}
	return had_room;
}

/*
 * Tries each backlog once, or as many as this. True when it has left out some, and there was room for some. Receives may stay for
 * ever, and room that only sends may use is not found if receives come first.
 */
static bool try_in_turn(struct cq *cq, unsigned most)
{
	struct cq_backlogs *backlogs = &cq->backlogs;
	unsigned sends, receives, all;
	bool had_room;

	lock_acquire(&cq->lock);
	sends = backlogs->in_list[false];
	receives = backlogs->in_list[true];
	lock_release(&cq->lock);
	all = sends + receives;
	sends = sends < most ? sends : most;
	receives = receives < most - sends ? receives : most - sends;
	had_room = try_some(cq, &backlogs->in_turn[false], sends);
	had_room |= try_some(cq, &backlogs->in_turn[true], receives);
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
