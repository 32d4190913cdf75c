/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection tags and memory regions: VipCreatePtag to VipDeregisterMem, VipSetMemAttributes,
 * VipQueryMem.
 */
#include "pvip.h"
#include "core/memory.h"
#include "core/nic.h"

VIP_RETURN PVipCreatePtag(struct nic *nic, VIP_PROTECTION_HANDLE *Ptag)
{
	return tag_create(nic, Ptag);
}

VIP_RETURN PVipDestroyPtag(struct nic *nic, VIP_PROTECTION_HANDLE Ptag)
{
	return tag_destroy(nic, Ptag);
}

VIP_RETURN PVipRegisterMem(struct nic *nic, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			   VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	static const VIP_MEM_ATTRIBUTES none;

	if (Length > nic->attributes.MaxRegisterBlockBytes)
		return VIP_INVALID_PARAMETER;
	return region_register(nic, VirtualAddress, Length, MemAttribs ? MemAttribs : &none, MemoryHandle);
}

VIP_RETURN PVipDeregisterMem(struct nic *nic, VIP_PVOID VirtualAddress, VIP_MEM_HANDLE MemoryHandle)
{
	return region_deregister(nic, VirtualAddress, MemoryHandle);
}

VIP_RETURN PVipSetMemAttributes(struct nic *nic, VIP_PVOID VirtualAddress,
				VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	return region_set_attributes(nic, VirtualAddress, MemoryHandle, MemAttribs);
}

VIP_RETURN PVipQueryMem(struct nic *nic, VIP_PVOID VirtualAddress,
			VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	return region_query(nic, VirtualAddress, MemoryHandle, MemAttribs);
}
