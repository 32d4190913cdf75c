/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "core/cq.h"
#include "core/region_table.h"
#include "core/nic.h"
#include "core/object_at.h"
#include "core/vi.h"
#include "loopback/cq_page.h"
#include "loopback/link.h"
#include "loopback/loopback.h"

void *shim_object_at(VIP_PVOID handle, int kind)
{
	return object_at(handle, (enum object_kind)kind);
}

void shim_drop_receives(VIP_VI_HANDLE vi)
{
	workqueue_drop(&((struct vi *)object_at(vi, OBJECT_VI))->receive);
}

static struct cq *cq_at(void *handle)
{
	return object_at(handle, OBJECT_CQ);
}

void shim_cq_lock(void *cq)
{
	cq_lock(cq_at(cq));
}

void shim_cq_unlock(void *cq)
{
	cq_unlock(cq_at(cq));
}

void shim_cq_set_tenant(void *cq, void *tenant)
{
	atomic_store(&cq_at(cq)->tenant, tenant ? tenant : TENANT_NONE);
}

const void *shim_cq_tenant(void *cq)
{
	const void *tenant = atomic_load(&cq_at(cq)->tenant);

	return tenant == TENANT_NONE ? NULL : tenant;
}

void shim_cq_set_resting(void *cq, unsigned threads)
{
	atomic_store(&cq_at(cq)->resting, threads);
}

unsigned shim_cq_waiters(void *cq)
{
	return atomic_load(&cq_at(cq)->waiters);
}

unsigned shim_cq_announced(void *cq)
{
	return atomic_load(&cq_at(cq)->announced);
}

bool shim_agent_is_lost(void *handle)
{
	struct nic *nic = nic_get(handle);
	bool is_lost = !nic || sleeper_is_lost(&nic->agent.sleeper);

	if (nic)
		nic_put(nic);
	return is_lost;
}

bool shim_agent_looks_by_itself(void *handle)
{
	struct nic *nic = nic_get(handle);
	bool looks;

	pthread_mutex_lock(&nic->lock);
	looks = atomic_load(&((struct loopback_device *)nic->device)->ticks);
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
	return looks;
}

void shim_agent_hold(void *handle, bool hold)
{
	struct nic *nic = nic_get(handle);

	if (hold)
		pthread_mutex_lock(&nic->lock);
	else
		pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
}

struct lock *shim_lock_create(void)
{
	struct lock *lock = malloc(sizeof(*lock));

	lock_init(lock);
	return lock;
}

void shim_lock_destroy(struct lock *lock)
{
	free(lock);
}

void shim_lock_acquire(struct lock *lock)
{
	lock_acquire(lock);
}

void shim_lock_release(struct lock *lock)
{
	lock_release(lock);
}

int shim_lock_try(struct lock *lock)
{
	return lock_try(lock);
}

int shim_lock_seems_taken(const struct lock *lock)
{
	return lock_seems_taken(lock);
}

struct region_table *shim_table_create(void)
{
	struct region_table *table = malloc(sizeof(*table));

	region_table_init(table);
	return table;
}

void shim_table_destroy(struct region_table *table)
{
	struct region *region;

	while ((region = region_table_remove_any(table)))
		free(region);
	region_table_destroy(table);
	free(table);
}

static struct region_view view_of(uintptr_t tag)
{
	return (struct region_view){.key = (uint32_t)tag,
				    .start = tag,
				    .length = tag + 1,
				    .domain = (struct device_domain *)(tag + 2)};
}

int shim_update(struct region_table *table, uint32_t handle, uintptr_t address, uintptr_t tag)
{
	struct region_view view = view_of(tag);

	if (!region_table_get(table, handle, (void *)address))
		return 0;
	region_table_update(table, handle, &view);
	return 1;
}

int shim_insert(struct region_table *table, uint32_t handle, uintptr_t tag)
{
	struct region *region = calloc(1, sizeof(*region));
	int error;

	region->view = view_of(tag);
	error = region_table_insert(table, handle, region);
	if (error)
		free(region);
	return error;
}

int shim_find(struct region_table *table, uint32_t handle, uintptr_t *tag)
{
	struct region_hint hint = {0};
	const struct region_view *view = region_table_search(table, handle, &hint);

	if (!view)
		return 0;
	*tag = view->start;
	return view->key == (uint32_t)view->start && view->length == view->start + 1 &&
			       (uintptr_t)view->domain == view->start + 2
		       ? 1
		       : -1;
}

int shim_remove(struct region_table *table, uint32_t handle, uintptr_t address)
{
	struct region *region = region_table_remove(table, handle, (void *)address);

	free(region);
	return region != NULL;
}

unsigned shim_used(const struct region_table *table)
{
	return table->used;
}

static const size_t sizes[] = {
	[SHARED_LINK] = sizeof(struct link),
	[SHARED_REGIONS] = sizeof(struct region_entries),
	[SHARED_CQ_PAGE] = sizeof(struct cq_page),
};

int shim_shared_create(enum shared_kind kind)
{
	int fd = -1;

	if (kind == SHARED_LINK)
		link_unmap(link_create(&fd));
	else if (kind == SHARED_REGIONS)
		munmap(region_entries_create(&fd), sizeof(struct region_entries));
	else
		munmap(cq_page_create(&fd), sizeof(struct cq_page));
	return fd;
}

int shim_shared_sparse(enum shared_kind kind, long long allocated)
{
	off_t size = (off_t)sizes[kind];
	int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, size) ||
	    (allocated && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, allocated > size ? (off_t)allocated : size)) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -1;
	return fd;
}

int shim_shared_may_be(int fd)
{
	return memory_may_be_shared(fd);
}

int shim_shared_map(enum shared_kind kind, int fd)
{
	struct link *link = kind == SHARED_LINK ? link_map(fd) : NULL;
	struct peer_files files = LIST_HEAD_INITIALIZER(files);
	const void *memory = kind == SHARED_LINK ? NULL : peer_file_map(&files, fd, sizes[kind], PROT_READ);

	if (link)
		link_unmap(link);
	peer_file_unmap(&files, memory);
	return link || memory;
}
