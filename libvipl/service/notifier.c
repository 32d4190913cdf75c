/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that calls the program's handlers: of errors here, of completions in notify.c. */
#include "notifier.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/nic.h"
#include "trace/trace.h"

#define START_RETRY_MSEC 100 /* until a thread that could not be started is tried again */

struct notifier *notifier_create(VIP_NIC_HANDLE nic, bool has_words)
{
	struct notifier *notifier = zeroed(1, sizeof(*notifier));
	int error;

	if (!notifier)
		return NULL;
	notifier->nic = nic;
	notifier->sleeps_at_words = has_words && futex_can_sleep_at_any();
	error = notifier->sleeps_at_words ? 0 : sleeper_init(&notifier->sleeper, -1);
	if (error) {
		free(notifier);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&notifier->lock, NULL);
	STAILQ_INIT(&notifier->errors.pending);
	notifies_init(&notifier->notifies);
	return notifier;
}

static void notifier_free(struct notifier *notifier)
{
	errors_free(&notifier->errors);
	notifies_free(&notifier->notifies);
	pthread_mutex_destroy(&notifier->lock);
	if (!notifier->sleeps_at_words)
		sleeper_destroy(&notifier->sleeper);
	free(notifier);
}

void notifier_stop(struct notifier *notifier)
{
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	notifier->self_stopped = notifier_is_caller(notifier);
	notify_cancel_all(notifier);
	pthread_mutex_unlock(&notifier->lock);
	notifier_wake(notifier);
}

void notifier_destroy(struct notifier *notifier)
{
	notifier_stop(notifier);
	if (!notifier->has_thread) {
		notifier_free(notifier);
	} else if (notifier->self_stopped) {
		pthread_detach(notifier->thread);
	} else {
		pthread_join(notifier->thread, NULL);
		notifier_free(notifier);
	}
}

/* A peer that disconnects first is an error in VIPL, but how most connections end: we log info. */
static void default_handler(const struct pending_error *pending)
{
	const VIP_ERROR_DESCRIPTOR *error = &pending->descriptor;
	char vi[32 + sizeof(", peer ") + INET6_ADDRSTRLEN] = "";
	size_t length = 0;

	if (error->ViHandle)
		length = (size_t)snprintf(vi, 32, ", VI %p", error->ViHandle);
	if (!IN6_IS_ADDR_UNSPECIFIED(&pending->peer))
		host_text(&pending->peer, vi + length + sprintf(vi + length, ", peer "));
	if (pending->closed_by_peer)
		log_ratelimited(LOG_LEVEL_INFO, "NIC %p%s: the peer has ended the connection", error->NicHandle, vi);
	else
		log_error_ratelimited("NIC %p%s: %s (and no error handler is set)", error->NicHandle, vi,
			  error_name(error->ErrorCode));
}

/* With the lock, which is released while a handler runs. False when there is no error. */
static bool deliver_error(struct notifier *notifier)
{
	struct errors *errors = &notifier->errors;
	struct pending_error *error = STAILQ_FIRST(&errors->pending);
	VIP_ERROR_HANDLER handler = errors->handler;
	VIP_PVOID context = errors->context;
	const bool is_traced = trace_is_on();
	struct trace_line line;

	if (!error)
		return false;
	STAILQ_REMOVE_HEAD(&errors->pending, next);
	errors->of_posts -= error_is_of_post(&error->descriptor);
	pthread_mutex_unlock(&notifier->lock);
	if (is_traced)
		trace_error_handler(&line, &error->descriptor, context, (uintptr_t)handler);
	thread_is_library = false; /* the handler is the program's */
	if (handler)
		handler(context, &error->descriptor);
	else
		default_handler(error);
	thread_is_library = true;
	if (is_traced)
		trace_handler_returned(&line);
	free(error);
	pthread_mutex_lock(&notifier->lock);
	return true;
}

static void *run_notifier(void *argument)
{
	struct notifier *notifier = argument;
	bool frees;

	thread_is_library = true;
	pthread_mutex_lock(&notifier->lock);
	while (!notifier->stop) {
		uint32_t wakes = atomic_load(&notifier->wakes);
		bool worked = deliver_error(notifier);

		worked |= notify_deliver(notifier);
		if (!worked && !notifier->stop)
			notify_sleep(notifier, wakes);
	}
	frees = notifier->self_stopped;
	pthread_mutex_unlock(&notifier->lock);
	if (frees)
		notifier_free(notifier);
	return NULL;
}

/* The lock is held. Starts the thread if it does not run yet. 0 or errno. */
static int start_thread(struct notifier *notifier)
{
	int error = 0;

	if (!notifier->has_thread) {
		error = thread_start(&notifier->thread, THREAD_HANDLERS, run_notifier, notifier);
		notifier->has_thread = !error;
	}
	if (error)
		log_error_ratelimited("no thread for handlers: %s", failure(error));
	return error;
}

int notifier_serve(struct notifier *notifier)
{
	int error = 0;

	pthread_mutex_lock(&notifier->lock);
	if (!STAILQ_EMPTY(&notifier->errors.pending) && !notifier->stop)
		error = start_thread(notifier);
	pthread_mutex_unlock(&notifier->lock);
	return error ? START_RETRY_MSEC : -1;
}

VIP_RETURN notifier_add(struct cq *cq, struct workqueue *queue, const struct notify *wanted)
{
	const struct object *owner = queue ? &queue->vi->object : &cq->object;
	struct notifier *notifier = cq->nic->notifier;
	VIP_RETURN rc = VIP_ERROR_RESOURCE;

	pthread_mutex_lock(&notifier->lock);
	if (notifier->stop || object_retired(owner)) /* no thread is going to cancel it any more */
		rc = VIP_INVALID_PARAMETER;
	else if (!start_thread(notifier))
		rc = notify_add(notifier, cq, queue, wanted);
	pthread_mutex_unlock(&notifier->lock);
	if (rc == VIP_SUCCESS)
		notifier_wake(notifier);
	return rc;
}
