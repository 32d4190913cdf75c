/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains for tags, memory regions for memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rdma.h"

#define REMOTE_ACCESS ((int)IBV_ACCESS_REMOTE_WRITE | (int)IBV_ACCESS_REMOTE_READ)

struct verbs_region {
	struct ibv_mr *mr;
	int access;
	uint32_t handle;
};

struct device_domain *verbs_domain_create(struct device *device)
{
	struct verbs_domain *domain = zeroed(1, sizeof(*domain));

	if (!domain) {
		log_error_ratelimited("no protection domain: %s", failure(errno));
		return NULL;
	}
	domain->device = (struct verbs_device *)device;
	domain->pd = ibv_alloc_pd(domain->device->context);
	if (!domain->pd) {
		log_error_ratelimited("no protection domain: %s", failure_of("ibv_alloc_pd()", errno));
		free(domain);
		return NULL;
	}
	staging_init(domain);
	return (struct device_domain *)domain;
}

void verbs_domain_destroy(struct device_domain *base)
{
	struct verbs_domain *domain = (struct verbs_domain *)base;

	staging_destroy(domain);
	ibv_dealloc_pd(domain->pd);
	free(domain);
}

int verbs_remote_access(struct region_rights rights)
{
	return (rights.rdma_write ? (int)IBV_ACCESS_REMOTE_WRITE : 0) |
	       (rights.rdma_read ? (int)IBV_ACCESS_REMOTE_READ : 0);
}

/* NULL and errno on failure. */
static struct verbs_region *register_memory(struct ibv_pd *pd, void *address, size_t length,
					   int access)
{
	struct verbs_region *region = zeroed(1, sizeof(*region));

	if (!region)
		return NULL;
	region->access = access;
	region->mr = ibv_reg_mr(pd, address, length, access);
	if (region->mr)
		return region;
	cause_of_memory("ibv_reg_mr()", length, errno);
	free(region);
	return NULL;
}

struct device_region *verbs_region_create(struct device_domain *domain, void *address, size_t length,
					 struct region_rights rights, uint32_t *handle,
					 uint32_t *key, bool *read_only)
{
	struct ibv_pd *pd = ((struct verbs_domain *)domain)->pd;
	int access = verbs_remote_access(rights);
	struct verbs_region *region =
		register_memory(pd, address, length, access | IBV_ACCESS_LOCAL_WRITE);

	/* A program may send from read-only memory. */
	if (!region && errno == EFAULT && !rights.rdma_write) {
		region = register_memory(pd, address, length, access);
		*read_only = true;
	}
	if (!region)
		return NULL;
	*key = region->mr->lkey;
	/* Peers name the region by its rkey. Some devices give no rkey to a region that peers may not access. */
	*handle = region->handle =
		access || region->mr->rkey ? region->mr->rkey : region->mr->lkey;
	if (*handle && *handle != UINT32_MAX)
		return (struct device_region *)region;
	verbs_region_destroy((struct device_region *)region);
	errno = cause("a key that is no handle, of ibv_reg_mr()", EAGAIN);
	return NULL;
}

void verbs_region_destroy(struct device_region *base)
{
	struct verbs_region *region = (struct verbs_region *)base;
	int error = ibv_dereg_mr(region->mr);

	if (error)
		log_error("cannot deregister memory: %s", failure_of("ibv_dereg_mr()", error));
	free(region);
}

/* Changes the region in place. 0 or errno: nothing has changed. */
static int change_in_place(struct verbs_region *region, struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = region->mr;
	struct ibv_pd *former_pd = mr->pd;
	int flags = (pd != former_pd ? IBV_REREG_MR_CHANGE_PD : 0) |
		    (access != region->access ? IBV_REREG_MR_CHANGE_ACCESS : 0);

	if (!flags)
		return 0;
	/* ibv_rereg_mr() takes access flags only together with IBV_REREG_MR_CHANGE_ACCESS. */
	if (ibv_rereg_mr(mr, flags, pd, NULL, 0,
			 flags & IBV_REREG_MR_CHANGE_ACCESS ? access : 0))
		return cause("ibv_rereg_mr()", errno ? errno : EIO);
	if (!(access & REMOTE_ACCESS) || mr->rkey == region->handle) {
		region->access = access;
		return 0;
	}
	/* The region had no rkey, and this device gives it none now that is its handle: peers could not reach it. */
	if (ibv_rereg_mr(mr, flags, former_pd, NULL, 0,
			 flags & IBV_REREG_MR_CHANGE_ACCESS ? region->access : 0))
		log_error("cannot undo the change of a memory region: %s", failure_of("ibv_rereg_mr()", errno));
	return ENOTSUP;
}

/*
 * Peers know the handle, which is a key of the device's. So if the device cannot change a region in place, a region that peers
 * may access cannot be registered anew. One that they may not access can, because no peer uses its key.
 */
struct device_region *verbs_region_change(struct device_region *base, struct device_domain *domain,
					 struct region_rights rights, uint32_t *key)
{
	struct verbs_region *region = (struct verbs_region *)base, *replacement;
	int access = verbs_remote_access(rights) | (region->access & (int)IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ((struct verbs_domain *)domain)->pd;
	int error;

	if (rights.rdma_write && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EFAULT; /* as for memory that is only read when it is registered */
		return NULL;
	}
	error = change_in_place(region, pd, access);
	if (!error) {
		*key = region->mr->lkey;
		return base;
	}
	if (access & REMOTE_ACCESS) {
		errno = error == ENOSYS ? ENOTSUP : error;
		return NULL;
	}
	replacement = register_memory(pd, region->mr->addr, region->mr->length, access);
	if (!replacement)
		return NULL;
	replacement->handle = region->handle;
	*key = replacement->mr->lkey;
	return (struct device_region *)replacement;
}
