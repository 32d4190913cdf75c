/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues with a backlog have descriptors that the device, or the CQ, had no room or memory for. They are tried again in turn, send
 * queues first, after each look that has found completions. The thread that releases the CQ's lock does that. It takes only the queue's lock
 * and the CQ's, so a call of the data path waits for no connection. The agent looks, too. Only this file changes the list.
 */
#ifndef VIPL_BACKLOG_H
#define VIPL_BACKLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

struct cq;
struct workqueue;

TAILQ_HEAD(queue_list, workqueue);

/* A part of struct cq; its lock guards all but the atomic members. Each look at the CQ needs the first two members. */
struct cq_backlogs {
	_Atomic unsigned count; /* queues that have one */
	bool pending;	/* room or memory may have come: whoever releases the lock submits */
	atomic_bool is_served; /* a call of the program has made or submitted a backlog since the agent has looked */
	struct queue_list in_turn[2]; /* send queues with a backlog, and receive queues */
	unsigned in_list[2];	      /* so many */
};

/* A part of struct workqueue; its CQ's lock guards all but the function. `exists` is read with the queue's lock, too. */
struct queue_backlog {
	bool exists;
	bool (*submit)(struct workqueue *queue); /* workqueue_submit_backlog() */
	TAILQ_ENTRY(workqueue) in_turn;
};

void backlogs_init(struct cq_backlogs *backlogs);

/* In what follows the CQ's lock is held. */

/* Leaves the work to the agent, for a caller that has to keep its locks. */
void backlogs_leave_to_agent(struct cq *cq);
/* The queue has a backlog from now on, and is the last in turn. The caller tries once more: room that comes later is noticed. */
void backlog_add(struct workqueue *queue);
void backlog_remove(struct workqueue *queue);
/* A request of a queue with a backlog is done. */
void backlog_progresses(struct workqueue *queue);
/* There may be room or memory now. */
static inline void backlogs_have_room(struct cq_backlogs *backlogs)
{
	if (atomic_load_explicit(&backlogs->count, memory_order_relaxed))
		backlogs->pending = true;
}

/* In what follows no lock of a queue or a CQ is held. */

/* Submits backlogs after a look at the CQ. */
void backlogs_submit(struct cq *cq);
/*
 * [nic] For the agent. Returns true while queues of the CQ have backlogs: then the agent must come again soon. With
 * `may_skip` it takes no lock if calls of the program submit the backlogs.
 */
bool backlogs_serve(struct cq *cq, bool may_skip, bool *progress);

#endif
