/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work for the thread that calls the program's handlers (service/notifier.c): errors to report, and CQs at which
 * handlers wait.
 */
#ifndef VIPL_HANDLERS_H
#define VIPL_HANDLERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/futex.h"
#include "base/sleeper.h"
#include "device.h"

struct notify;

struct pending_error {
	STAILQ_ENTRY(pending_error) next;
	VIP_ERROR_DESCRIPTOR descriptor;
	struct in6_addr peer; /* :: if it is about no connection */
	bool closed_by_peer;
};

/* A part of struct notifier, whose lock guards it. */
struct errors {
	STAILQ_HEAD(, pending_error) pending;
	VIP_ERROR_HANDLER handler;
	VIP_PVOID context;
	unsigned of_posts; /* pending errors that posting has caused */
};

/* A part of struct cq; the notifier's lock guards it. */
struct cq_notifies {
	STAILQ_HEAD(, notify) outstanding;
	TAILQ_ENTRY(cq) in_watched;
	struct workqueue *queue; /* descriptors are taken from it; NULL: entries are taken from the CQ */
	atomic_bool watched;	 /* announcements here wake the notifier */
	uint32_t seen;		 /* `announced` at the last look */
	bool has_word;		 /* the notifier sleeps at this word: */
	struct sleep_word word;
	unsigned place; /* of the word among those at which it sleeps; 0: it does not */
	bool look;		 /* there is another reason to look than an announcement */
};

/* A part of struct notifier. */
struct notifies {
	TAILQ_HEAD(, cq) watched;
	int channels_fd; /* readable when a channel of these CQs is; -1: not needed so far */
	unsigned words;	 /* CQs of these that have one */
	bool retry;	 /* a CQ could not be armed */
	/* The VI and the CQ that the running handler is about; NULL: none. */
	VIP_VI_HANDLE running_vi;
	VIP_CQ_HANDLE running_cq;
	pthread_cond_t returned; /* it does not run any more */
};

struct notifier {
	VIP_NIC_HANDLE nic;
	struct sleeper sleeper;
	bool sleeps_at_words;	/* of CQs, and at this one: */
	_Atomic uint32_t wakes; /* counts */
	pthread_mutex_t lock; /* guards all that follows */
	pthread_t thread;
	bool has_thread, stop;
	bool self_stopped; /* by a handler, which destroys it, too: the thread frees it */
	struct errors errors;
	struct notifies notifies;
};

/* The thread has something to do. From anywhere, also under a channel's lock. */
static inline void notifier_wake(struct notifier *notifier)
{
	if (!notifier->sleeps_at_words) {
		sleeper_wake(&notifier->sleeper);
		return;
	}
	atomic_fetch_add(&notifier->wakes, 1);
	futex_wake(&notifier->wakes, false, FUTEX_OF_PROCESS);
}

/* ---- errors: reported from anywhere, delivered by the notifier's thread ---- */

void errors_free(struct errors *errors);

/* VipErrorCallback. With NULL the notifier uses its own handler, which writes to the log. */
void error_set_handler(struct nic *nic, VIP_ERROR_HANDLER handler, VIP_PVOID context);

/* In words, for the log. */
const char *error_name(VIP_ERROR_CODE code);
/* The program's own error, which it may make in a loop; all others come once for a connection. */
bool error_is_of_post(const VIP_ERROR_DESCRIPTOR *error);

/* About the NIC. */
void error_of_nic(struct nic *nic, VIP_ERROR_CODE code);
/*
 * About a connection; the NIC's lock is held. The operation is given as in a descriptor's Status; 0 when the error is
 * not about one.
 */
void error_of_vi(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation);
/* About a descriptor, or about the queue, which is full. The operation as for error_of_vi(). */
void error_of_post(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation,
		   VIP_DESCRIPTOR *descriptor);

/* Drops the errors of this VI's connection that no handler was given yet. */
void error_forget(struct nic *nic, VIP_VI_HANDLE vi);

#endif
