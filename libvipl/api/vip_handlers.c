/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's handlers: VipErrorCallback, VipSendNotify, VipRecvNotify, VipCQNotify. */
#include "pvip.h"
#include "core/nic.h"
#include "service/notifier.h"

VIP_RETURN PVipErrorCallback(struct nic *nic, VIP_PVOID Context, VIP_ERROR_HANDLER Handler)
{
	error_set_handler(nic, Handler, Context);
	return VIP_SUCCESS;
}

static VIP_RETURN queue_notify(struct workqueue *queue, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	const struct notify wanted = {.context = context, .vi_handler = handler};

	if (queue->cq->is_public) /* completions of the queue are reported there */
		return VIP_ERROR_RESOURCE;
	return notifier_add(queue->cq, queue, &wanted);
}

VIP_RETURN PVipSendNotify(struct vi *vi, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	return queue_notify(&vi->send, Context, Handler);
}

VIP_RETURN PVipRecvNotify(struct vi *vi, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	return queue_notify(&vi->receive, Context, Handler);
}

VIP_RETURN PVipCQNotify(struct cq *cq, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
	const struct notify wanted = {.context = Context, .cq_handler = Handler};

	return notifier_add(cq, NULL, &wanted);
}
