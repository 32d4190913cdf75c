/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion queues of the program: VipCreateCQ to VipCQWait. */
#include "pvip.h"
#include "core/cq.h"
#include "core/nic.h"
#include "core/object_at.h"
#include "service/notifier.h"

struct cq_taking {
	struct cq *cq;
	struct timeout timeout;
	VIP_VI_HANDLE *vi;
	VIP_BOOLEAN *is_receive;
};

static VIP_RETURN take_for_wait(void *argument)
{
	struct cq_taking *taking = argument;

	return cq_take_in_time(taking->cq, &taking->timeout, taking->vi, taking->is_receive);
}

VIP_RETURN PVipCreateCQ(struct nic *nic, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
	struct cq *cq;

	if (EntryCount > nic->attributes.MaxCQEntries)
		return VIP_ERROR_RESOURCE;
	pthread_mutex_lock(&nic->lock);
	/* EntryCount is a hint: programs ask for 1 and have dozens of descriptors on many VIs. */
	cq = cq_create(nic, NULL, EntryCount > CQ_ENTRIES ? (unsigned)EntryCount : CQ_ENTRIES, true);
	if (cq)
		*CQHandle = object_handle(&cq->object);
	pthread_mutex_unlock(&nic->lock);
	return cq ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

/* Makes the handle invalid, if no VI uses the CQ. */
static VIP_RETURN retire(struct cq *cq)
{
	VIP_RETURN rc = VIP_SUCCESS;

	pthread_mutex_lock(&cq->nic->lock);
	if (cq->queues)
		rc = VIP_ERROR_RESOURCE;
	else if (!cq_retract_handle(cq))
		rc = VIP_INVALID_PARAMETER;
	pthread_mutex_unlock(&cq->nic->lock);
	return rc;
}

VIP_RETURN PVipDestroyCQ(VIP_CQ_HANDLE CQHandle)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct cq *cq = object_get(CQHandle, OBJECT_CQ);
	struct nic *nic;

	if (!cq)
		return rc;
	nic = cq->nic;
	if (!object_hold(&nic->object)) /* being closed, with all its CQs */
		goto put_cq;
	rc = retire(cq);
	if (rc != VIP_SUCCESS) {
		nic_put(nic);
		goto put_cq;
	}
	cq_wake(cq, true);
	notify_cancel_cq(cq);
	object_drain(&cq->object, 1);
	pthread_mutex_lock(&nic->lock);
	cq_destroy(cq);
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
	return rc;

put_cq:
	object_put(&cq->object);
	return rc;
}

/* The count is a hint, as in VipCreateCQ: a CQ that has more room keeps it. */
VIP_RETURN PVipResizeCQ(struct cq *cq, VIP_ULONG EntryCount)
{
	return cq_make_room(cq, EntryCount) ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

VIP_RETURN PVipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
	struct cq *cq = object_at(CQHandle, OBJECT_CQ);

	if (!cq || !ViHandle || !RecvQueue)
		return VIP_INVALID_PARAMETER;
	return cq_take(CQHandle, ViHandle, RecvQueue, cq);
}

VIP_RETURN PVipCQWait(struct cq *cq, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
	struct cq_taking taking = {cq, {.msec = Timeout}, ViHandle, RecvQueue};

	return cq_wait(cq, &cq->object, &taking.timeout, take_for_wait, &taking);
}
