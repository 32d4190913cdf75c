/* The functions of VIPL that this release does not have yet; the README lists them. */
#include "object.h"

static VIP_RETURN answer(VIP_PVOID handle, enum object_kind kind)
{
	struct object *object = object_get(handle, kind);

	if (!object)
		return VIP_INVALID_PARAMETER;
	object_put(object);
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
				 VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
	(void)LocalAddr, (void)RemoteAddr, (void)Timeout;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	(void)RemoteViAttribs;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	(void)RemoteViAttribs;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	(void)Context, (void)Handler;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	(void)Context, (void)Handler;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
	(void)Context, (void)Handler;
	return answer(CQHandle, OBJECT_CQ);
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
	(void)EntryCount;
	return answer(CQHandle, OBJECT_CQ);
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs)
{
	(void)ViAttribs;
	return answer(ViHandle, OBJECT_VI);
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			       VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	(void)VirtualAddress, (void)MemHandle, (void)MemAttribs;
	return answer(NicHandle, OBJECT_NIC);
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_MEM_HANDLE MemHandle,
		       VIP_MEM_ATTRIBUTES *MemAttribs)
{
	(void)VirtualAddress, (void)MemHandle, (void)MemAttribs;
	return answer(NicHandle, OBJECT_NIC);
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
					VIP_PVOID SysManInfo)
{
	(void)InfoType, (void)SysManInfo;
	return answer(NicHandle, OBJECT_NIC);
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
			      VIP_ULONG *NameLen)
{
	(void)Address, (void)Name, (void)NameLen;
	return answer(NicHandle, OBJECT_NIC);
}

VIP_PVOID VipGetUserData(VIP_VI_HANDLE ViHandle)
{
	(void)ViHandle;
	return 0;
}

void VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID Data)
{
	(void)ViHandle, (void)Data;
}

VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE *Event, VIP_ULONG Tag,
		       VIP_ULONG Priority)
{
	(void)Event, (void)Tag, (void)Priority;
	return answer(CQHandle, OBJECT_CQ);
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE Event, VIP_ULONG Tag)
{
	(void)Event, (void)Tag;
	return answer(CQHandle, OBJECT_CQ);
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN EnableInterrupt,
				VIP_BOOLEAN *SendsDeferred)
{
	(void)EnableInterrupt, (void)SendsDeferred;
	return answer(ViHandle, OBJECT_VI);
}
