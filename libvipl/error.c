/*
 * Asynchronous errors. They are queued here and delivered by a thread of their own, started with
 * the first one, so that a handler may call anything, close its own NIC included.
 */
#include "error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "log.h"
#include "nic.h"

#define MOST_MISTAKES 256 /* a program may go on in a loop; no handler needs more to notice */

struct pending_error {
	STAILQ_ENTRY(pending_error) next;
	VIP_ERROR_DESCRIPTOR descriptor;
};

struct notifier {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	STAILQ_HEAD(, pending_error) errors;
	VIP_ERROR_HANDLER handler;
	VIP_PVOID context;
	pthread_t thread;
	unsigned mistakes; /* errors in the queue that posting has caused */
	bool has_thread, stop;
	bool orphaned; /* destroyed by its own handler: the thread frees it */
};

struct notifier *notifier_create(void)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));

	if (!notifier)
		return NULL;
	pthread_mutex_init(&notifier->lock, NULL);
	pthread_cond_init(&notifier->changed, NULL);
	STAILQ_INIT(&notifier->errors);
	return notifier;
}

static void notifier_free(struct notifier *notifier)
{
	struct pending_error *error;

	while ((error = STAILQ_FIRST(&notifier->errors))) {
		STAILQ_REMOVE_HEAD(&notifier->errors, next);
		free(error);
	}
	pthread_cond_destroy(&notifier->changed);
	pthread_mutex_destroy(&notifier->lock);
	free(notifier);
}

void notifier_stop(struct notifier *notifier)
{
	pthread_mutex_lock(&notifier->lock);
	notifier->stop = true;
	pthread_cond_signal(&notifier->changed);
	pthread_mutex_unlock(&notifier->lock);
}

void notifier_destroy(struct notifier *notifier)
{
	notifier_stop(notifier);
	if (!notifier->has_thread) {
		notifier_free(notifier);
	} else if (pthread_equal(notifier->thread, pthread_self())) {
		notifier->orphaned = true;
		pthread_detach(notifier->thread);
	} else {
		pthread_join(notifier->thread, NULL);
		notifier_free(notifier);
	}
}

static const char *error_name(VIP_ERROR_CODE code)
{
	static const char *const names[] = {
		[VIP_ERROR_POST_DESC] = "a descriptor could not be posted",
		[VIP_ERROR_CONN_LOST] = "connection lost",
		[VIP_ERROR_RECVQ_EMPTY] = "a message found no receive descriptor",
		[VIP_ERROR_VI_OVERRUN] = "too many descriptors are posted",
		[VIP_ERROR_RDMAW_PROT] = "RDMA write refused",
		[VIP_ERROR_RDMAW_DATA] = "RDMA write: data error",
		[VIP_ERROR_RDMAW_ABORT] = "RDMA write aborted",
		[VIP_ERROR_RDMAR_PROT] = "RDMA read refused",
		[VIP_ERROR_COMP_PROT] = "completion: protection error",
		[VIP_ERROR_RDMA_TRANSPORT] = "RDMA: transport error",
		[VIP_ERROR_CATASTROPHIC] = "the NIC has failed",
	};

	return names[code];
}

/* The program's own, which it may make in a loop; all others come once for a connection. */
static bool is_mistake(const VIP_ERROR_DESCRIPTOR *error)
{
	return error->ErrorCode == VIP_ERROR_POST_DESC || error->ErrorCode == VIP_ERROR_VI_OVERRUN;
}

static void default_handler(const VIP_ERROR_DESCRIPTOR *error)
{
	log_error("NIC %p, VI %p: %s (and no error handler is set)", error->NicHandle,
		  error->ViHandle, error_name(error->ErrorCode));
}

static void *deliver(void *argument)
{
	struct notifier *notifier = argument;
	struct pending_error *error;

	pthread_mutex_lock(&notifier->lock);
	while (!notifier->stop) {
		VIP_ERROR_HANDLER handler = notifier->handler;
		VIP_PVOID context = notifier->context;

		error = STAILQ_FIRST(&notifier->errors);
		if (!error) {
			pthread_cond_wait(&notifier->changed, &notifier->lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&notifier->errors, next);
		notifier->mistakes -= is_mistake(&error->descriptor);
		pthread_mutex_unlock(&notifier->lock);
		if (handler)
			handler(context, &error->descriptor);
		else
			default_handler(&error->descriptor);
		free(error);
		pthread_mutex_lock(&notifier->lock);
	}
	pthread_mutex_unlock(&notifier->lock);
	if (notifier->orphaned)
		notifier_free(notifier);
	return NULL;
}

/* The notifier's lock is held. */
static void enqueue(struct notifier *notifier, const VIP_ERROR_DESCRIPTOR *descriptor)
{
	struct pending_error *error = malloc(sizeof(*error));
	int refused = 0;

	if (!error) {
		log_error("an asynchronous error is lost: %s; no memory",
			  error_name(descriptor->ErrorCode));
		return;
	}
	error->descriptor = *descriptor;
	notifier->mistakes += is_mistake(descriptor);
	STAILQ_INSERT_TAIL(&notifier->errors, error, next);
	if (!notifier->has_thread) {
		refused = thread_start(&notifier->thread, deliver, notifier);
		notifier->has_thread = !refused;
	}
	if (refused)
		log_error("an asynchronous error waits: %s; no thread: %s",
			  error_name(descriptor->ErrorCode), strerror(refused));
	pthread_cond_signal(&notifier->changed);
}

void error_report(struct nic *nic, VIP_ERROR_CODE code, struct vi *vi, VIP_DESCRIPTOR *descriptor)
{
	VIP_ERROR_DESCRIPTOR error = {
		.NicHandle = object_handle(&nic->object),
		.ViHandle = vi ? object_handle(&vi->object) : NULL,
		.DescriptorPtr = descriptor,
		.ResourceCode = descriptor ? VIP_RESOURCE_DESCRIPTOR
					   : vi ? VIP_RESOURCE_VI : VIP_RESOURCE_NIC,
		.ErrorCode = code,
	};
	struct notifier *notifier = nic->notifier;

	pthread_mutex_lock(&notifier->lock);
	/* The caller of the post was told already; the handler need not hear of each. */
	if (!notifier->stop && !(is_mistake(&error) && notifier->mistakes >= MOST_MISTAKES))
		enqueue(notifier, &error);
	pthread_mutex_unlock(&notifier->lock);
}

void error_forget(struct nic *nic, VIP_VI_HANDLE vi)
{
	struct notifier *notifier = nic->notifier;
	struct pending_error *error, *next;

	pthread_mutex_lock(&notifier->lock);
	for (error = STAILQ_FIRST(&notifier->errors); error; error = next) {
		next = STAILQ_NEXT(error, next);
		if (error->descriptor.ViHandle != vi || is_mistake(&error->descriptor))
			continue;
		STAILQ_REMOVE(&notifier->errors, error, pending_error, next);
		free(error);
	}
	pthread_mutex_unlock(&notifier->lock);
}

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
			    VIP_ERROR_HANDLER Handler)
{
	struct nic *nic = nic_get(NicHandle);

	if (!nic)
		return VIP_INVALID_PARAMETER;
	pthread_mutex_lock(&nic->notifier->lock);
	nic->notifier->handler = Handler;
	nic->notifier->context = Context;
	pthread_mutex_unlock(&nic->notifier->lock);
	nic_put(nic);
	return VIP_SUCCESS;
}
