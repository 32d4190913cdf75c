/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of a NIC that calls the program's handlers: one at a time, and with no lock held, so
 * that a handler may call anything, close its own NIC included. It is started when there is
 * something for it to do.
 */
#ifndef VIPL_NOTIFIER_H
#define VIPL_NOTIFIER_H

#include "core/handlers.h"

/* `has_words`: of the CQs of its device. NULL and errno on failure. */
struct notifier *notifier_create(VIP_NIC_HANDLE nic, bool has_words);
/* No handler starts after this. */
void notifier_stop(struct notifier *notifier);
/* Waits for a handler that runs, unless it is the caller. */
void notifier_destroy(struct notifier *notifier);

/*
 * VipSendNotify, VipRecvNotify, VipCQNotify: the thread calls the handler for a completion of the queue, which has this CQ of
 * its own, or, if that is NULL, for an entry of the CQ. VIP_SUCCESS, or what these say.
 */
VIP_RETURN notifier_add(struct cq *cq, struct workqueue *queue, const struct notify *wanted);

/* The lock is held: is a handler the caller? */
static inline bool notifier_is_caller(const struct notifier *notifier)
{
	return notifier->has_thread && pthread_equal(notifier->thread, pthread_self());
}

/*
 * [nic] For the agent: starts the thread if errors wait for it. Returns msec until it has to be called again,
 * or -1.
 */
int notifier_serve(struct notifier *notifier);

#endif
