/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What both worlds report in the same way. Included by one file of each, behind the world's own structures. These locks
 * find a second lock by the same thread, and a wrong order. Real ones would deadlock.
 */
#ifndef FUZZ_LOCKS_H
#define FUZZ_LOCKS_H

bool any_cq_is_locked(void);

void workqueue_lock(struct workqueue *queue)
{
	check(!queue->locked && !any_cq_is_locked());
	queue->locked = true;
}

void workqueue_unlock(struct workqueue *queue)
{
	check(queue->locked);
	queue->locked = false;
}

void cq_lock(struct cq *cq)
{
	check(!cq->locked);
	cq->locked = true;
}

void cq_unlock(struct cq *cq)
{
	check(cq->locked);
	cq->locked = false;
}

void endpoint_ends_for(struct vi *vi, VIP_ERROR_CODE error)
{
	(void)vi;
	check(error == VIP_ERROR_CONN_LOST || error == VIP_ERROR_RECVQ_EMPTY || error == VIP_ERROR_RDMAW_PROT ||
	      error == VIP_ERROR_RDMAR_PROT);
}

void endpoint_closed(struct vi *vi)
{
	endpoint_ends_for(vi, VIP_ERROR_CONN_LOST);
}

#endif
