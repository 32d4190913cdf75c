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

static struct cq *cq_get(VIP_CQ_HANDLE handle)
{
	return object_get(handle, OBJECT_CQ);
}

VIP_RETURN PVipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
	VIP_RETURN rc = VIP_ERROR_RESOURCE;
	struct nic *nic = nic_get(NicHandle);
	struct cq *cq;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	if (!CQHandle || !EntryCount) {
		rc = VIP_INVALID_PARAMETER;
		goto put_nic;
	}
	if (EntryCount > nic->attributes.MaxCQEntries)
		goto put_nic;
	pthread_mutex_lock(&nic->lock);
	/* EntryCount is a hint: programs ask for 1 and have dozens of descriptors on many VIs. */
	cq = cq_create(nic, NULL, EntryCount > CQ_ENTRIES ? (unsigned)EntryCount : CQ_ENTRIES, true);
	if (cq) {
		*CQHandle = object_handle(&cq->object);
		rc = VIP_SUCCESS;
	}
	pthread_mutex_unlock(&nic->lock);
put_nic:
	nic_put(nic);
	return rc;
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
	struct cq *cq = cq_get(CQHandle);
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
VIP_RETURN PVipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
	struct cq *cq = cq_get(CQHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!cq)
		return rc;
	if (EntryCount)
		rc = cq_make_room(cq, EntryCount) ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
	object_put(&cq->object);
	return rc;
}

VIP_RETURN PVipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
	struct cq *cq = object_at(CQHandle, OBJECT_CQ);

	if (!cq || !ViHandle || !RecvQueue)
		return VIP_INVALID_PARAMETER;
	return cq_take(cq, CQHandle, ViHandle, RecvQueue);
}

VIP_RETURN PVipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
		      VIP_BOOLEAN *RecvQueue)
{
	struct cq_taking taking = {cq_get(CQHandle), {.msec = Timeout}, ViHandle, RecvQueue};
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!taking.cq)
		return rc;
	if (ViHandle && RecvQueue)
		rc = cq_wait(taking.cq, &taking.cq->object, &taking.timeout, take_for_wait, &taking);
	object_put(&taking.cq->object);
	return rc;
}
