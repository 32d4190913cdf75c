/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's handlers: VipErrorCallback, VipSendNotify, VipRecvNotify, VipCQNotify. */
#include "pvip.h"
#include "core/nic.h"
#include "service/notifier.h"

VIP_RETURN PVipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
			     VIP_ERROR_HANDLER Handler)
{
	struct nic *nic = nic_get(NicHandle);

	if (!nic)
		return VIP_INVALID_PARAMETER;
	error_set_handler(nic, Handler, Context);
	nic_put(nic);
	return VIP_SUCCESS;
}

static VIP_RETURN queue_notify(VIP_VI_HANDLE handle, bool is_receive, VIP_PVOID context,
			       VIP_VI_CALLBACK handler)
{
	const struct notify wanted = {.context = context, .vi_handler = handler};
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct vi *vi = vi_get(handle);
	struct workqueue *queue;

	if (!vi)
		return rc;
	queue = is_receive ? &vi->receive : &vi->send;
	if (handler) /* completions of a queue on a program's CQ are reported there */
		rc = queue->cq->is_public ? VIP_ERROR_RESOURCE : notifier_add(queue->cq, queue, &wanted);
	vi_put(vi);
	return rc;
}

VIP_RETURN PVipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	return queue_notify(ViHandle, false, Context, Handler);
}

VIP_RETURN PVipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	return queue_notify(ViHandle, true, Context, Handler);
}

VIP_RETURN PVipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
	const struct notify wanted = {.context = Context, .cq_handler = Handler};
	struct cq *cq = object_get(CQHandle, OBJECT_CQ);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!cq)
		return rc;
	if (Handler)
		rc = notifier_add(cq, NULL, &wanted);
	object_put(&cq->object);
	return rc;
}
