/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues with a backlog have descriptors that the device had no room for. Such a queue waits for a completion of its
 * own, for room in its CQ, or for memory; then it is ready. The thread that releases the CQ's lock submits the backlogs
 * that are ready. It takes only the queue's lock and the CQ's, so a call of the data path waits for no connection. The
 * agent looks, too. Only deferred.c changes the lists.
 */
#ifndef VIPL_DEFERRED_H
#define VIPL_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

struct cq;
struct workqueue;

TAILQ_HEAD(queue_list, workqueue);

/* A part of struct cq; its lock guards all but the atomic members. Each look at the CQ needs the first two members. */
struct cq_deferred {
	unsigned crowd; /* queues in `crowded` */
	bool pending;	/* there is work that neither a thread nor the agent has begun: for whoever releases the lock */
	atomic_bool is_served; /* a call of the program has made or submitted a backlog since the agent has looked */
	_Atomic unsigned backlogs; /* queues that have one */
	struct queue_list waiting, ready; /* of these: those that wait for a completion of their own; those that are ready */
	struct queue_list crowded[2];	  /* the send queues, and the receive queues, that wait for room or memory */
};

/* A part of struct workqueue; its CQ's lock guards the rest. `has_backlog` is written with the queue's lock, too, and read with either. */
struct queue_deferred {
	struct queue_list *backlog_in; /* NULL: there is none, or a thread is submitting it */
	bool has_backlog;
	void (*submit)(struct workqueue *queue); /* with a reference to the VI: workqueue_submit_backlog() */
	TAILQ_ENTRY(workqueue) in_backlogs;
};

void deferred_init(struct cq_deferred *deferred);

/* In what follows the CQ's lock is held. */

/* Leaves the work to the agent, for a caller that has to keep its locks. */
void deferred_leave_to_agent(struct cq *cq);
/* The queue has a backlog, and it is the last in turn. `crowded`: it waits for room in the CQ, or for memory. */
void backlog_add(struct workqueue *queue, bool crowded);
void backlog_remove(struct workqueue *queue);
/* A request of a queue with a backlog is done. */
void backlog_has_room(struct workqueue *queue);
/* There may be room or memory now: makes queues of the crowd ready, no more than there is room for. */
void backlogs_admit(struct cq *cq);

/* In what follows no lock of a queue or a CQ is held. */

/* Submits backlogs after a look at the CQ. */
void deferred_run(struct cq *cq);
/*
 * [nic] For the agent. Returns true while queues of the CQ have backlogs: then the agent must come again soon. With
 * `may_skip` it takes no lock if calls of the program submit the backlogs.
 */
bool deferred_serve(struct cq *cq, bool may_skip, bool *progress);

#endif
