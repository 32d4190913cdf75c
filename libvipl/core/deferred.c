/* SPDX-License-Identifier: BSD-2-Clause */
/* Backlogs: which queues of a CQ have one, and the threads that submit them. */
#include "deferred.h"

#include "base/cancel.h"
#include "nic.h"
#include "workqueue.h"

#define MOST_AT_ONCE 16u /* backlogs that a call submits; a poll finds half as many completions */

void deferred_init(struct cq_deferred *deferred)
{
	TAILQ_INIT(&deferred->waiting);
	TAILQ_INIT(&deferred->crowded[false]);
	TAILQ_INIT(&deferred->crowded[true]);
	TAILQ_INIT(&deferred->ready);
}

void deferred_leave_to_agent(struct cq *cq)
{
	if (cq->deferred.pending)
		agent_wake(cq->nic);
}

/* The CQ's lock is held. NULL: the queue is in no list of backlogs. */
static void move_to_list(struct workqueue *queue, struct queue_list *list)
{
	struct cq_deferred *deferred = &queue->cq->deferred;
	struct queue_list *crowded = &deferred->crowded[queue->is_receive];

	if (queue->deferred.backlog_in) {
		TAILQ_REMOVE(queue->deferred.backlog_in, queue, deferred.in_backlogs);
		deferred->crowd -= queue->deferred.backlog_in == crowded;
	}
	queue->deferred.backlog_in = list;
	if (list) {
		TAILQ_INSERT_TAIL(list, queue, deferred.in_backlogs);
		deferred->crowd += list == crowded;
	}
	if (list == &deferred->ready)
		deferred->pending = true;
}

void backlog_add(struct workqueue *queue, bool crowded)
{
	struct cq_deferred *deferred = &queue->cq->deferred;
	bool is_new = !queue->deferred.has_backlog;

	move_to_list(queue, crowded ? &deferred->crowded[queue->is_receive] : &deferred->waiting);
	queue->deferred.has_backlog = true;
	if (!is_new)
		return;
	atomic_fetch_add(&deferred->backlogs, 1);
	atomic_store(&deferred->is_served, true); /* there was no room just now */
	agent_wake(queue->cq->nic);		  /* the program may not ask for completions */
}

void backlog_remove(struct workqueue *queue)
{
	move_to_list(queue, NULL);
	atomic_fetch_sub(&queue->cq->deferred.backlogs, queue->deferred.has_backlog);
	queue->deferred.has_backlog = false;
}

void backlog_has_room(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (queue->deferred.backlog_in != &deferred->ready)
		move_to_list(queue, &deferred->ready);
	deferred->pending = true; /* again: another thread may have left it to the agent */
}

static unsigned room_for(struct cq *cq, bool is_receive)
{
	unsigned outstanding = cq_outstanding(cq);
	unsigned share = cq_share(cq, atomic_load(&cq->capacity), is_receive);

	return outstanding < share ? share - outstanding : 0;
}

void backlogs_admit(struct cq *cq)
{
	struct cq_deferred *deferred = &cq->deferred;

	for (int is_receive = false; is_receive <= true; is_receive++) {
		struct queue_list *crowded = &deferred->crowded[is_receive];
		unsigned room = room_for(cq, is_receive);

		for (unsigned i = 0; i < MOST_AT_ONCE && i < room && !TAILQ_EMPTY(crowded); i++)
			move_to_list(TAILQ_FIRST(crowded), &deferred->ready);
	}
}

/* The CQ's lock is held. */
static void retry_all(struct cq_deferred *deferred, struct queue_list *list)
{
	while (!TAILQ_EMPTY(list))
		move_to_list(TAILQ_FIRST(list), &deferred->ready);
}

/* The next queue that is ready, with a reference to its VI. A VI that is being destroyed has nothing to submit. */
static struct workqueue *next_ready(struct cq *cq)
{
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	while ((queue = TAILQ_FIRST(&cq->deferred.ready))) {
		move_to_list(queue, NULL);
		if (object_hold(&queue->vi->object))
			break;
	}
	lock_release(&cq->lock);
	return queue;
}

/* True when there were some. */
static bool submit_ready(struct cq *cq, unsigned most)
{
	struct workqueue *queue;
	unsigned count = 0;

	while (count < most && (queue = next_ready(cq))) {
		queue->deferred.submit(queue);
		object_put(&queue->vi->object);
		count++;
	}
	return count;
}

/* Leaves to the agent what this thread has not done of the pending work. */
static void leave_rest(struct cq *cq)
{
	struct cq_deferred *deferred = &cq->deferred;
	bool rest;

	lock_acquire(&cq->lock);
	rest = deferred->pending && !TAILQ_EMPTY(&deferred->ready);
	deferred->pending = false;
	lock_release(&cq->lock);
	if (rest)
		agent_wake(cq->nic);
}

void deferred_run(struct cq *cq)
{
	int cancel = cancel_hold();

	if (submit_ready(cq, MOST_AT_ONCE))
		atomic_store(&cq->deferred.is_served, true);
	leave_rest(cq);
	cancel_resume(cancel);
}

bool deferred_serve(struct cq *cq, bool may_skip, bool *progress)
{
	struct cq_deferred *deferred = &cq->deferred;
	unsigned ready;
	bool polled;

	/* The CQ's lock is left to the threads that use it. */
	if (!atomic_load_explicit(&deferred->backlogs, memory_order_acquire))
		return false;
	if (atomic_exchange(&deferred->is_served, false) && may_skip)
		return true;
	lock_acquire(&cq->lock);
	ready = atomic_load(&deferred->backlogs);
	polled = cq_poll_locked(cq);
	/* Room may have come without a completion, too. */
	retry_all(deferred, &deferred->waiting);
	retry_all(deferred, &deferred->crowded[false]);
	retry_all(deferred, &deferred->crowded[true]);
	deferred->pending = false;
	lock_release(&cq->lock);
	submit_ready(cq, ready);
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	return atomic_load(&deferred->backlogs);
}
