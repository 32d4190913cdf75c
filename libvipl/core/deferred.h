/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred work: what a call has found and must not do under its locks. Each CQ has two lists of queues that
 * complete there:
 *
 * - queues with a backlog: they have descriptors that did not fit the device. A completion makes all of them due;
 * - queues that are due: the function that they were given runs, with the NIC's lock. The thread that lets go of the
 *   CQ's lock runs it (cq_unlock_and_run()), or the agent does.
 *
 * Only deferred.c changes the lists. It knows neither VIs nor descriptors: the function is vi_run_deferred().
 */
#ifndef VIPL_DEFERRED_H
#define VIPL_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct cq;
struct workqueue;

TAILQ_HEAD(queue_list, workqueue);

/* A part of struct cq; its lock guards both lists. */
struct cq_deferred {
	struct queue_list backlogs, due;
	atomic_bool maybe; /* there may be something in them */
};

/*
 * A part of struct workqueue; its CQ's lock guards all but `run`. `has_backlog` is written with the queue's lock,
 * too, and read with either.
 */
struct queue_deferred {
	void (*run)(struct workqueue *queue); /* [nic] */
	bool has_backlog, is_due;
	TAILQ_ENTRY(workqueue) in_backlogs, in_due;
};

void deferred_init(struct cq_deferred *deferred);

/* In what follows the CQ's lock is held. */

static inline bool deferred_is_due(const struct cq_deferred *deferred)
{
	return !TAILQ_EMPTY(&deferred->due);
}
static inline bool deferred_has_backlogs(const struct cq_deferred *deferred)
{
	return !TAILQ_EMPTY(&deferred->backlogs);
}

/* The queue's function shall run. */
void deferred_add(struct workqueue *queue);
/* The agent shall run what is due, for a caller that has to keep its locks. */
void deferred_leave_to_agent(struct cq *cq);
/* The queue goes: it leaves both lists. */
void deferred_forget(struct workqueue *queue);

/* The queue has a backlog, and it is the last in turn. */
void backlog_add(struct workqueue *queue);
void backlog_remove(struct workqueue *queue);
/* Queues that had no room shall try again. */
void backlogs_retry(struct cq *cq);

/* In what follows no lock of a queue or a CQ is held. */

/*
 * Takes the NIC's lock and runs what is due. It waits for the lock, so what another thread had begun to run is done
 * afterwards, too.
 */
void deferred_run(struct cq *cq);
/* [nic] The agent serves a CQ. True while queues of it have backlogs: then it must come again soon. */
bool deferred_serve(struct cq *cq, bool *progress);

#endif
