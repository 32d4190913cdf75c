/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "order.h"

#define CQ_CAPACITY (1u << 30) /* entries are kept nowhere, so there is room for any number */

/* Memory for a CQ, all zero except what threads may still look at. */
static struct loopback_cq *allocate(struct cq *named, bool is_shared)
{
	struct loopback_cq *former = is_shared ? (struct loopback_cq *)cq_former_look(named) : NULL;
	const size_t kept = offsetof(struct loopback_cq, order.heap);

	if (!former)
		return zeroed(1, sizeof(*former));
	memset((char *)former + kept, 0, sizeof(*former) - kept);
	return former;
}

struct device_cq *loopback_cq_create(struct device *device, struct cq *named,
				     struct device_channel *unused, bool is_shared, unsigned entries,
				     unsigned *capacity)
{
	struct loopback_cq *cq = allocate(named, is_shared);
	int error = cq ? is_shared ? order_init(cq) : 0 : ENOMEM;

	(void)unused;
	(void)entries;
	if (error) {
		log_error_ratelimited("cannot create a completion queue: %s", failure(error));
		if (cq && !cq->look.is_empty)
			free(cq);
		errno = error;
		return NULL;
	}
	cq->cq = named;
	cq->device = (struct loopback_device *)device;
	TAILQ_INIT(&cq->linked);
	if (is_shared) {
		if (!cq->look.is_empty) /* else threads may read it */
			cq->look.is_empty = order_is_empty;
		cq_show(named, &cq->look);
	}
	*capacity = CQ_CAPACITY;
	return (struct device_cq *)cq;
}

void loopback_cq_destroy(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;

	if (cq->page)
		order_destroy(cq); /* the memory is kept: see cq_former_look() */
	else
		free(cq);
}

/* Both looks are short, since most find nothing. */
static inline int look_at_receives(struct loopback_endpoint *endpoint)
{
	if (atomic_load_explicit(&endpoint->stopped, memory_order_acquire))
		return loopback_flush_receives(endpoint);
	if (!endpoint->in || endpoint->rx_stopped || !next_message(endpoint))
		return 0;
	return loopback_consume(endpoint);
}

static __attribute__((noinline)) int poll_own_queues(struct loopback_cq *cq)
{
	struct loopback_endpoint *endpoint;
	int count = 0;

	LIST_FOREACH(endpoint, &cq->senders, in_send_cq)
		count += loopback_has_sends(endpoint) ? loopback_report_sends(endpoint) : 0;
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		count += look_at_receives(endpoint);
	return count;
}

static inline int poll_cq(struct loopback_cq *cq)
{
	if (!cq->page)
		return poll_own_queues(cq);
	return order_has_news(&cq->order, cq->page) ? order_poll(cq) : 0;
}

static __attribute__((noinline)) int poll_after_tick(struct loopback_cq *cq)
{
	loopback_progress_polled(cq->device);
	return poll_cq(cq);
}

/* Most looks find nothing: for these all is here, without a frame on the stack. */
int loopback_cq_poll(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;

	atomic_store_explicit(&cq->look.is_polled, true, memory_order_relaxed);
	if (!atomic_load_explicit(&cq->device->is_polled, memory_order_relaxed))
		return poll_after_tick(cq);
	return poll_cq(cq);
}

int loopback_cq_arm(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;
	struct loopback_endpoint *endpoint;

	/* A thread that completes something with this lock sees that the caller waits, or the caller sees what it has completed. */
	cq_lock(cq->cq);
	atomic_fetch_or_explicit(&cq->armed, WAIT_IN_AGENT, memory_order_relaxed);
	if (cq->page)
		atomic_fetch_or_explicit(&cq->page->waits, WAIT_IN_AGENT, memory_order_relaxed);
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		if (endpoint->in)
			atomic_fetch_or_explicit(&endpoint->in->receiver_waits, WAIT_IN_AGENT, memory_order_relaxed);
	cq_unlock(cq->cq);
	/*
	 * The caller looks once more after this. A thread that completes something looks at these flags after that.
	 * Both have a fence in between, so at least one of the two sees the other: litmus/publish_and_wait, and
	 * litmus/arrived_and_wait for a CQ with a page.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}
