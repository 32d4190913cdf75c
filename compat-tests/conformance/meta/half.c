/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of VIPL: NICs, tags and memory. The rest is missing. With CRASHING one function crashes on
 * an argument that it should refuse.
 */
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

static const VIP_UINT8 address[6] = {10, 0, 0, 1};
static int tags;
static VIP_MEM_HANDLE regions;

VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
	if (!DeviceName || !NicHandle || strcmp(DeviceName, "half"))
		return VIP_INVALID_PARAMETER;
	*NicHandle = &tags;
	return VIP_SUCCESS;
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle)
{
	return NicHandle == &tags ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *NicAttribs)
{
	if (NicHandle != &tags || !NicAttribs)
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
	return NicHandle == &tags ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag)
{
	if (NicHandle != &tags || !Ptag)
		return VIP_INVALID_PARAMETER;
	*Ptag = (char *)&tags + ++tags;
	return VIP_SUCCESS;
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag)
{
	return NicHandle == &tags && Ptag ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	(void)MemAttribs;
#ifdef CRASHING
	if (!Length)
		abort();
#endif
	if (NicHandle != &tags || !VirtualAddress || !MemoryHandle || !Length || Length > 1 << 20)
		return VIP_INVALID_PARAMETER;
	*MemoryHandle = ++regions;
	return VIP_SUCCESS;
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			    VIP_MEM_HANDLE MemoryHandle)
{
	(void)VirtualAddress;
	return NicHandle == &tags && MemoryHandle ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}
