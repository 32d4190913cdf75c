/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports sends that are done to their CQ. */
#include "order.h"

static inline uint32_t next_stamp(const struct loopback_endpoint *endpoint, uint32_t reported)
{
	return endpoint->stamps[reported % SEND_STAMPS];
}

/* The send after the finished ones: the one that failed, or one that is flushed. False: there is none. */
static bool next_of_rest(const struct loopback_endpoint *endpoint, uint32_t reported, uint32_t *status, uint32_t *stamp)
{
	uint32_t failure = atomic_load_explicit(&endpoint->failure, memory_order_acquire);

	if (failure && !endpoint->failure_reported) {
		*status = failure;
		*stamp = next_stamp(endpoint, reported);
		return true;
	}
	*status = VIP_STATUS_DESC_FLUSHED_ERROR;
	*stamp = atomic_load_explicit(&endpoint->sending.end, memory_order_relaxed);
	return atomic_load_explicit(&endpoint->stopped, memory_order_acquire) && reported != endpoint->accepted;
}

/* Nothing finishes after these are set. */
static inline bool is_ending(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->failure, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->stopped, memory_order_acquire);
}

/*
 * Reports the first send, and those of the others whose stamps are before the bound; without a bound all. `with_rest`:
 * is_ending(), which the caller has asked first.
 */
static inline __attribute__((always_inline))
int report(struct loopback_endpoint *endpoint, bool with_rest, const uint32_t *bound, bool *has_more)
{
	uint32_t finished = atomic_load_explicit(&endpoint->finished, memory_order_acquire);
	uint32_t first = reported_sends(endpoint), reported = first;

	for (;; reported++) {
		uint32_t status = 0, stamp = next_stamp(endpoint, reported);

		/* After a failure, or when a pending send was flushed, more are reported than finished. */
		if ((int32_t)(finished - reported) <= 0 && !(with_rest && next_of_rest(endpoint, reported, &status, &stamp)))
			break;
		if (reported != first && bound && !stamp_before(order_stamp(endpoint->send_cq, stamp), *bound)) {
			*has_more = true;
			break;
		}
		if (status)
			endpoint->failure_reported = true;
		workqueue_complete(endpoint->send_queue, status, 0, 0);
	}
	atomic_store_explicit(&endpoint->reported, reported, memory_order_relaxed);
	return (int)(reported - first);
}

static __attribute__((noinline)) int report_end(struct loopback_endpoint *endpoint, const uint32_t *bound, bool *has_more)
{
	return report(endpoint, true, bound, has_more);
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
	count = is_ending(endpoint) ? report_end(endpoint, &bound, has_more) : report(endpoint, false, &bound, has_more);
	*has_more |= is_next_stamped(endpoint);
	return count;
}

bool loopback_next_send(struct loopback_endpoint *endpoint, uint32_t *stamp)
{
	uint32_t reported = reported_sends(endpoint), status;

	if ((int32_t)(atomic_load(&endpoint->finished) - reported) <= 0 && !is_next_stamped(endpoint))
		return is_ending(endpoint) && next_of_rest(endpoint, reported, &status, stamp);
	*stamp = next_stamp(endpoint, reported);
	return true;
}

int loopback_report_sends(struct loopback_endpoint *endpoint)
{
	if (atomic_load_explicit(&endpoint->is_pending, memory_order_acquire))
		loopback_advance(endpoint);
	return is_ending(endpoint) ? report_end(endpoint, NULL, NULL) : report(endpoint, false, NULL, NULL);
}
