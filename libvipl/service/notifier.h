/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of a NIC that calls the program's handlers: one at a time, and with no lock held, so that a handler may call anything,
 * close its own NIC included. It is started when there is something for it to do.
 */
#ifndef VIPL_NOTIFIER_H
#define VIPL_NOTIFIER_H

#include "core/handlers.h"
#include "vipl.h"

struct cq;
struct vi;
struct workqueue;

/* A handler that waits for a completion: at a CQ, the program's or the work queue's own. */
struct notify {
	STAILQ_ENTRY(notify) next;
	VIP_PVOID context;
	VIP_VI_CALLBACK vi_handler;
	VIP_CQ_CALLBACK cq_handler; /* this one if the CQ is the program's */
};

/* ---- notifier.c ---- */

/* `has_words`: of the CQs of its device. NULL and errno on failure. */
struct notifier *notifier_create(VIP_NIC_HANDLE nic, bool has_words);
/* No handler starts after this. */
void notifier_stop(struct notifier *notifier);
/* Waits for a handler that runs, unless it is the caller. */
void notifier_destroy(struct notifier *notifier);
/* VipSendNotify and VipRecvNotify, of a queue that has this CQ of its own; or, with NULL, VipCQNotify. What these return. */
VIP_RETURN notifier_add(struct cq *cq, struct workqueue *queue, const struct notify *wanted);
/* [nic] For the agent: starts the thread if errors wait for it. Returns msec until it has to be called again, or -1. */
int notifier_serve(struct notifier *notifier);

/* ---- notify.c ---- */

/* The object is retired. On return no handler waits for it, and none about it runs, but the caller, or one that closes the NIC. */
void notify_cancel_vi(struct vi *vi);
void notify_cancel_cq(struct cq *cq);

void notifies_init(struct notifies *notifies);
void notifies_free(struct notifies *notifies);

/* All of these: the notifier's lock is held; it is released while a handler runs. */

/* Is a handler the caller? */
static inline bool notifier_is_caller(const struct notifier *notifier)
{
	return notifier->has_thread && pthread_equal(notifier->thread, pthread_self());
}

/* A copy of `wanted` waits from now on, as notifier_add() says. The thread runs. VIP_SUCCESS or VIP_ERROR_RESOURCE. */
VIP_RETURN notify_add(struct notifier *notifier, struct cq *cq, struct workqueue *queue, const struct notify *wanted);
void notify_cancel_all(struct notifier *notifier);
/* On the notifier's thread: sleeps at the channels or words of CQs, unless it has been woken since `wakes`. */
void notify_sleep(struct notifier *notifier, uint32_t wakes);
/* On the same thread: looks at a CQ that has news, and calls a handler if there is a completion. False: there are no news. */
bool notify_deliver(struct notifier *notifier);

#endif
