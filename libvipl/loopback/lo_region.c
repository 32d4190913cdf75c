/* SPDX-License-Identifier: BSD-2-Clause */
/* Tags' domains, and the table of registered regions that peers look into. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "loopback.h"

struct loopback_region {
	struct loopback_device *device;
	uint32_t handle;
};

struct device_domain *loopback_domain_create(struct device *base)
{
	struct loopback_device *device = (struct loopback_device *)base;
	struct loopback_domain *domain = zeroed(1, sizeof(*domain));

	if (!domain) {
		log_error_ratelimited("no protection domain: %s", failure(errno));
		return NULL;
	}
	domain->device = device;
	domain->number = ++device->last_domain;
	return (struct device_domain *)domain;
}

void loopback_domain_destroy(struct device_domain *domain)
{
	free(domain);
}

/* Brings all pages in, as pinning would: are they there, and may they be written? 0 or errno. */
static int touch_pages(void *address, size_t length, bool for_writing)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)address & ~(page - 1);
	uintptr_t end = (uintptr_t)address + length;

	if (end < first)
		return EFAULT;
	if (madvise(NULL, 0, MADV_POPULATE_READ))
		return 0; /* the kernel is older than 5.14 and cannot tell */
	if (!madvise((void *)first, end - first,
		     for_writing ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL || errno == ENOMEM ? EFAULT : errno;
}

/* The device's lock is held. The index of a free entry, or TABLE_REGIONS. */
static uint32_t find_free(struct loopback_device *device)
{
	for (uint32_t i = 0; i < TABLE_REGIONS; i++) {
		uint32_t index = (device->next_region + i) & (TABLE_REGIONS - 1);

		if (!atomic_load_explicit(&device->regions->entries[index].handle,
					  memory_order_relaxed)) {
			device->next_region = index + 1;
			return index;
		}
	}
	return TABLE_REGIONS;
}

/* Never 0 and never all ones, by which programs mean that there is none. */
static uint32_t make_handle(struct loopback_device *device, uint32_t index)
{
	uint32_t handle;

	do {
		handle = ++device->generations[index] * TABLE_REGIONS + index;
	} while (!handle || handle == UINT32_MAX);
	return handle;
}

static int publish_region(struct loopback_device *device, const struct region_entry *values,
			  uint32_t *handle)
{
	struct region_entry *entry;
	uint32_t index;

	pthread_mutex_lock(&device->lock);
	index = find_free(device);
	if (index == TABLE_REGIONS) {
		pthread_mutex_unlock(&device->lock);
		return cause("a place for the region (MaxRegisterRegions)", ENOSPC);
	}
	*handle = make_handle(device, index);
	entry = &device->regions->entries[index];
#define set(member) atomic_store_explicit(&entry->member, values->member, memory_order_relaxed)
	/* A reader that sees any of these sees, by the fence, that the old handle has gone: litmus/region_entry. */
	atomic_thread_fence(memory_order_release);
	set(domain);
	set(rights);
	set(start);
	set(length);
#undef set
	/* A peer that reads the handle sees the rest as it is now. */
	atomic_store_explicit(&entry->handle, *handle, memory_order_release);
	pthread_mutex_unlock(&device->lock);
	return 0;
}

static uint32_t remote_rights(struct region_rights rights)
{
	return (rights.rdma_write ? RIGHT_RDMA_WRITE : 0) |
	       (rights.rdma_read ? RIGHT_RDMA_READ : 0);
}

struct device_region *loopback_region_create(struct device_domain *base, void *address,
					     size_t length, struct region_rights rights,
					     uint32_t *handle, uint32_t *key, bool *read_only)
{
	struct loopback_domain *domain = (struct loopback_domain *)base;
	struct loopback_region *region = zeroed(1, sizeof(*region));
	struct region_entry values = {
		.domain = domain->number,
		.rights = RIGHT_LOCAL_WRITE | remote_rights(rights),
		.start = (uintptr_t)address,
		.length = length,
	};
	int error;

	if (!region)
		return NULL;
	error = touch_pages(address, length, true);
	/* A program may send from read-only memory. */
	if (error == EFAULT && !rights.rdma_write) {
		error = touch_pages(address, length, false);
		atomic_fetch_and(&values.rights, ~(uint32_t)RIGHT_LOCAL_WRITE);
		*read_only = true;
	}
	if (!error)
		error = publish_region(domain->device, &values, &region->handle);
	if (error) {
		free(region);
		errno = error;
		return NULL;
	}
	region->device = domain->device;
	*handle = *key = region->handle;
	return (struct device_region *)region;
}

void loopback_region_destroy(struct device_region *base)
{
	struct loopback_region *region = (struct loopback_region *)base;
	struct loopback_device *device = region->device;

	pthread_mutex_lock(&device->lock);
	atomic_store(&device->regions->entries[region->handle & (TABLE_REGIONS - 1)].handle, 0);
	atomic_fetch_add(&device->dereg_epoch, 1);
	pthread_mutex_unlock(&device->lock);
	/* A peer that has found it before may still be copying, and the program may reuse the memory. */
	loopback_await_accesses(device);
	free(region);
}

/*
 * Peers read the entry while it changes. A right that a peer has before and after the change it has all the time. No peer gets
 * the new rights with the old domain, because this waits for the peers that may have read the old one: litmus/region_change.
 */
int loopback_region_change(struct device_region **base, struct device_domain *domain, struct region_rights rights, uint32_t *key)
{
	struct loopback_region *region = (struct loopback_region *)*base;
	struct loopback_device *device = region->device;
	struct region_entry *entry = &device->regions->entries[region->handle & (TABLE_REGIONS - 1)];
	uint32_t number = ((struct loopback_domain *)domain)->number;
	uint32_t before = atomic_load(&entry->rights);
	uint32_t after = (before & RIGHT_LOCAL_WRITE) | remote_rights(rights);

	if (rights.rdma_write && !(before & RIGHT_LOCAL_WRITE))
		return EFAULT; /* as for memory that is only read when it is registered */
	/* The layer above makes one change at a time, and the entry is this region's. */
	if (number != atomic_load(&entry->domain) || before & ~after) {
		atomic_store(&entry->rights, before & after);
		atomic_store(&entry->domain, number);
		atomic_fetch_add(&device->dereg_epoch, 1);
		loopback_await_accesses(device);
	}
	atomic_store(&entry->rights, after);
	*key = region->handle;
	return 0;
}
