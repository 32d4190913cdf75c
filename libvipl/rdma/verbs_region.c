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
	bool is_lost; /* by the device: the MR can only be deregistered */
};

/*
 * Before Linux 5.12 the first write of a process that has forked takes its registered pages away from the adapter. After
 * ibv_fork_init() children do not get these pages. It has to come before the first registration of the process.
 */
void verbs_prepare_for_fork(void)
{
	static pthread_mutex_t preparing = PTHREAD_MUTEX_INITIALIZER;
	static bool told; /* guarded by the lock */
	int error = 0;

	pthread_mutex_lock(&preparing);
	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		error = ibv_fork_init();
	if (error && !told)
		log_error("a program that calls fork() may receive no more into its memory: %s%s",
			  failure_of("ibv_fork_init()", error),
			  error == EINVAL ? " (memory has been registered before the NIC was opened)" : "");
	told = told || error;
	pthread_mutex_unlock(&preparing);
}

struct device_domain *verbs_domain_create(struct device *device)
{
	struct verbs_domain *domain = zeroed(1, sizeof(*domain));

	if (domain) {
		domain->device = (struct verbs_device *)device;
		domain->pd = ibv_alloc_pd(domain->device->context);
		if (domain->pd)
			return (struct device_domain *)domain;
		cause("ibv_alloc_pd()", errno);
	}
	log_error_ratelimited("no protection domain: %s", failure(errno));
	free(domain);
	return NULL;
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

/*
 * Peers name a region by its rkey. Some devices give no rkey, 0 or all ones, to a region that peers may not access: then any
 * number does.
 */
static uint32_t handle_of(const struct ibv_mr *mr, int access)
{
	return access & REMOTE_ACCESS || (mr->rkey && mr->rkey != UINT32_MAX) ? mr->rkey : mr->lkey;
}

static struct verbs_region *register_memory(struct ibv_pd *pd, void *address, size_t length,
					   int access)
{
	struct verbs_region *region = zeroed(1, sizeof(*region));

	if (!region)
		return NULL;
	region->access = access;
	errno = 0;
	region->mr = ibv_reg_mr(pd, address, length, access);
	if (region->mr) {
		region->handle = handle_of(region->mr, access);
		return region;
	}
	errno = cause_of_memory("ibv_reg_mr()", length, errno ? errno : EINVAL);
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

	/* A program may send from memory that the device may only read. */
	if (!region && errno == EFAULT && !rights.rdma_write) {
		region = register_memory(pd, address, length, access);
		*read_only = true;
	}
	if (!region)
		return NULL;
	*key = region->mr->lkey;
	*handle = region->handle;
	return (struct device_region *)region;
}

void verbs_region_destroy(struct device_region *base)
{
	struct verbs_region *region = (struct verbs_region *)base;
	int error = ibv_dereg_mr(region->mr);

	if (error && error != EIO) /* the device is gone */
		log_error("cannot deregister memory: %s", failure_of("ibv_dereg_mr()", error));
	free(region);
}

/* Changes the region in place. 0 or errno: nothing has changed, or the device has lost the region. */
static int change_in_place(struct verbs_region *region, struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = region->mr;
	struct ibv_pd *former_pd = mr->pd;
	int flags = (pd != former_pd ? IBV_REREG_MR_CHANGE_PD : 0) |
		    (access != region->access ? IBV_REREG_MR_CHANGE_ACCESS : 0);
	/* ibv_rereg_mr() takes access flags only together with IBV_REREG_MR_CHANGE_ACCESS. */
	bool sets_access = flags & IBV_REREG_MR_CHANGE_ACCESS;
	int result, error;

	if (region->is_lost)
		return cause("ibv_rereg_mr()", ENOTRECOVERABLE);
	if (!flags)
		return 0;
	errno = 0; /* providers may set none */
	result = ibv_rereg_mr(mr, flags, pd, NULL, 0, sets_access ? access : 0);
	if (result) {
		error = errno ? errno : EIO;
		/* ibv_rereg_mr(3): not if the call was refused before it did anything. */
		region->is_lost = result != IBV_REREG_MR_ERR_INPUT && error != EOPNOTSUPP && error != ENOSYS;
		return cause("ibv_rereg_mr()", error);
	}
	if (!(access & REMOTE_ACCESS) || mr->rkey == region->handle) {
		region->access = access;
		return 0;
	}
	/* The region had no rkey, and this device gives it none now that is its handle: peers could not reach it. */
	region->is_lost = ibv_rereg_mr(mr, flags, former_pd, NULL, 0, sets_access ? region->access : 0);
	return ENOTSUP;
}

/*
 * Peers know the handle, which is a key of the device's. So if the device cannot change a region in place, a region that peers
 * may access cannot be registered anew. One that they may not access can, because no peer uses its key. A region that the device
 * has lost has to be: what it was good for in this process stays.
 */
int verbs_region_change(struct device_region **base, struct device_domain *domain, struct region_rights rights, uint32_t *key)
{
	struct verbs_region *region = (struct verbs_region *)*base, *replacement = NULL;
	int access = verbs_remote_access(rights) | (region->access & (int)IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ((struct verbs_domain *)domain)->pd, *former_pd = region->mr->pd;
	const struct ibv_mr *mr = region->mr;
	int error;

	if (rights.rdma_write && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EFAULT; /* as for memory that is only read when it is registered */
	error = change_in_place(region, pd, access);
	if (error && !(access & REMOTE_ACCESS)) {
		replacement = register_memory(pd, mr->addr, mr->length, access);
		error = replacement ? 0 : errno;
	} else if (error && region->is_lost) {
		replacement = register_memory(former_pd, mr->addr, mr->length, region->access);
		if (region->access & REMOTE_ACCESS)
			log_error("memory handle %#x: the device has lost the region, so peers do not reach it any more: %s",
				  region->handle, failure(error));
	}
	if (!replacement && error && region->is_lost)
		error = cause("ibv_reg_mr()", ENOTRECOVERABLE);
	else if (replacement && error == ENOTRECOVERABLE)
		error = EIO; /* it is good for what it was again, not for what was asked */
	if (replacement) {
		replacement->handle = region->handle; /* by which no peer reaches it any more */
		region = replacement;
	}
	*base = (struct device_region *)region;
	*key = region->mr->lkey;
	return error == ENOSYS ? ENOTSUP : error;
}
