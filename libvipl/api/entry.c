/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs call: each function is a jump to what does it (PVipPostSend, in the files beside
 * this one), or, while calls are traced, to that with a line of the trace around it
 * (traced_VipPostSend).
 */
#include "pvip.h"
#include "trace/trace.h"
#include "traced.h"
#include "vipl.h"

/* ---- hardware connection ---- */

VIP_RETURN VipOpenNic(const VIP_CHAR *name, VIP_NIC_HANDLE *nic)
{
	return trace_is_on() ? traced_VipOpenNic(name, nic) : PVipOpenNic(name, nic);
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE nic)
{
	return trace_is_on() ? traced_VipCloseNic(nic) : PVipCloseNic(nic);
}

/* ---- endpoint creation and destruction ---- */

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE nic, VIP_VI_ATTRIBUTES *attributes, VIP_CQ_HANDLE send_cq,
		       VIP_CQ_HANDLE recv_cq, VIP_VI_HANDLE *vi)
{
	return trace_is_on() ? traced_VipCreateVi(nic, attributes, send_cq, recv_cq, vi)
			     : PVipCreateVi(nic, attributes, send_cq, recv_cq, vi);
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE vi)
{
	return trace_is_on() ? traced_VipDestroyVi(vi) : PVipDestroyVi(vi);
}

/* ---- connection management ---- */

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *local, VIP_ULONG msec,
			  VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes,
			  VIP_CONN_HANDLE *connection)
{
	return trace_is_on()
		       ? traced_VipConnectWait(nic, local, msec, remote, attributes, connection)
		       : PVipConnectWait(nic, local, msec, remote, attributes, connection);
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE connection, VIP_VI_HANDLE vi)
{
	return trace_is_on() ? traced_VipConnectAccept(connection, vi)
			     : PVipConnectAccept(connection, vi);
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE connection)
{
	return trace_is_on() ? traced_VipConnectReject(connection) : PVipConnectReject(connection);
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
			     VIP_ULONG msec, VIP_VI_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipConnectRequest(vi, local, remote, msec, attributes)
			     : PVipConnectRequest(vi, local, remote, msec, attributes);
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE vi, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
				 VIP_ULONG msec)
{
	return trace_is_on() ? traced_VipConnectPeerRequest(vi, local, remote, msec)
			     : PVipConnectPeerRequest(vi, local, remote, msec);
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipConnectPeerDone(vi, attributes)
			     : PVipConnectPeerDone(vi, attributes);
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipConnectPeerWait(vi, attributes)
			     : PVipConnectPeerWait(vi, attributes);
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE vi)
{
	return trace_is_on() ? traced_VipDisconnect(vi) : PVipDisconnect(vi);
}

/* ---- memory protection and registration ---- */

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE *tag)
{
	return trace_is_on() ? traced_VipCreatePtag(nic, tag) : PVipCreatePtag(nic, tag);
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE tag)
{
	return trace_is_on() ? traced_VipDestroyPtag(nic, tag) : PVipDestroyPtag(nic, tag);
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_ULONG bytes,
			  VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *mem)
{
	return trace_is_on() ? traced_VipRegisterMem(nic, memory, bytes, attributes, mem)
			     : PVipRegisterMem(nic, memory, bytes, attributes, mem);
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem)
{
	return trace_is_on() ? traced_VipDeregisterMem(nic, memory, mem)
			     : PVipDeregisterMem(nic, memory, mem);
}

/* ---- data transfer and completion ---- */

VIP_RETURN VipPostSend(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem)
{
	return trace_is_on() ? traced_VipPostSend(vi, descriptor, mem)
			     : PVipPostSend(vi, descriptor, mem);
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor)
{
	return trace_is_on() ? traced_VipSendDone(vi, descriptor) : PVipSendDone(vi, descriptor);
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor)
{
	return trace_is_on() ? traced_VipSendWait(vi, msec, descriptor)
			     : PVipSendWait(vi, msec, descriptor);
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	return trace_is_on() ? traced_VipSendNotify(vi, context, handler)
			     : PVipSendNotify(vi, context, handler);
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE mem)
{
	return trace_is_on() ? traced_VipPostRecv(vi, descriptor, mem)
			     : PVipPostRecv(vi, descriptor, mem);
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE vi, VIP_DESCRIPTOR **descriptor)
{
	return trace_is_on() ? traced_VipRecvDone(vi, descriptor) : PVipRecvDone(vi, descriptor);
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE vi, VIP_ULONG msec, VIP_DESCRIPTOR **descriptor)
{
	return trace_is_on() ? traced_VipRecvWait(vi, msec, descriptor)
			     : PVipRecvWait(vi, msec, descriptor);
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE vi, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	return trace_is_on() ? traced_VipRecvNotify(vi, context, handler)
			     : PVipRecvNotify(vi, context, handler);
}

