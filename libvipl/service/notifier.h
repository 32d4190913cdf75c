/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of a NIC that calls the program's handlers: one at a time, and with no lock held, so
 * that a handler may call anything, close its own NIC included. It is started when there is
 * something for it to do.
 */
#ifndef VIPL_NOTIFIER_H
#define VIPL_NOTIFIER_H

#include "core/handlers.h"

/* NULL and errno on failure. */
struct notifier *notifier_create(VIP_NIC_HANDLE nic);
/* No handler starts after this. */
void notifier_stop(struct notifier *notifier);
/* Waits for a handler that runs, unless it is the caller. */
void notifier_destroy(struct notifier *notifier);

/* Both of these: the lock is held. */
int notifier_start(struct notifier *notifier); /* The thread, if it does not run yet. 0 or errno. */
bool notifier_is_caller(const struct notifier *notifier); /* a handler is calling us */
/*
 * [nic] For the agent: starts the thread if errors wait for it. Returns msec until it has to be called again,
 * or -1.
 */
int notifier_serve(struct notifier *notifier);

#endif
