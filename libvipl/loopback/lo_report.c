/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports sends that are done to their CQ. */
#include "report.h"

#include "order.h"

/* The stamp is not before the bound, if there is one. */
static inline bool is_late(const struct loopback_endpoint *endpoint, const uint32_t *bound,
			   uint32_t stamp)
{
	return bound && !stamp_before(order_stamp(endpoint->send_cq, stamp), *bound);
}

/* Reports the first finished send, and those of the others that are before the bound; without a bound all. */
static inline int report_finished(struct loopback_endpoint *endpoint, const uint32_t *bound,
				  bool *has_more)
{
	uint32_t first = reported_sends(endpoint), reported = first;
	uint32_t finished = atomic_load_explicit(&endpoint->finished, memory_order_acquire);

	/* After a failure, or when a pending send was flushed, more are reported than finished. */
	for (; (int32_t)(finished - reported) > 0; reported++) {
		if (reported != first &&
		    is_late(endpoint, bound, endpoint->stamps[reported % SEND_STAMPS])) {
			*has_more = true;
			break;
		}
		workqueue_complete(endpoint->send_queue, 0, 0, 0);
	}
	atomic_store_explicit(&endpoint->reported, reported, memory_order_relaxed);
	return (int)(reported - first);
}

/* Reports the sends after the finished ones: the one that failed, and those that are flushed. */
static int report_rest(struct loopback_endpoint *endpoint, const uint32_t *bound, bool is_first,
		       bool *has_more)
{
	uint32_t failure = atomic_load_explicit(&endpoint->failure, memory_order_acquire);
	uint32_t first = reported_sends(endpoint), reported = first;
	bool flushes;

	if (failure && !endpoint->failure_reported) {
		*has_more = !is_first &&
			    is_late(endpoint, bound, endpoint->stamps[reported % SEND_STAMPS]);
		if (*has_more)
			return 0;
		is_first = false;
		endpoint->failure_reported = true;
		reported++;
		workqueue_complete(endpoint->send_queue, failure, 0, 0);
	}
	flushes = atomic_load_explicit(&endpoint->stopped, memory_order_acquire) &&
		  reported != endpoint->accepted;
	*has_more = flushes && !is_first &&
		    is_late(endpoint, bound,
			    atomic_load_explicit(&endpoint->sending.end, memory_order_relaxed));
	for (; flushes && !*has_more && reported != endpoint->accepted; reported++)
		workqueue_complete(endpoint->send_queue, VIP_STATUS_DESC_FLUSHED_ERROR, 0, 0);
	atomic_store_explicit(&endpoint->reported, reported, memory_order_relaxed);
	return (int)(reported - first);
}

static int report_end(struct loopback_endpoint *endpoint, const uint32_t *bound, bool *has_more)
{
	int count = report_finished(endpoint, bound, has_more);

	return *has_more ? count : count + report_rest(endpoint, bound, !count, has_more);
}

/* Read before `finished`: nothing finishes after these are set. */
static inline bool is_ending(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->failure, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->stopped, memory_order_acquire);
}

static inline bool is_next_stamped(const struct loopback_endpoint *endpoint)
{
	return (int32_t)(atomic_load(&endpoint->stamped) - reported_sends(endpoint)) > 0;
}

bool loopback_next_send_is_done(const struct loopback_endpoint *endpoint)
{
	return atomic_load(&endpoint->finished) != reported_sends(endpoint) || is_ending(endpoint) ||
	       !is_next_stamped(endpoint);
}

int loopback_report_sends_before(struct loopback_endpoint *endpoint, uint32_t bound, bool *has_more)
{
	int count;

	*has_more = false;
	count = is_ending(endpoint) ? report_end(endpoint, &bound, has_more)
				    : report_finished(endpoint, &bound, has_more);
	*has_more |= is_next_stamped(endpoint);
	return count;
}

bool loopback_next_send(struct loopback_endpoint *endpoint, uint32_t *stamp)
{
	bool failed = atomic_load(&endpoint->failure);
	uint32_t finished = atomic_load(&endpoint->finished);

	if ((failed && !endpoint->failure_reported) || (int32_t)(finished - reported_sends(endpoint)) > 0 ||
	    is_next_stamped(endpoint)) {
		*stamp = endpoint->stamps[reported_sends(endpoint) % SEND_STAMPS];
		return true;
	}
	*stamp = atomic_load_explicit(&endpoint->sending.end, memory_order_relaxed);
	return atomic_load(&endpoint->stopped) && reported_sends(endpoint) != endpoint->accepted;
}

static __attribute__((noinline)) int report_all(struct loopback_endpoint *endpoint)
{
	bool has_more = false;

	return report_end(endpoint, NULL, &has_more);
}

int loopback_report_sends(struct loopback_endpoint *endpoint)
{
	if (atomic_load_explicit(&endpoint->is_pending, memory_order_acquire))
		loopback_advance(endpoint);
	return is_ending(endpoint) ? report_all(endpoint) : report_finished(endpoint, NULL, NULL);
}
