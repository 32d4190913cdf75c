/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual interfaces: VipCreateVi, VipDestroyVi, VipSetViAttributes, VipQueryVi, VipGetUserData,
 * VipSetUserData.
 */
#include "pvip.h"
#include "connect/vis.h"
#include "core/nic.h"
#include "service/agent.h"
#include "service/notifier.h"

VIP_RETURN PVipCreateVi(struct nic *nic, VIP_VI_ATTRIBUTES *ViAttribs,
			VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
			VIP_VI_HANDLE *ViHandle)
{
	struct cq *send_cq = SendCQHandle ? object_get(SendCQHandle, OBJECT_CQ) : NULL;
	struct cq *receive_cq = RecvCQHandle ? object_get(RecvCQHandle, OBJECT_CQ) : NULL;
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!SendCQHandle == !send_cq && !RecvCQHandle == !receive_cq &&
	    (!send_cq || send_cq->nic == nic) && (!receive_cq || receive_cq->nic == nic))
		rc = vi_create(nic, ViAttribs, send_cq, receive_cq, ViHandle);
	if (receive_cq)
		object_put(&receive_cq->object);
	if (send_cq)
		object_put(&send_cq->object);
	return rc;
}

VIP_RETURN PVipDestroyVi(VIP_VI_HANDLE ViHandle)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct nic *nic;

	if (!vi)
		return rc;
	nic = vi->nic;
	if (!object_hold(&nic->object)) { /* VipCloseNic has begun, and destroys the VI */
		vi_put(vi);
		return rc;
	}
	rc = vi_retire(vi);
	if (rc == VIP_SUCCESS) {
		notify_cancel_vi(vi);
		vi_destroy(vi);
	} else {
		vi_put(vi);
	}
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipSetViAttributes(struct vi *vi, VIP_VI_ATTRIBUTES *ViAttribs)
{
	VIP_RETURN rc;

	pthread_mutex_lock(&vi->nic->lock);
	rc = vi_set_attributes(vi, ViAttribs);
	pthread_mutex_unlock(&vi->nic->lock);
	return rc;
}

VIP_RETURN PVipQueryVi(struct vi *vi, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *Attributes,
		       VIP_BOOLEAN *ViSendQEmpty, VIP_BOOLEAN *ViRecvQEmpty)
{
	/* A program that calls nothing else shall learn of an error, too. */
	agent_stand_in(vi->nic);
	cq_serve(vi->send.cq, &vi->object);
	cq_serve(vi->receive.cq, &vi->object);
	vi_catch_up(vi);
	*State = atomic_load(&vi->state);
	workqueue_lock(&vi->receive);
	*Attributes = vi->attributes;
	workqueue_unlock(&vi->receive);
	*ViSendQEmpty = workqueue_is_empty(&vi->send) ? VIP_TRUE : VIP_FALSE;
	*ViRecvQEmpty = workqueue_is_empty(&vi->receive) ? VIP_TRUE : VIP_FALSE;
	return VIP_SUCCESS;
}

VIP_PVOID PVipGetUserData(VIP_VI_HANDLE ViHandle)
{
	struct vi *vi = vi_get(ViHandle);
	VIP_PVOID data;

	if (!vi)
		return NULL;
	data = atomic_load(&vi->user_data);
	vi_put(vi);
	return data;
}

void PVipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID Data)
{
	struct vi *vi = vi_get(ViHandle);

	if (!vi)
		return;
	atomic_store(&vi->user_data, Data);
	vi_put(vi);
}
