/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for accesses of peers to our memory when it is taken back, and at the end of a connection. The other side is
 * access_begin() of lo_lane_out.c: litmus/take_back. A peer may never end an access. Who waits for that holds no lock; only the
 * looks take the device's. After ACCESS_NSEC the peer's connection ends, and nobody waits for it any more.
 */
#include <poll.h>
#include <sched.h>

#include "base/deadline.h"
#include "base/futex.h"
#include "order.h"

/* How long a peer may take for one access to our memory: far longer than any copy. */
#define ACCESS_NSEC NSEC_PER_SEC
/* Between two looks. A longer gap counts as ten of these, because this process may have been stopped. */
#define LOOK_NSEC   NSEC_PER_MSEC

/* The device's lock is held. Whether the peer is in an access to our memory that may have begun before this time. */
static bool is_inside(struct loopback_endpoint *endpoint, int64_t before)
{
	uint32_t busy = atomic_load_explicit(&endpoint->in->busy, memory_order_acquire);
	struct pollfd hangup = {.fd = endpoint->socket, .events = POLLRDHUP};
	struct peer_access *access = &endpoint->access;
	int64_t now, since;

	if (!(busy & 1) || access->is_given_up)
		return false;
	now = clock_nsec();
	if (access->number != busy)
		*access = (struct peer_access){.number = busy, .seen = now, .looked = now, .closed = access->closed};
	/* Or the peer has died during the access, or has ended the connection. */
	if (access->seen > before || poll(&hangup, 1, 0) > 0)
		return false;
	since = now - access->looked;
	access->looked = now;
	access->waited += since < 10 * LOOK_NSEC ? since : 10 * LOOK_NSEC;
	if (access->waited < ACCESS_NSEC)
		return true;
	access->is_given_up = true;
	atomic_store(&endpoint->fault, FAULT_IN_ACCESS);
	endpoint_wake_agent(endpoint);
	return false;
}

bool loopback_endpoint_is_still(struct device_endpoint *base, bool stops)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	struct loopback_device *device = endpoint->device;
	struct peer_access *access = &endpoint->access;
	bool is_still;

	if (!endpoint->link)
		return true;
	atomic_store(&endpoint->in->closed, 1);
	atomic_store(&endpoint->is_closing, true);
	atomic_thread_fence(memory_order_seq_cst);
	pthread_mutex_lock(&device->lock);
	is_still = !is_inside(endpoint, access->closed ? access->closed : INT64_MAX);
	if (!access->closed) /* what begins from here on sees it */
		access->closed = clock_nsec();
	if (!stops)
		endpoint->socket = -1;
	pthread_mutex_unlock(&device->lock);
	order_call(endpoint->receive_cq, &endpoint->receiving); /* another peer of the CQ may have cleared the bit of this queue */
	return is_still && !atomic_load_explicit(&endpoint->is_copying, memory_order_acquire);
}

/* The device's lock is held, but not while this waits. Threads of our own process hold these locks while they copy. */
static void await_own(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;

	LIST_FOREACH (endpoint, &device->linked, in_linked) {
		endpoint->holders++; /* so it stays in the list */
		pthread_mutex_unlock(&device->lock);
		endpoint_lock(endpoint);
		endpoint_unlock(endpoint);
		pthread_mutex_lock(&device->lock);
		endpoint->holders--;
	}
}

/* The device's lock is held. Looks at all of them, so that the time of each counts. */
static bool is_any_inside(struct loopback_device *device, int64_t before)
{
	struct loopback_endpoint *endpoint;
	bool found = false;

	LIST_FOREACH (endpoint, &device->linked, in_linked)
		found |= is_inside(endpoint, before);
	return found;
}

void loopback_await_accesses(struct loopback_device *device)
{
	int64_t began, before = INT64_MAX;

	pthread_mutex_lock(&device->lock);
	await_own(device);
	/* Either we see that a peer accesses our memory, or it sees what we took back: both write, have a fence, and read. */
	atomic_thread_fence(memory_order_seq_cst);
	began = clock_nsec();
	while (is_any_inside(device, before)) {
		pthread_mutex_unlock(&device->lock);
		if (before == INT64_MAX) /* accesses that are seen later have begun later */
			before = clock_nsec();
		if (clock_nsec() - began < LOOK_NSEC)
			sched_yield();
		else
			futex_rest(LOOK_NSEC);
		pthread_mutex_lock(&device->lock);
	}
	pthread_mutex_unlock(&device->lock);
}
