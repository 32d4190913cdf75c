/* Data transfer: VipPostSend to VipRecvWait. */
#include "error.h"
#include "nic.h"
#include "vi.h"

static VIP_RETURN post(struct vi *vi, struct workqueue *queue, VIP_DESCRIPTOR *descriptor)
{
	if (!descriptor)
		return VIP_INVALID_PARAMETER;
	if ((uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT) {
		error_report(vi->nic, VIP_ERROR_POST_DESC, vi, descriptor);
		return VIP_INVALID_PARAMETER;
	}
	return workqueue_post(queue, descriptor);
}

/* The descriptor's own handle is not looked at: programs give wrong ones that hardware took. */
VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
		       VIP_MEM_HANDLE MemoryHandle)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc;

	(void)MemoryHandle;
	if (!vi)
		return VIP_INVALID_PARAMETER;
	rc = post(vi, &vi->send, DescriptorPtr);
	vi_put(vi);
	return rc;
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
		       VIP_MEM_HANDLE MemoryHandle)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc;

	(void)MemoryHandle;
	if (!vi)
		return VIP_INVALID_PARAMETER;
	rc = post(vi, &vi->receive, DescriptorPtr);
	vi_put(vi);
	return rc;
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct vi *vi = vi_get(ViHandle);

	if (!vi)
		return rc;
	if (DescriptorPtr)
		rc = workqueue_take(&vi->send, DescriptorPtr);
	vi_put(vi);
	return rc;
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct vi *vi = vi_get(ViHandle);

	if (!vi)
		return rc;
	if (DescriptorPtr)
		rc = workqueue_take(&vi->receive, DescriptorPtr);
	vi_put(vi);
	return rc;
}

struct taking {
	struct workqueue *queue;
	VIP_DESCRIPTOR **descriptor;
};

/* An empty queue is no reason to end a wait: another thread may post. */
static VIP_RETURN take(void *argument)
{
	struct taking *taking = argument;
	VIP_RETURN rc = workqueue_take(taking->queue, taking->descriptor);

	return *taking->descriptor ? rc : VIP_NOT_DONE;
}

static VIP_RETURN wait(struct vi *vi, struct workqueue *queue, VIP_ULONG timeout,
		       VIP_DESCRIPTOR **descriptor)
{
	struct taking taking = {queue, descriptor};

	if (!descriptor)
		return VIP_INVALID_PARAMETER;
	return cq_wait(queue->cq, &vi->object, timeout, take, &taking);
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG TimeOut, VIP_DESCRIPTOR **DescriptorPtr)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc;

	if (!vi)
		return VIP_INVALID_PARAMETER;
	rc = wait(vi, &vi->send, TimeOut, DescriptorPtr);
	vi_put(vi);
	return rc;
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG TimeOut, VIP_DESCRIPTOR **DescriptorPtr)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc;

	if (!vi)
		return VIP_INVALID_PARAMETER;
	rc = wait(vi, &vi->receive, TimeOut, DescriptorPtr);
	vi_put(vi);
	return rc;
}