/* ---- completion queues ---- */

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE nic, VIP_ULONG entries, VIP_CQ_HANDLE *cq)
{
	return trace_is_on() ? traced_VipCreateCQ(nic, entries, cq)
			     : PVipCreateCQ(nic, entries, cq);
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE cq)
{
	return trace_is_on() ? traced_VipDestroyCQ(cq) : PVipDestroyCQ(cq);
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE cq, VIP_ULONG entries)
{
	return trace_is_on() ? traced_VipResizeCQ(cq, entries) : PVipResizeCQ(cq, entries);
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receives)
{
	return trace_is_on() ? traced_VipCQDone(cq, vi, receives) : PVipCQDone(cq, vi, receives);
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE cq, VIP_ULONG msec, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receives)
{
	return trace_is_on() ? traced_VipCQWait(cq, msec, vi, receives)
			     : PVipCQWait(cq, msec, vi, receives);
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE cq, VIP_PVOID context, VIP_CQ_CALLBACK handler)
{
	return trace_is_on() ? traced_VipCQNotify(cq, context, handler)
			     : PVipCQNotify(cq, context, handler);
}

/* ---- querying and setting attributes ---- */

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE nic, VIP_NIC_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipQueryNic(nic, attributes) : PVipQueryNic(nic, attributes);
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipSetViAttributes(vi, attributes)
			     : PVipSetViAttributes(vi, attributes);
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
		      VIP_BOOLEAN *sends_empty, VIP_BOOLEAN *receives_empty)
{
	return trace_is_on() ? traced_VipQueryVi(vi, state, attributes, sends_empty, receives_empty)
			     : PVipQueryVi(vi, state, attributes, sends_empty, receives_empty);
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
			       VIP_MEM_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipSetMemAttributes(nic, memory, mem, attributes)
			     : PVipSetMemAttributes(nic, memory, mem, attributes);
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE nic, VIP_PVOID memory, VIP_MEM_HANDLE mem,
		       VIP_MEM_ATTRIBUTES *attributes)
{
	return trace_is_on() ? traced_VipQueryMem(nic, memory, mem, attributes)
			     : PVipQueryMem(nic, memory, mem, attributes);
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE nic, VIP_ULONG type, VIP_PVOID info)
{
	return trace_is_on() ? traced_VipQuerySystemManagementInfo(nic, type, info)
			     : PVipQuerySystemManagementInfo(nic, type, info);
}

/* ---- error handling ---- */

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE nic, VIP_PVOID context, VIP_ERROR_HANDLER handler)
{
	return trace_is_on() ? traced_VipErrorCallback(nic, context, handler)
			     : PVipErrorCallback(nic, context, handler);
}

/* ---- name service ---- */

VIP_RETURN VipNSInit(VIP_NIC_HANDLE nic, VIP_PVOID info)
{
	return trace_is_on() ? traced_VipNSInit(nic, info) : PVipNSInit(nic, info);
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE nic, VIP_CHAR *name, VIP_NET_ADDRESS *found,
			      VIP_ULONG index)
{
	return trace_is_on() ? traced_VipNSGetHostByName(nic, name, found, index)
			     : PVipNSGetHostByName(nic, name, found, index);
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE nic, VIP_NET_ADDRESS *wanted, VIP_CHAR *name,
			      VIP_ULONG *room)
{
	return trace_is_on() ? traced_VipNSGetHostByAddr(nic, wanted, name, room)
			     : PVipNSGetHostByAddr(nic, wanted, name, room);
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE nic)
{
	return trace_is_on() ? traced_VipNSShutdown(nic) : PVipNSShutdown(nic);
}

/* ---- Giganet additions ---- */

VIP_PVOID VipGetUserData(VIP_VI_HANDLE vi)
{
	return trace_is_on() ? traced_VipGetUserData(vi) : PVipGetUserData(vi);
}

void VipSetUserData(VIP_VI_HANDLE vi, VIP_PVOID data)
{
	if (trace_is_on())
		traced_VipSetUserData(vi, data);
	else
		PVipSetUserData(vi, data);
}

VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE *event, VIP_ULONG tag, VIP_ULONG priority)
{
	return trace_is_on() ? traced_VipAddTagCQ(cq, event, tag, priority)
			     : PVipAddTagCQ(cq, event, tag, priority);
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE cq, VIP_EVENT_HANDLE event, VIP_ULONG tag)
{
	return trace_is_on() ? traced_VipRemoveTagCQ(cq, event, tag)
			     : PVipRemoveTagCQ(cq, event, tag);
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE vi, VIP_BOOLEAN interrupt, VIP_BOOLEAN *deferred)
{
	return trace_is_on() ? traced_VipPostDeferredSends(vi, interrupt, deferred)
			     : PVipPostDeferredSends(vi, interrupt, deferred);
}
