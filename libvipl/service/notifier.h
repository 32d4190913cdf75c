/*
 * The thread of a NIC that calls the program's handlers: one at a time, and with no lock held, so
 * that a handler may call anything, close its own NIC included. It is started when there is
 * something for it to do.
 */
#ifndef VIPL_NOTIFIER_H
#define VIPL_NOTIFIER_H

#include <pthread.h>
#include <stdbool.h>

#include "core/error.h"
#include "core/notify.h"

struct notifier {
	VIP_NIC_HANDLE nic;
	int wake_fd;
	pthread_mutex_t lock; /* guards what follows; the NIC's comes before it, a channel's after */
	pthread_t thread;
	bool has_thread, stop;
	bool self_stopped; /* by a handler */
	bool orphaned;	   /* destroyed by a handler: the thread frees it */
	struct errors errors;
	struct notifies notifies;
};

/* NULL and errno on failure. */
struct notifier *notifier_create(VIP_NIC_HANDLE nic);
/* No handler starts after this. */
void notifier_stop(struct notifier *notifier);
/* Waits for a handler that runs, unless it is the caller. */
void notifier_destroy(struct notifier *notifier);

/* Tells the thread that there is something to do. From anywhere, also under a channel's lock. */
void notifier_wake(struct notifier *notifier);

/* Both of these: the lock is held. */
int notifier_start(struct notifier *notifier); /* The thread, if it does not run yet. 0 or errno. */
bool notifier_is_caller(const struct notifier *notifier); /* a handler is calling us */

#endif
