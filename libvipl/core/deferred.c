/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work: which queues of a CQ have some, and the threads that do it. */
#include "deferred.h"

#include "base/cancel.h"
#include "nic.h"
#include "workqueue.h"

#define MOST_AT_ONCE 16u /* backlogs that a call tries; a poll finds half as many completions */

void deferred_init(struct cq_deferred *deferred)
{
	TAILQ_INIT(&deferred->in_turn);
	TAILQ_INIT(&deferred->due);
}

void deferred_add(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (queue->deferred.is_due)
		return;
	queue->deferred.is_due = true;
	TAILQ_INSERT_TAIL(&deferred->due, queue, deferred.in_due);
	deferred->pending = true;
	atomic_store(&deferred->has_due, true);
}

/* The CQ's lock is held. */
static void remove_due(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (queue->deferred.is_due)
		TAILQ_REMOVE(&deferred->due, queue, deferred.in_due);
	queue->deferred.is_due = false;
	atomic_store(&deferred->has_due, !TAILQ_EMPTY(&deferred->due));
}

void deferred_leave_to_agent(struct cq *cq)
{
	if (cq->deferred.pending)
		agent_wake(cq->nic);
}

void deferred_forget(struct workqueue *queue)
{
	backlog_remove(queue);
	remove_due(queue);
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
		had_room &= queue->deferred.functions->submit(queue);
		object_put(&queue->vi->object);
	}
	return all > most && had_room;
}

/* The CQ's lock is held. `owner`: the VI that a queue has to be of, or NULL. */
static struct workqueue *find_due(const struct cq *cq, const struct object *owner)
{
	struct workqueue *queue;

	TAILQ_FOREACH(queue, &cq->deferred.due, deferred.in_due)
		if (!owner || &queue->vi->object == owner)
			break;
	return queue;
}

static struct workqueue *next_due(struct cq *cq, const struct object *owner)
{
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	queue = find_due(cq, owner);
	if (queue)
		remove_due(queue);
	lock_release(&cq->lock);
	return queue;
}

/* The NIC's lock is held. */
static void run_due(struct cq *cq, const struct object *owner)
{
	struct workqueue *queue;

	while ((queue = next_due(cq, owner)))
		queue->deferred.functions->run(queue);
}

static bool has_due(struct cq *cq, const struct object *owner)
{
	bool found;

	if (!atomic_load(&cq->deferred.has_due))
		return false;
	lock_acquire(&cq->lock);
	found = find_due(cq, owner);
	lock_release(&cq->lock);
	return found;
}

/* Leaves to the agent what this thread has not done of the pending work. */
static void leave_rest(struct cq *cq, bool has_more)
{
	bool rest;

	lock_acquire(&cq->lock);
	rest = cq->deferred.pending && (has_more || !TAILQ_EMPTY(&cq->deferred.due));
	cq->deferred.pending = false;
	lock_release(&cq->lock);
	if (rest)
		agent_wake(cq->nic);
}

void deferred_run(struct cq *cq, const struct object *owner)
{
	int cancel = cancel_hold();
	bool has_more = false;

	if (atomic_load(&cq->deferred.backlogs)) {
		has_more = submit_backlogs(cq, MOST_AT_ONCE);
		atomic_store(&cq->deferred.is_served, !has_more);
	}
	if (has_due(cq, owner) && !pthread_mutex_trylock(&cq->nic->lock)) {
		run_due(cq, owner);
		pthread_mutex_unlock(&cq->nic->lock);
	}
	leave_rest(cq, has_more);
	cancel_resume(cancel);
}

bool deferred_serve(struct cq *cq, bool may_skip, bool *progress)
{
	struct cq_deferred *deferred = &cq->deferred;
	unsigned backlogs = atomic_load(&deferred->backlogs);
	bool polled = false, is_due = atomic_load(&deferred->has_due);

	/* The CQ's lock is left to the threads that use it. */
	if (!backlogs && !is_due)
		return false;
	if (atomic_exchange(&deferred->is_served, false) && may_skip && !is_due)
		return true;
	lock_acquire(&cq->lock);
	backlogs = atomic_load(&deferred->backlogs);
	if (backlogs)
		polled = cq_poll_locked(cq);
	deferred->pending = false;
	lock_release(&cq->lock);
	submit_backlogs(cq, backlogs); /* room may have come without a completion, too */
	run_due(cq, NULL);
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	return atomic_load(&deferred->backlogs);
}
