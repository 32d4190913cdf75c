/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous errors: they wait here until the notifier's thread delivers them. */
#include "handlers.h"

#include <stdlib.h>

#include "base/log.h"
#include "nic.h"
#include "vipl_names.h"

#define MOST_OF_POSTS 256 /* pending; a program may make them in a loop, and no handler needs more to notice */

void errors_free(struct errors *errors)
{
	struct pending_error *error;

	while ((error = STAILQ_FIRST(&errors->pending))) {
		STAILQ_REMOVE_HEAD(&errors->pending, next);
		free(error);
	}
}

void error_set_handler(struct nic *nic, VIP_ERROR_HANDLER handler, VIP_PVOID context)
{
	struct notifier *notifier = nic->notifier;

	pthread_mutex_lock(&notifier->lock);
	notifier->errors.handler = handler;
	notifier->errors.context = context;
	pthread_mutex_unlock(&notifier->lock);
}

const char *error_name(VIP_ERROR_CODE code)
{
#define SENSE(name, sense) [VIP_ERROR_##name] = sense,
	static const char *const names[] = {VIPL_ERRORS(SENSE)};
#undef SENSE

	return names[code];
}

bool error_is_of_post(const VIP_ERROR_DESCRIPTOR *error)
{
	return error->ErrorCode == VIP_ERROR_POST_DESC || error->ErrorCode == VIP_ERROR_VI_OVERRUN;
}

/* The notifier's lock is held. */
static void enqueue(struct nic *nic, const VIP_ERROR_DESCRIPTOR *descriptor, const struct vi *connected)
{
	struct pending_error *error = malloc(sizeof(*error));
	struct notifier *notifier = nic->notifier;

	if (!error) {
		log_error_ratelimited("an asynchronous error is lost: %s; no memory",
				      error_name(descriptor->ErrorCode));
		return;
	}
	error->descriptor = *descriptor;
	error->peer = connected ? connected->peer.host : in6addr_any;
	error->closed_by_peer = connected && connected->closed_by_peer && descriptor->ErrorCode == VIP_ERROR_CONN_LOST;
	notifier->errors.of_posts += error_is_of_post(descriptor);
	STAILQ_INSERT_TAIL(&notifier->errors.pending, error, next);
	if (notifier->has_thread)
		notifier_wake(notifier);
	else
		agent_wake(nic); /* which starts it */
}

/* Connected: the VI whose connection it is about, or NULL. */
static void report_error(struct nic *nic, VIP_ERROR_DESCRIPTOR *error, const struct vi *connected)
{
	struct notifier *notifier = nic->notifier;

	error->NicHandle = object_handle(&nic->object);
	pthread_mutex_lock(&notifier->lock);
	/* The post has returned the error already, so the handler need not hear of each. */
	if (!notifier->stop && !(error_is_of_post(error) && notifier->errors.of_posts >= MOST_OF_POSTS))
		enqueue(nic, error, connected);
	pthread_mutex_unlock(&notifier->lock);
}

void error_of_nic(struct nic *nic, VIP_ERROR_CODE code)
{
	report_error(nic, &(VIP_ERROR_DESCRIPTOR){.ResourceCode = VIP_RESOURCE_NIC, .ErrorCode = code}, NULL);
}

void error_of_vi(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation)
{
	report_error(vi->nic,
		     &(VIP_ERROR_DESCRIPTOR){.ViHandle = object_handle(&vi->object),
				       .OpCode = operation,
				       .ResourceCode = VIP_RESOURCE_VI,
				       .ErrorCode = code},
		     vi);
}

void error_of_post(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation,
		   VIP_DESCRIPTOR *descriptor)
{
	/* Either the descriptor is at fault, or the queue is full. */
	VIP_RESOURCE_CODE resource =
		code == VIP_ERROR_POST_DESC ? VIP_RESOURCE_DESCRIPTOR : VIP_RESOURCE_VI;

	report_error(vi->nic,
		     &(VIP_ERROR_DESCRIPTOR){.ViHandle = object_handle(&vi->object),
				       .DescriptorPtr = descriptor,
				       .OpCode = operation,
				       .ResourceCode = resource,
				       .ErrorCode = code},
		     NULL);
}

void error_forget(struct nic *nic, VIP_VI_HANDLE vi)
{
	struct notifier *notifier = nic->notifier;
	struct pending_error *error, *next;

	pthread_mutex_lock(&notifier->lock);
	for (error = STAILQ_FIRST(&notifier->errors.pending); error; error = next) {
		next = STAILQ_NEXT(error, next);
		if (error->descriptor.ViHandle != vi || error_is_of_post(&error->descriptor))
			continue;
		STAILQ_REMOVE(&notifier->errors.pending, error, pending_error, next);
		free(error);
	}
	pthread_mutex_unlock(&notifier->lock);
}
