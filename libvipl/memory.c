/* Protection tags and memory regions: VipCreatePtag to VipDeregisterMem. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "nic.h"

struct tag *tag_find(struct nic *nic, VIP_PROTECTION_HANDLE handle)
{
	struct tag *tag;

	if (!handle)
		return nic->default_tag;
	LIST_FOREACH(tag, &nic->tags, in_nic)
		if (object_handle(&tag->object) == handle)
			return tag;
	return NULL;
}

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag)
{
	VIP_RETURN rc = VIP_ERROR_RESOURCE;
	struct nic *nic = nic_get(NicHandle);
	struct tag *tag;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	if (!Ptag) {
		nic_put(nic);
		return VIP_INVALID_PARAMETER;
	}
	tag = calloc(1, sizeof(*tag));
	if (!tag)
		goto put_nic;
	pthread_mutex_lock(&nic->lock);
	tag->nic = nic;
	tag->is_alias = !nic->has_alias;
	tag->domain = tag->is_alias ? nic->default_tag->domain
				    : nic->device->ops->domain_create(nic->device);
	if (!tag->domain)
		goto unlock;
	if (object_publish(&tag->object, OBJECT_TAG)) {
		if (!tag->is_alias)
			nic->device->ops->domain_destroy(tag->domain);
		goto unlock;
	}
	nic->has_alias = true;
	LIST_INSERT_HEAD(&nic->tags, tag, in_nic);
	*Ptag = object_handle(&tag->object);
	rc = VIP_SUCCESS;
unlock:
	pthread_mutex_unlock(&nic->lock);
put_nic:
	if (rc != VIP_SUCCESS)
		free(tag);
	nic_put(nic);
	return rc;
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag)
{
	VIP_RETURN rc = VIP_INVALID_PTAG;
	struct nic *nic = nic_get(NicHandle);
	struct tag *tag;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	pthread_mutex_lock(&nic->lock);
	tag = Ptag ? tag_find(nic, Ptag) : NULL;
	if (!tag)
		goto unlock;
	rc = VIP_ERROR_RESOURCE;
	if (tag->users)
		goto unlock;
	/* Tags are found by the NIC's list, so nobody has a reference. */
	object_retire(&tag->object);
	object_drain(&tag->object, 0);
	LIST_REMOVE(tag, in_nic);
	if (tag->is_alias)
		nic->has_alias = false;
	else
		nic->device->ops->domain_destroy(tag->domain);
	free(tag);
	rc = VIP_SUCCESS;
unlock:
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
	return rc;
}

static void explain_refusal(size_t length, int error)
{
	log_error("cannot register %zu bytes: %s%s%s", length, strerror(error), memory_hint(error),
		  error == EFAULT ? " (not all of it is mapped, or it is read-only and RDMA write "
				    "was asked for)"
				  : "");
}

/* The tag to use with one more user, or NULL. */
static struct tag *tag_use(struct nic *nic, VIP_PROTECTION_HANDLE handle)
{
	struct tag *tag;

	pthread_mutex_lock(&nic->lock);
	tag = tag_find(nic, handle);
	if (tag)
		tag->users++;
	pthread_mutex_unlock(&nic->lock);
	return tag;
}

static void tag_release(struct nic *nic, struct tag *tag)
{
	pthread_mutex_lock(&nic->lock);
	tag->users--;
	pthread_mutex_unlock(&nic->lock);
}

static VIP_RETURN register_region(struct nic *nic, struct region *region, uint32_t *handle)
{
	struct region_rights rights = {.rdma_write = region->attributes.EnableRdmaWrite,
				       .rdma_read = region->attributes.EnableRdmaRead};
	struct region_view view = {.start = (uintptr_t)region->address,
				   .length = region->length,
				   .domain = region->tag->domain};
	int error;

	/* Pinning takes long for large regions: without the NIC's lock. */
	region->device_region = nic->device->ops->region_create(
		region->tag->domain, region->address, region->length, rights, handle, &view.key);
	if (!region->device_region) {
		explain_refusal(region->length, errno);
		return VIP_ERROR_RESOURCE;
	}
	pthread_mutex_lock(&nic->lock);
	error = region_table_insert(&nic->regions, *handle, &view, region);
	pthread_mutex_unlock(&nic->lock);
	if (!error)
		return VIP_SUCCESS;
	log_error("no place for memory handle %#x: %s", *handle, strerror(error));
	nic->device->ops->region_destroy(region->device_region);
	return VIP_ERROR_RESOURCE;
}

VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	static const VIP_MEM_ATTRIBUTES none;
	struct nic *nic = nic_get(NicHandle);
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct region *region;
	uint32_t handle;

	if (!nic)
		return rc;
	if (!VirtualAddress || !Length || !MemoryHandle ||
	    Length > nic->attributes.MaxRegisterBlockBytes)
		goto put_nic;
	if (!MemAttribs)
		MemAttribs = (VIP_MEM_ATTRIBUTES *)&none;
	rc = VIP_INVALID_RDMAREAD;
	if (MemAttribs->EnableRdmaRead && !nic->attributes.RDMAReadSupport)
		goto put_nic;
	rc = VIP_ERROR_RESOURCE;
	region = calloc(1, sizeof(*region));
	if (!region)
		goto put_nic;
	region->address = VirtualAddress;
	region->length = Length;
	region->attributes = *MemAttribs;
	rc = VIP_INVALID_PTAG;
	region->tag = tag_use(nic, MemAttribs->Ptag);
	if (!region->tag)
		goto free_region;
	rc = register_region(nic, region, &handle);
	if (rc == VIP_SUCCESS) {
		*MemoryHandle = handle;
		goto put_nic;
	}
	tag_release(nic, region->tag);
free_region:
	free(region);
put_nic:
	nic_put(nic);
	return rc;
}

VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID VirtualAddress,
			    VIP_MEM_HANDLE MemoryHandle)
{
	struct nic *nic = nic_get(NicHandle);
	struct region *region;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	pthread_mutex_lock(&nic->lock);
	region = region_table_remove(&nic->regions, MemoryHandle, VirtualAddress);
	pthread_mutex_unlock(&nic->lock);
	if (region) {
		nic->device->ops->region_destroy(region->device_region);
		tag_release(nic, region->tag);
		free(region);
	}
	nic_put(nic);
	return region ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}
