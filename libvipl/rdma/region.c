/* Protection domains for tags, memory regions for memory. */
#include <errno.h>

#include "rdma.h"

struct device_domain *rdma_domain_create(struct device *device)
{
	return (struct device_domain *)ibv_alloc_pd(((struct rdma_device *)device)->context);
}

void rdma_domain_destroy(struct device_domain *domain)
{
	ibv_dealloc_pd((struct ibv_pd *)domain);
}

struct device_region *rdma_region_create(struct device_domain *domain, void *address, size_t length,
					 struct region_rights rights, uint32_t *handle,
					 uint32_t *key)
{
	struct ibv_pd *pd = (struct ibv_pd *)domain;
	int access = IBV_ACCESS_LOCAL_WRITE | (rights.rdma_write ? IBV_ACCESS_REMOTE_WRITE : 0) |
		     (rights.rdma_read ? IBV_ACCESS_REMOTE_READ : 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, address, length, access);

	/* Memory that is only read may be sent from. */
	if (!mr && errno == EFAULT && !rights.rdma_write)
		mr = ibv_reg_mr(pd, address, length, access & ~IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		return NULL;
	*key = mr->lkey;
	/* Peers name the region by its rkey; some devices give none to what peers cannot reach. */
	*handle = rights.rdma_write || rights.rdma_read ? mr->rkey : mr->lkey;
	if (*handle && *handle != UINT32_MAX)
		return (struct device_region *)mr;
	ibv_dereg_mr(mr);
	errno = EAGAIN;
	return NULL;
}

void rdma_region_destroy(struct device_region *region)
{
	ibv_dereg_mr((struct ibv_mr *)region);
}
