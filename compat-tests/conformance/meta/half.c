/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of VIPL: NICs and memory. The rest is missing. With CRASHING one function crashes on
 * an argument that it should refuse.
 */
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

static const VIP_UINT8 address[6] = {10, 0, 0, 1};
static VIP_MEM_HANDLE regions;
#define NIC (&regions) /* its handle */

VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
	if (!DeviceName || !NicHandle || strcmp(DeviceName, "half"))
		return VIP_INVALID_PARAMETER;
	*NicHandle = NIC;
	return VIP_SUCCESS;
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle)
{
	return NicHandle == NIC ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *NicAttribs)
{
	if (NicHandle != NIC || !NicAttribs)
		return VIP_INVALID_PARAMETER;
	memset(NicAttribs, 0, sizeof(*NicAttribs));
	strcpy(NicAttribs->Name, "half");
	NicAttribs->NicAddressLen = sizeof(address);
	NicAttribs->LocalNicAddress = address;
	NicAttribs->MaxDiscriminatorLen = 16;
	NicAttribs->MaxRegisterBlockBytes = 1 << 20;
	NicAttribs->MaxTransferSize = 65536;
	return VIP_SUCCESS;
}

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context, VIP_ERROR_HANDLER Handler)
{
	(void)Context;
	(void)Handler;
	return NicHandle == NIC ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	(void)MemAttribs;
#ifdef CRASHING
	if (!Length)
		abort();
#endif
	if (NicHandle != NIC || !VirtualAddress || !MemoryHandle || !Length || Length > 1 << 20)
		return VIP_INVALID_PARAMETER;
	*MemoryHandle = ++regions;
	return VIP_SUCCESS;
}
