/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection tags and memory regions: VipCreatePtag to VipDeregisterMem, VipSetMemAttributes,
 * VipQueryMem.
 */
#include "pvip.h"
#include "core/memory.h"
#include "core/nic.h"

VIP_RETURN PVipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!nic)
		return rc;
	if (Ptag)
		rc = tag_create(nic, Ptag);
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	rc = tag_destroy(nic, Ptag);
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			   VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	static const VIP_MEM_ATTRIBUTES none;
	const VIP_MEM_ATTRIBUTES *attributes = MemAttribs ? MemAttribs : &none;
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!nic)
		return rc;
	if (VirtualAddress && Length && MemoryHandle && Length <= nic->attributes.MaxRegisterBlockBytes)
		rc = region_register(nic, VirtualAddress, Length, attributes, MemoryHandle);
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			     VIP_MEM_HANDLE MemoryHandle)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	rc = region_deregister(nic, VirtualAddress, MemoryHandle);
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
				VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!nic)
		return rc;
	if (MemAttribs)
		rc = region_set_attributes(nic, VirtualAddress, MemoryHandle, MemAttribs);
	nic_put(nic);
	return rc;
}

VIP_RETURN PVipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!nic)
		return rc;
	if (MemAttribs)
		rc = region_query(nic, VirtualAddress, MemoryHandle, MemAttribs);
	nic_put(nic);
	return rc;
}
