/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred work: what a call has found and must not do under its locks. There are two kinds:
 *
 * - Queues with a backlog have descriptors that the device, or the CQ, had no room or memory for. They are tried again in turn,
 *   after each look that has found completions. The thread that releases the CQ's lock does that. It takes only the queue's lock
 *   and the CQ's, so a call of the data path waits for no connection.
 * - Queues that are due have a function that runs with the NIC's lock. The agent runs it. So does a call that reports an
 *   error of this VI, if the lock is free.
 *
 * The agent looks at both, too. Only deferred.c changes the lists. It knows neither VIs nor descriptors: the functions
 * are workqueue_submit_backlog() and vi_run_deferred().
 */
#ifndef VIPL_DEFERRED_H
#define VIPL_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

struct cq;
struct object;
struct workqueue;

TAILQ_HEAD(queue_list, workqueue);

/* A part of struct cq; its lock guards all but the atomic members. Each look at the CQ needs the first two members. */
struct cq_deferred {
	_Atomic unsigned backlogs; /* queues that have one */
	bool pending;	/* there is work that neither a thread nor the agent has begun: for whoever releases the lock */
	atomic_bool is_served; /* a call of the program has made or submitted a backlog since the agent has looked */
	atomic_bool has_due;
	struct queue_list in_turn, due; /* the queues with a backlog, and those that are due */
};

/*
 * A part of struct workqueue; its CQ's lock guards all but the functions. `has_backlog` is written with the queue's
 * lock, too, and read with either.
 */
struct queue_deferred {
	bool has_backlog, is_due;
	const struct deferred_functions *functions;
	TAILQ_ENTRY(workqueue) in_turn, in_due;
};

struct deferred_functions {
	bool (*submit)(struct workqueue *queue); /* with a reference to the VI; true when there was some room */
	void (*run)(struct workqueue *queue);	 /* [nic] */
};

void deferred_init(struct cq_deferred *deferred);

/* In what follows the CQ's lock is held. */

/* The queue is due: its function is to run. */
void deferred_add(struct workqueue *queue);
/* Leaves the work to the agent, for a caller that has to keep its locks. */
void deferred_leave_to_agent(struct cq *cq);
/* The queue goes: it leaves all lists. */
void deferred_forget(struct workqueue *queue);

/* The queue has a backlog from now on, and is the last in turn. The caller tries once more: room that comes later is noticed. */
void backlog_add(struct workqueue *queue);
void backlog_remove(struct workqueue *queue);
/* A request of a queue with a backlog is done. */
void backlog_progresses(struct workqueue *queue);
/* There may be room or memory now. */
static inline void backlogs_have_room(struct cq_deferred *deferred)
{
	if (atomic_load_explicit(&deferred->backlogs, memory_order_relaxed))
		deferred->pending = true;
}

/* In what follows no lock of a queue or a CQ is held. */

/*
 * Does the work after a look at the CQ, without waiting for the NIC's lock. `owner`: the VI that the call is about, or the
 * CQ.
 */
void deferred_run(struct cq *cq, const struct object *owner);
/*
 * [nic] For the agent. Returns true while queues of the CQ have backlogs: then the agent must come again soon. With
 * `may_skip` it takes no lock if calls of the program submit the backlogs.
 */
bool deferred_serve(struct cq *cq, bool may_skip, bool *progress);

#endif
