/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports sends that are done to their CQ. */
#ifndef VIPL_LOOPBACK_REPORT_H
#define VIPL_LOOPBACK_REPORT_H

#include "loopback.h"

/* For a CQ of this queue alone, whose lock is held. Goes on with a pending send, reports, and returns how many. */
int loopback_report_sends(struct loopback_endpoint *endpoint);

/*
 * For a VIPL CQ, whose lock is held. Returns true, and the stamp, if there is a send to report, or one that is being
 * published.
 */
bool loopback_next_send(struct loopback_endpoint *endpoint, uint32_t *stamp);
bool loopback_next_send_is_done(const struct loopback_endpoint *endpoint);
/* Reports the first completion and those before the bound. Returns their number. `has_more`: there are more. */
int loopback_report_sends_before(struct loopback_endpoint *endpoint, uint32_t bound, bool *has_more);

/* The send CQ's lock is held. */
static inline uint32_t reported_sends(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->reported, memory_order_relaxed);
}

/* After a failure there may be something to report although nothing more is finished. */
static inline bool loopback_has_sends(const struct loopback_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->finished, memory_order_acquire) !=
		       reported_sends(endpoint) ||
	       atomic_load_explicit(&endpoint->is_pending, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->failure, memory_order_acquire) ||
	       atomic_load_explicit(&endpoint->stopped, memory_order_acquire);
}

#endif
