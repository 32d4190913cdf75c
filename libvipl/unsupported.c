/* The functions of VIPL that this release does not have yet; the README lists them. */
#include "vipl.h"

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
				 VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
	(void)ViHandle, (void)LocalAddr, (void)RemoteAddr, (void)Timeout;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	(void)ViHandle, (void)RemoteViAttribs;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
	(void)ViHandle, (void)RemoteViAttribs;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	(void)ViHandle, (void)Context, (void)Handler;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler)
{
	(void)ViHandle, (void)Context, (void)Handler;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler)
{
	(void)CQHandle, (void)Context, (void)Handler;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
	(void)CQHandle, (void)EntryCount;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs)
{
	(void)ViHandle, (void)ViAttribs;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			       VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	(void)NicHandle, (void)VirtualAddress, (void)MemHandle, (void)MemAttribs;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_MEM_HANDLE MemHandle,
		       VIP_MEM_ATTRIBUTES *MemAttribs)
{
	(void)NicHandle, (void)VirtualAddress, (void)MemHandle, (void)MemAttribs;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
					VIP_PVOID SysManInfo)
{
	(void)NicHandle, (void)InfoType, (void)SysManInfo;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
			      VIP_ULONG *NameLen)
{
	(void)NicHandle, (void)Address, (void)Name, (void)NameLen;
	return VIP_ERROR_NOT_SUPPORTED;
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
	(void)CQHandle, (void)Event, (void)Tag, (void)Priority;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE Event, VIP_ULONG Tag)
{
	(void)CQHandle, (void)Event, (void)Tag;
	return VIP_ERROR_NOT_SUPPORTED;
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN EnableInterrupt,
				VIP_BOOLEAN *SendsDeferred)
{
	(void)ViHandle, (void)EnableInterrupt, (void)SendsDeferred;
	return VIP_ERROR_NOT_SUPPORTED;
}
