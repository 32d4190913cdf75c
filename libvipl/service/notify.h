/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers that wait for completions, as VipCQNotify asks for. They wait at a CQ,
 * the program's or the work queue's own; the notifier's thread looks after the CQs where some do.
 */
#ifndef VIPL_NOTIFY_H
#define VIPL_NOTIFY_H

#include "core/handlers.h"
#include "vipl.h"

struct cq;
struct vi;
struct workqueue;

/* A handler that waits for a completion. */
struct notify {
	STAILQ_ENTRY(notify) next;
	VIP_PVOID context;
	VIP_VI_CALLBACK vi_handler;
	VIP_CQ_CALLBACK cq_handler; /* this one if the CQ is the program's */
};

void notifies_init(struct notifies *notifies);
void notifies_free(struct notifies *notifies);

/*
 * The object is retired. On return no handler waits for it, and no handler about it runs, except the
 * caller, and except while a handler closes the NIC.
 */
void notify_cancel_vi(struct vi *vi);
void notify_cancel_cq(struct cq *cq);

/* All of these: the notifier's lock is held. */

/*
 * A copy of `wanted` waits at the CQ from now on, for a completion of the queue, or, if that is NULL, for an entry of the
 * CQ. The thread runs. VIP_SUCCESS or VIP_ERROR_RESOURCE.
 */
VIP_RETURN notify_add(struct notifier *notifier, struct cq *cq, struct workqueue *queue, const struct notify *wanted);
void notify_cancel_all(struct notifier *notifier);
/* On the notifier's thread: sleeps at the channels or words of CQs, unless it has been woken since `wakes`. */
void notify_sleep(struct notifier *notifier, uint32_t wakes);
/*
 * On the notifier's thread: looks at a CQ that has something new, and calls a handler if there is a
 * completion. The lock is released meanwhile. False when nothing is new.
 */
bool notify_deliver(struct notifier *notifier);

#endif
