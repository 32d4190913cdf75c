/* SPDX-License-Identifier: BSD-2-Clause */
/* Deferred work: which queues of a CQ have some, and the functions that run it. */
#include "deferred.h"

#include "nic.h"
#include "workqueue.h"

void deferred_init(struct cq_deferred *deferred)
{
	TAILQ_INIT(&deferred->backlogs);
	TAILQ_INIT(&deferred->due);
}

void deferred_add(struct workqueue *queue)
{
	struct cq_deferred *deferred = &queue->cq->deferred;

	if (queue->deferred.is_due)
		return;
	queue->deferred.is_due = true;
	TAILQ_INSERT_TAIL(&deferred->due, queue, deferred.in_due);
	atomic_store(&deferred->maybe, true);
}

/* The CQ's lock is held. */
static void remove_due(struct workqueue *queue)
{
	if (queue->deferred.is_due)
		TAILQ_REMOVE(&queue->cq->deferred.due, queue, deferred.in_due);
	queue->deferred.is_due = false;
}

void deferred_leave_to_agent(struct cq *cq)
{
	if (deferred_is_due(&cq->deferred))
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
	bool is_new = !queue->deferred.has_backlog;

	backlog_remove(queue);
	TAILQ_INSERT_TAIL(&deferred->backlogs, queue, deferred.in_backlogs); /* others come first now */
	queue->deferred.has_backlog = true;
	atomic_store(&deferred->maybe, true);
	if (is_new)
		agent_wake(queue->cq->nic); /* the program may not ask for completions */
}

void backlog_remove(struct workqueue *queue)
{
	if (queue->deferred.has_backlog)
		TAILQ_REMOVE(&queue->cq->deferred.backlogs, queue, deferred.in_backlogs);
	queue->deferred.has_backlog = false;
}

void backlogs_retry(struct cq *cq)
{
	struct workqueue *queue;

	/* They stay on the list until they are submitted: a thread that completes meanwhile waits for that. */
	TAILQ_FOREACH(queue, &cq->deferred.backlogs, deferred.in_backlogs)
		deferred_add(queue);
}

static struct workqueue *next_due(struct cq *cq)
{
	struct workqueue *queue;

	lock_acquire(&cq->lock);
	queue = TAILQ_FIRST(&cq->deferred.due);
	if (queue)
		remove_due(queue);
	lock_release(&cq->lock);
	return queue;
}

/* The NIC's lock is held. */
static void run_locked(struct cq *cq)
{
	struct workqueue *queue;

	while ((queue = next_due(cq)))
		queue->deferred.run(queue);
}

void deferred_run(struct cq *cq)
{
	pthread_mutex_lock(&cq->nic->lock);
	run_locked(cq);
	pthread_mutex_unlock(&cq->nic->lock);
}

bool deferred_serve(struct cq *cq, bool *progress)
{
	struct cq_deferred *deferred = &cq->deferred;
	bool backlogs, polled = false;

	if (!atomic_load_explicit(&deferred->maybe, memory_order_acquire))
		return false; /* and the CQ's lock is left to the threads that use it */
	lock_acquire(&cq->lock);
	if (deferred_has_backlogs(deferred)) {
		polled = cq_poll_locked(cq);
		backlogs_retry(cq); /* room may have come without a completion, too */
	}
	lock_release(&cq->lock);
	run_locked(cq);
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	lock_acquire(&cq->lock);
	backlogs = deferred_has_backlogs(deferred);
	atomic_store(&deferred->maybe, backlogs || deferred_is_due(deferred));
	lock_release(&cq->lock);
	return backlogs;
}
