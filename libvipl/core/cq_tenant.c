/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How threads that share a VIPL CQ make way for each other.
 *
 * Where many threads do little else than to look, each takes the cache lines from the others, and all together are slower than
 * one alone. So the thread that comes again and again is the CQ's tenant. The others rest while a thread is inside, or takes
 * entries quickly, which is mostly the tenant; then they come in between. The tenant takes the lock without a look. A new tenant
 * fetches into its cache what the former one has worked with, which takes tens of microseconds. So the tenant stays until it takes
 * its time elsewhere; then nobody rests.
 */
#include "base/cpu_relax.h"
#include "base/futex.h"
#include "cq.h"
#include "entries.h"

#define IN_A_ROW   3u  /* a thread that comes so often is the tenant */
#define LOOK_TURNS 64u /* so long another thread looks whether the CQ is served */

/*
 * Who looks, or comes in between, takes cache lines from the tenant. So the more threads rest the longer each does: one for 0.7 ms
 * in all, eight or more for 5.6. VipCQDone shall not block, so that is the most: for as long the system may take a processor from
 * any thread. Nobody rests beyond its timeout.
 */
#define RESTS	  14u
#define REST_NSEC INT64_C(50000) /* for each thread that rests */
#define REST_MOST 8u		 /* threads that count */

/* The device comes first: what it completes in between is among the entries, unless another thread has taken it. */
static bool seems_empty(struct cq *cq, const struct cq_look *look)
{
	return look->is_empty(look) && entries_seem_none(&cq->entries);
}

/* The CQ's tenant is another thread. */
static bool is_let(struct cq *cq)
{
	const void *tenant = atomic_load_explicit(&cq->tenant, memory_order_relaxed);

	return tenant && tenant != TENANT_NONE && tenant != thread_self();
}

/* A thread is inside, where it may be for long, or takes an entry meanwhile. */
static bool is_in_use(const struct cq *cq)
{
	const uint32_t first = entries_first(&cq->entries);

	if (lock_seems_taken(&cq->lock))
		return true;
	for (unsigned i = 0; i < LOOK_TURNS; i++)
		cpu_relax();
	return entries_first(&cq->entries) != first || lock_seems_taken(&cq->lock);
}

/* Rests for so many nanoseconds at most. */
static void rest(struct cq *cq, int64_t most)
{
	unsigned resting = atomic_fetch_add_explicit(&cq->resting, 1, memory_order_relaxed) + 1;
	int64_t nsec = REST_NSEC * (resting < REST_MOST ? resting : REST_MOST);

	futex_rest(nsec < most ? nsec : most);
	atomic_fetch_sub_explicit(&cq->resting, 1, memory_order_relaxed);
}

/* Returns false if the CQ seems empty meanwhile. */
static bool give_way(struct cq *cq, const struct cq_look *look, struct timeout *timeout)
{
	for (unsigned rests = 0; rests < RESTS && is_let(cq); rests++) {
		int64_t left = deadline_left(timeout_deadline(timeout));
		bool goes_on = is_in_use(cq);

		if (seems_empty(cq, look)) /* so the tenant has nothing to do */
			return false;
		if (!goes_on)
			atomic_store_explicit(&cq->tenant, TENANT_NONE, memory_order_relaxed);
		else if (left)
			rest(cq, left);
		else
			break;
	}
	return true;
}

/* The lock is held. */
static void count_in_a_row(struct cq *cq)
{
	const void *self = thread_self();

	cq->in_a_row = cq->last == self ? cq->in_a_row + 1 : 0;
	cq->last = self;
	if (cq->in_a_row >= IN_A_ROW && atomic_load_explicit(&cq->tenant, memory_order_relaxed) == TENANT_NONE)
		atomic_store_explicit(&cq->tenant, self, memory_order_relaxed);
}

bool cq_enter_slowly(struct cq *cq, struct timeout *timeout)
{
	const struct cq_look *look = atomic_load_explicit(&cq->look, memory_order_acquire);

	if (look && seems_empty(cq, look))
		return !atomic_load_explicit(&look->is_polled, memory_order_relaxed) && lock_try(&cq->lock);
	if (timeout && look && !give_way(cq, look, timeout))
		return false;
	lock_acquire(&cq->lock);
	if (timeout && look)
		count_in_a_row(cq);
	return true;
}
