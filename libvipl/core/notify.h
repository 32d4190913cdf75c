/*
 * VipSendNotify, VipRecvNotify, VipCQNotify: handlers that wait for completions. They wait at a CQ,
 * the program's or the work queue's own; the notifier's thread looks after the CQs where some do.
 */
#ifndef VIPL_NOTIFY_H
#define VIPL_NOTIFY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "vipl.h"

struct cq;
struct notifier;
struct notify;
struct vi;
struct workqueue;

/* A part of struct cq; the notifier's lock guards it. */
struct cq_notifies {
	STAILQ_HEAD(, notify) outstanding;
	TAILQ_ENTRY(cq) in_watched;
	struct workqueue *queue; /* that descriptors are taken from; NULL: entries, from the CQ */
	atomic_bool watched;	 /* what is announced here is told to the notifier */
	uint32_t seen;		 /* announcements, up to the last look */
	bool look;		 /* there is another reason to look */
};

/* A part of struct notifier. */
struct notifies {
	TAILQ_HEAD(, cq) watched;
	int channels_fd; /* readable when a channel of these CQs is; -1: not needed so far */
	bool retry;	 /* a CQ could not be armed */
	/* Whom the handler that runs is about; NULL: nothing. */
	VIP_VI_HANDLE running_vi;
	VIP_CQ_HANDLE running_cq;
	pthread_cond_t returned; /* it does not run any more */
};

void notifies_init(struct notifies *notifies);
void notifies_free(struct notifies *notifies);
void cq_notifies_init(struct cq_notifies *notifies);

/*
 * The object is retired. No handler waits for it any more, and none that is about it runs, but for
 * the caller, or when a handler is just closing the NIC.
 */
void notify_cancel_vi(struct vi *vi);
void notify_cancel_cq(struct cq *cq);

/* All of these: the notifier's lock is held. */

void notify_cancel_all(struct notifier *notifier);
/* On the notifier's thread: after it has slept. */
void notify_look(struct notifier *notifier);
/*
 * On the notifier's thread: looks at a CQ that has something new, and calls a handler if there is a
 * completion. The lock is released meanwhile. False when nothing is new.
 */
bool notify_deliver(struct notifier *notifier);

#endif
