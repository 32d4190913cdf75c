/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection tags and memory regions: VipCreatePtag to VipDeregisterMem, VipSetMemAttributes,
 * VipQueryMem.
 */
#include <errno.h>
#include <stdlib.h>

#include "pvip.h"
#include "base/log.h"
#include "core/nic.h"

#define HANDLE_TRIES 8

VIP_RETURN PVipCreatePtag(struct nic *nic, VIP_PROTECTION_HANDLE *Ptag)
{
	const struct device_ops *ops = nic->device->ops;
	VIP_RETURN rc = VIP_ERROR_RESOURCE;
	struct tag *tag = zeroed(1, sizeof(*tag));

	if (!tag) {
		log_error_ratelimited("cannot create a protection tag: %s", failure(errno));
		return rc;
	}
	pthread_mutex_lock(&nic->lock);
	tag->is_alias = !nic->has_alias;
	tag->domain = tag->is_alias ? nic->default_tag.domain : ops->domain_create(nic->device);
	if (!tag->domain)
		goto unlock;
	if (object_publish(&tag->object, OBJECT_TAG)) {
		if (!tag->is_alias)
			ops->domain_destroy(tag->domain);
		goto unlock;
	}
	nic->has_alias = true;
	LIST_INSERT_HEAD(&nic->tags, tag, in_nic);
	*Ptag = object_handle(&tag->object);
	rc = VIP_SUCCESS;
unlock:
	pthread_mutex_unlock(&nic->lock);
	if (rc != VIP_SUCCESS)
		free(tag);
	return rc;
}

/* The NIC's lock is held. Threads find tags in the NIC's list, so nobody has a reference. */
static void free_tag(struct nic *nic, struct tag *tag)
{
	object_retire(&tag->object);
	object_drain(&tag->object, 0);
	LIST_REMOVE(tag, in_nic);
	if (tag->is_alias)
		nic->has_alias = false;
	else
		nic->device->ops->domain_destroy(tag->domain);
	free(tag);
}

VIP_RETURN PVipDestroyPtag(struct nic *nic, VIP_PROTECTION_HANDLE Ptag)
{
	VIP_RETURN rc = VIP_SUCCESS;
	struct tag *tag;

	pthread_mutex_lock(&nic->lock);
	tag = Ptag ? tag_find(nic, Ptag) : NULL;
	if (!tag)
		rc = VIP_INVALID_PTAG;
	else if (tag->users)
		rc = VIP_ERROR_RESOURCE;
	else
		free_tag(nic, tag);
	pthread_mutex_unlock(&nic->lock);
	return rc;
}

