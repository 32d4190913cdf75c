/* SPDX-License-Identifier: BSD-2-Clause */
#include "cq_shim.h"

#include "core/cq.h"
#include "core/object_at.h"

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

unsigned shim_cq_lock_waiting(void *cq)
{
	return atomic_load(&cq_at(cq)->lock.waiting);
}

void shim_cq_set_tenant(void *cq, unsigned tenant)
{
	atomic_store(&cq_at(cq)->lock.tenant, tenant);
}

unsigned shim_cq_tenant(void *cq)
{
	return atomic_load(&cq_at(cq)->lock.tenant);
}

void shim_cq_turn(void *cq)
{
	atomic_fetch_add(&cq_at(cq)->lock.turns, 1);
}

unsigned shim_cq_waiters(void *cq)
{
	return atomic_load(&cq_at(cq)->waiters);
}
