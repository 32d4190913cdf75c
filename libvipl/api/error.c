/* Asynchronous errors: queued here until the notifier's thread delivers them. */
#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/log.h"
#include "core/nic.h"
#include "trace/trace_handler.h"

#define MOST_MISTAKES 256 /* a program may go on in a loop; no handler needs more to notice */

struct pending_error {
	STAILQ_ENTRY(pending_error) next;
	VIP_ERROR_DESCRIPTOR descriptor;
	bool closed_by_peer;
};

void errors_init(struct errors *errors)
{
	STAILQ_INIT(&errors->pending);
}

void errors_free(struct errors *errors)
{
	struct pending_error *error;

	while ((error = STAILQ_FIRST(&errors->pending))) {
		STAILQ_REMOVE_HEAD(&errors->pending, next);
		free(error);
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

/* That a peer has disconnected first is how most connections end: no error but by VIPL's word. */
static void default_handler(const VIP_ERROR_DESCRIPTOR *error, bool closed_by_peer)
{
	char vi[32] = "";

	if (error->ViHandle)
		snprintf(vi, sizeof(vi), ", VI %p", error->ViHandle);
	if (closed_by_peer)
		log_info("NIC %p%s: the peer has ended the connection", error->NicHandle, vi);
	else
		log_error("NIC %p%s: %s (and no error handler is set)", error->NicHandle, vi,
			  error_name(error->ErrorCode));
}

bool error_deliver(struct notifier *notifier)
{
	struct errors *errors = &notifier->errors;
	struct pending_error *error = STAILQ_FIRST(&errors->pending);
	VIP_ERROR_HANDLER handler = errors->handler;
	VIP_PVOID context = errors->context;
	int64_t begun;

	if (!error)
		return false;
	STAILQ_REMOVE_HEAD(&errors->pending, next);
	errors->mistakes -= is_mistake(&error->descriptor);
	pthread_mutex_unlock(&notifier->lock);
	begun = trace_is_on() ? trace_error_handler(&error->descriptor, context, handler) : 0;
	if (handler)
		handler(context, &error->descriptor);
	else
		default_handler(&error->descriptor, error->closed_by_peer);
	trace_handler_returned("VipErrorCallback", begun);
	free(error);
	pthread_mutex_lock(&notifier->lock);
	return true;
}

/* The notifier's lock is held. */
static void enqueue(struct notifier *notifier, const VIP_ERROR_DESCRIPTOR *descriptor,
		    bool closed_by_peer)
{
	struct pending_error *error = malloc(sizeof(*error));
	int refused;

	if (!error) {
		log_error("an asynchronous error is lost: %s; no memory",
			  error_name(descriptor->ErrorCode));
		return;
	}
	error->descriptor = *descriptor;
	error->closed_by_peer = closed_by_peer;
	notifier->errors.mistakes += is_mistake(descriptor);
	STAILQ_INSERT_TAIL(&notifier->errors.pending, error, next);
	refused = notifier_start(notifier);
	if (refused)
		log_error("an asynchronous error waits: %s; no thread: %s",
			  error_name(descriptor->ErrorCode), strerror(refused));
	notifier_wake(notifier);
}

static void report(struct nic *nic, VIP_ERROR_DESCRIPTOR *error, bool closed_by_peer)
{
	struct notifier *notifier = nic->notifier;

	error->NicHandle = object_handle(&nic->object);
	pthread_mutex_lock(&notifier->lock);
	/* The caller of the post was told already; the handler need not hear of each. */
	if (!notifier->stop && !(is_mistake(error) && notifier->errors.mistakes >= MOST_MISTAKES))
		enqueue(notifier, error, closed_by_peer);
	pthread_mutex_unlock(&notifier->lock);
}

void error_of_nic(struct nic *nic, VIP_ERROR_CODE code)
{
	report(nic, &(VIP_ERROR_DESCRIPTOR){.ResourceCode = VIP_RESOURCE_NIC, .ErrorCode = code},
	       false);
}

void error_of_vi(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation)
{
	report(vi->nic,
	       &(VIP_ERROR_DESCRIPTOR){.ViHandle = object_handle(&vi->object),
				       .OpCode = operation,
				       .ResourceCode = VIP_RESOURCE_VI,
				       .ErrorCode = code},
	       code == VIP_ERROR_CONN_LOST && vi->closed_by_peer);
}

void error_of_post(struct vi *vi, VIP_ERROR_CODE code, uint32_t operation,
		   VIP_DESCRIPTOR *descriptor)
{
	/* In the one case the descriptor is at fault, in the other the queue is full. */
	VIP_RESOURCE_CODE resource =
		code == VIP_ERROR_POST_DESC ? VIP_RESOURCE_DESCRIPTOR : VIP_RESOURCE_VI;

	report(vi->nic,
	       &(VIP_ERROR_DESCRIPTOR){.ViHandle = object_handle(&vi->object),
				       .DescriptorPtr = descriptor,
				       .OpCode = operation,
				       .ResourceCode = resource,
				       .ErrorCode = code},
	       false);
}

void error_forget(struct nic *nic, VIP_VI_HANDLE vi)
{
	struct notifier *notifier = nic->notifier;
	struct pending_error *error, *next;

	pthread_mutex_lock(&notifier->lock);
	for (error = STAILQ_FIRST(&notifier->errors.pending); error; error = next) {
		next = STAILQ_NEXT(error, next);
		if (error->descriptor.ViHandle != vi || is_mistake(&error->descriptor))
			continue;
		STAILQ_REMOVE(&notifier->errors.pending, error, pending_error, next);
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
	nic->notifier->errors.handler = Handler;
	nic->notifier->errors.context = Context;
	pthread_mutex_unlock(&nic->notifier->lock);
	nic_put(nic);
	return VIP_SUCCESS;
}