static void explain_refusal(size_t length, int error)
{
	/* A program with a registration cache fails here often: it then frees another region, and tries again. */
	log_error_ratelimited("cannot register %zu bytes: %s%s", length, failure(error),
			      error == EFAULT ? " (not all of it is mapped; or RDMA write was asked for, and it is read-only or, since "
						"Linux 6.5, a shared mapping of a file)"
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

static struct region_rights rights_of(const VIP_MEM_ATTRIBUTES *attributes)
{
	return (struct region_rights){.rdma_write = attributes->EnableRdmaWrite,
				      .rdma_read = attributes->EnableRdmaRead};
}

/*
 * 0 or errno. EEXIST: the device has made the region, under a handle that another one has, or by which programs mean that there is
 * none.
 */
static int create_region(struct nic *nic, struct region *region, uint32_t *handle)
{
	struct region_view *view = &region->view;
	int error;

	/* Pinning takes long for large regions: without the NIC's lock. */
	region->device_region = nic->device->ops->region_create(
		view->domain, (void *)view->start, view->length,
		rights_of(&region->attributes), handle, &view->key, &view->read_only);
	if (!region->device_region) {
		error = errno;
		explain_refusal(view->length, error);
		return error;
	}
	pthread_mutex_lock(&nic->lock);
	error = !*handle || *handle == UINT32_MAX ? EEXIST : region_table_insert(&nic->regions, *handle, region);
	pthread_mutex_unlock(&nic->lock);
	if (error && error != EEXIST) {
		log_error_ratelimited("no place for memory handle %#x: %s", *handle, failure(error));
		nic->device->ops->region_destroy(region->device_region);
	}
	return error;
}

/*
 * A region whose attributes were changed may keep a handle that the device has forgotten, and now gives to another region.
 * That region is registered anew, before the first registration is given up: so it gets another handle.
 */
static VIP_RETURN register_region(struct nic *nic, struct region *region, uint32_t *handle)
{
	int error = create_region(nic, region, handle);

	for (unsigned tries = 0; error == EEXIST && tries < HANDLE_TRIES; tries++) {
		struct device_region *former = region->device_region;

		error = create_region(nic, region, handle);
		nic->device->ops->region_destroy(former);
	}
	if (error == EEXIST) {
		log_error_ratelimited("the device has no memory handle for %zu bytes: it gave %#x again and again, which %s",
				      region->view.length, *handle, *handle && *handle != UINT32_MAX ? "is in use" : "is none");
		nic->device->ops->region_destroy(region->device_region);
	}
	return error ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

VIP_RETURN PVipRegisterMem(struct nic *nic, VIP_PVOID VirtualAddress, VIP_ULONG Length,
			   VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemoryHandle)
{
	VIP_RETURN rc = VIP_INVALID_PTAG;
	struct region *region;
	uint32_t given;

	if (Length > nic->attributes.MaxRegisterBlockBytes)
		return VIP_INVALID_PARAMETER;
	if (MemAttribs && MemAttribs->EnableRdmaRead && !nic->attributes.RDMAReadSupport)
		return VIP_INVALID_RDMAREAD;
	region = zeroed(1, sizeof(*region));
	if (!region) {
		explain_refusal(Length, errno);
		return VIP_ERROR_RESOURCE;
	}
	if (MemAttribs)
		region->attributes = *MemAttribs;
	region->tag = tag_use(nic, region->attributes.Ptag);
	if (!region->tag)
		goto free_region;
	region->view = (struct region_view){.start = (uintptr_t)VirtualAddress, .length = Length, .domain = region->tag->domain};
	rc = register_region(nic, region, &given);
	if (rc == VIP_SUCCESS) {
		*MemoryHandle = given;
		return rc;
	}
	tag_release(nic, region->tag);
free_region:
	free(region);
	return rc;
}

/* After this no thread copies from or to a region that it found in the table before the caller changed it. */
static void await_copies(struct nic *nic)
{
	pthread_rwlock_wrlock(&nic->copying);
	pthread_rwlock_unlock(&nic->copying);
}

VIP_RETURN PVipDeregisterMem(struct nic *nic, VIP_PVOID VirtualAddress, VIP_MEM_HANDLE MemoryHandle)
{
	struct region *region;

	pthread_mutex_lock(&nic->changing_regions);
	pthread_mutex_lock(&nic->lock);
	region = region_table_remove(&nic->regions, MemoryHandle, VirtualAddress);
	pthread_mutex_unlock(&nic->lock);
	pthread_mutex_unlock(&nic->changing_regions);
	if (!region)
		return VIP_INVALID_PARAMETER;
	await_copies(nic);
	nic->device->ops->region_destroy(region->device_region);
	tag_release(nic, region->tag);
	free(region);
	return VIP_SUCCESS;
}

/*
 * The caller holds `changing_regions`, so the region stays. The device changes first, because a thread that posts with the
 * new tag may rely on it. The table that posting reads is next. The device's former region goes last, when no new
 * descriptor uses it.
 */
static VIP_RETURN change_region(struct nic *nic, struct region *region, uint32_t handle,
				const VIP_MEM_ATTRIBUTES *attributes)
{
	struct device_region *former = region->device_region, *changed = former;
	struct tag *tag = tag_use(nic, attributes->Ptag), *unused;
	struct region_view view = region->view;
	int error;

	if (!tag)
		return VIP_INVALID_PTAG;
	view.domain = tag->domain;
	error = nic->device->ops->region_change(&changed, tag->domain, rights_of(attributes), &view.key);
	unused = error ? tag : region->tag;
	if (error) {
		log_error_ratelimited(
			"cannot change the attributes of memory handle %#x: %s%s", handle, failure(error),
			error == ENOTSUP ? " (this device can only take all RDMA rights of a "
					   "region away: register the memory anew)"
					 : "");
		view.domain = error == ENOTRECOVERABLE ? NULL : region->tag->domain;
	}
	pthread_mutex_lock(&nic->lock);
	if (!error) {
		region->tag = tag;
		region->attributes = *attributes;
	}
	region->device_region = changed;
	if (!error || changed != former || !view.domain) {
		region->view = view;
		region_table_update(&nic->regions, handle, &view);
	}
	pthread_mutex_unlock(&nic->lock);
	await_copies(nic);
	if (changed != former)
		nic->device->ops->region_destroy(former);
	tag_release(nic, unused);
	if (error)
		return error == ENOTSUP ? VIP_ERROR_NOT_SUPPORTED : VIP_ERROR_RESOURCE;
	return VIP_SUCCESS;
}

VIP_RETURN PVipSetMemAttributes(struct nic *nic, VIP_PVOID VirtualAddress,
				VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct region *region;

	pthread_mutex_lock(&nic->changing_regions);
	pthread_mutex_lock(&nic->lock);
	region = region_table_get(&nic->regions, MemoryHandle, VirtualAddress);
	pthread_mutex_unlock(&nic->lock);
	if (region && MemAttribs->EnableRdmaRead && !nic->attributes.RDMAReadSupport)
		rc = VIP_INVALID_RDMAREAD;
	else if (region)
		rc = change_region(nic, region, MemoryHandle, MemAttribs);
	pthread_mutex_unlock(&nic->changing_regions);
	return rc;
}

VIP_RETURN PVipQueryMem(struct nic *nic, VIP_PVOID VirtualAddress,
			VIP_MEM_HANDLE MemoryHandle, VIP_MEM_ATTRIBUTES *MemAttribs)
{
	const struct region *region;

	pthread_mutex_lock(&nic->lock);
	region = region_table_get(&nic->regions, MemoryHandle, VirtualAddress);
	if (region)
		*MemAttribs = region->attributes;
	pthread_mutex_unlock(&nic->lock);
	return region ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

void memory_free(struct nic *nic)
{
	struct region *region;
	struct tag *tag;

	while ((region = region_table_remove_any(&nic->regions))) {
		nic->device->ops->region_destroy(region->device_region);
		free(region);
	}
	region_table_destroy(&nic->regions);
	while ((tag = LIST_FIRST(&nic->tags)))
		free_tag(nic, tag);
	nic->device->ops->domain_destroy(nic->default_tag.domain);
}
