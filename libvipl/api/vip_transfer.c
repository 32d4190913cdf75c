/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfer: VipPostSend to VipRecvWait. */
#include "pvip.h"
#include "core/nic.h"
#include "core/object_at.h"
#include "core/vi.h"

static struct workqueue *queue_of(struct vi *vi, bool is_receive)
{
	return is_receive ? &vi->receive : &vi->send;
}

/* The descriptor cannot be posted. */
static __attribute__((noinline)) VIP_RETURN refuse_descriptor(VIP_VI_HANDLE handle, bool is_receive,
							      VIP_DESCRIPTOR *descriptor)
{
	struct vi *vi = vi_get(handle);

	if (vi && descriptor)
		error_of_post(vi, VIP_ERROR_POST_DESC,
			      is_receive ? VIP_STATUS_OP_RECEIVE : VIP_STATUS_OP_SEND, descriptor);
	if (vi)
		vi_put(vi);
	return VIP_INVALID_PARAMETER;
}

/* The memory handle of the descriptor itself is ignored, because programs give wrong ones. */
static inline VIP_RETURN post(VIP_VI_HANDLE handle, bool is_receive, VIP_DESCRIPTOR *descriptor)
{
	struct vi *vi = object_at(handle, OBJECT_VI);

	if (!descriptor || (uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT)
		return refuse_descriptor(handle, is_receive, descriptor);
	if (!vi)
		return VIP_INVALID_PARAMETER;
	return is_receive ? workqueue_post_receive(handle, descriptor, &vi->receive)
			  : workqueue_post_send(handle, descriptor, &vi->send);
}

static inline VIP_RETURN done(VIP_VI_HANDLE handle, bool is_receive, VIP_DESCRIPTOR **descriptor)
{
	struct vi *vi = object_at(handle, OBJECT_VI);

	if (!vi || !descriptor)
		return VIP_INVALID_PARAMETER;
	return workqueue_take(handle, descriptor, queue_of(vi, is_receive));
}

struct taking {
	struct workqueue *queue;
	VIP_DESCRIPTOR **descriptor;
};

/* An empty queue is no reason to end a wait: another thread may post. */
static VIP_RETURN take_descriptor(void *argument)
{
	struct taking *taking = argument;
	VIP_RETURN rc;

	*taking->descriptor = NULL; /* workqueue_take() does not set it if the VI is gone */
	rc = workqueue_take(object_handle(&taking->queue->vi->object), taking->descriptor, taking->queue);
	return *taking->descriptor ? rc : VIP_NOT_DONE;
}

static VIP_RETURN wait(struct vi *vi, bool is_receive, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor)
{
	struct taking taking = {queue_of(vi, is_receive), descriptor};
	struct timeout timeout = {.msec = msec};

	return cq_wait(taking.queue->cq, &vi->object, &timeout, take_descriptor, &taking);
}

VIP_RETURN PVipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
			VIP_MEM_HANDLE MemHandle)
{
	(void)MemHandle;
	return post(ViHandle, false, DescriptorPtr);
}

VIP_RETURN PVipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
			VIP_MEM_HANDLE MemHandle)
{
	(void)MemHandle;
	return post(ViHandle, true, DescriptorPtr);
}

VIP_RETURN PVipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
	return done(ViHandle, false, DescriptorPtr);
}

VIP_RETURN PVipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
	return done(ViHandle, true, DescriptorPtr);
}

VIP_RETURN PVipSendWait(struct vi *vi, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
	return wait(vi, false, Timeout, DescriptorPtr);
}

VIP_RETURN PVipRecvWait(struct vi *vi, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
	return wait(vi, true, Timeout, DescriptorPtr);
}
