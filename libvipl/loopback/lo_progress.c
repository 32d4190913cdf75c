/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress without the program's help. Usually the program polls often, or sleeps until there is a completion, and there
 * is nothing to do here. Otherwise:
 *
 * - While the program polls some CQs, a timer runs. Each tick looks at the CQs that were not polled since the last one.
 * - When it polls none, the timer stops, or ticks each second. From then on peers ring for the agent.
 *
 * The NIC's lock is held everywhere in this file but in loopback_progress_polled().
 */
#include <stdint.h>
#include <unistd.h>

#include "base/container.h"
#include "base/fd.h"
#include "base/log.h"
#include "order.h"
#include "report.h"

#define QUIET_TICKS      8u  /* after this number without a poll the timer stops */
#define MOST_TURNS       64u /* at one CQ */
#define SOME_CQS         1024u
#define SOME_CONNECTIONS 64u
#define MANY_CONNECTIONS 1024u

/* ---- which CQs there are ---- */

static void link_cq(struct loopback_device *device, struct loopback_cq *cq)
{
	if (!cq->ends++)
		TAILQ_INSERT_TAIL(&device->cqs, cq, in_device);
}

static void unlink_cq(struct loopback_device *device, struct loopback_cq *cq)
{
	if (!--cq->ends)
		TAILQ_REMOVE(&device->cqs, cq, in_device);
}

/* A peer must not keep another queue's sleeper asleep by what it writes into the page. */
static void begin_slow_ticks(struct loopback_device *device)
{
	device->ticks_slowly = true;
	loopback_slow_tick(device);
}

void loopback_progress_link(struct loopback_endpoint *endpoint)
{
	link_cq(endpoint->device, endpoint->send_cq);
	link_cq(endpoint->device, endpoint->receive_cq);
	TAILQ_INSERT_TAIL(&endpoint->receive_cq->linked, endpoint, in_cq_linked);
	endpoint->receive_cq->links++;
	if (endpoint->receive_cq->page && !endpoint->device->ticks_slowly)
		begin_slow_ticks(endpoint->device);
}

void loopback_progress_unlink(struct loopback_endpoint *endpoint)
{
	TAILQ_REMOVE(&endpoint->receive_cq->linked, endpoint, in_cq_linked);
	endpoint->receive_cq->links--;
	unlink_cq(endpoint->device, endpoint->receive_cq);
	unlink_cq(endpoint->device, endpoint->send_cq);
}

/* ---- looking ---- */

/* Without the lock: a poll may find something. */
static bool has_news(const struct loopback_cq *cq)
{
	struct loopback_endpoint *endpoint;

	if (cq->page)
		return order_has_news(&cq->order, cq->page);
	LIST_FOREACH(endpoint, &cq->senders, in_send_cq)
		if (loopback_has_sends(endpoint))
			return true;
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		if (atomic_load(&endpoint->stopped) || (endpoint->in && next_message(endpoint)))
			return true;
	return false;
}

/* Leaves the lock to the threads that use it when there is nothing to do. */
static void look(struct loopback_device *device, struct loopback_cq *cq)
{
	unsigned turns = MOST_TURNS;
	bool found = true;

	atomic_store(&device->is_looking, true);
	while (found && has_news(cq) && turns--)
		found = cq_poll_for_device(cq->cq);
	atomic_store(&device->is_looking, false);
	if (found && has_news(cq)) /* the others first */
		loopback_ring(device, device->bell_name);
	atomic_store_explicit(&cq->look.is_polled, false, memory_order_relaxed); /* that was this look */
}

/*
 * A peer can clear the bits of others in the CQ's page. So this looks for messages in the lanes of some connections at a
 * time. It does no harm if a sender is just about to set its bit.
 */
static void look_after(struct loopback_cq *cq, unsigned connections)
{
	if (!cq->page)
		return;
	if (connections > cq->links)
		connections = cq->links;
	while (connections--) {
		struct loopback_endpoint *endpoint = TAILQ_FIRST(&cq->linked);

		TAILQ_REMOVE(&cq->linked, endpoint, in_cq_linked);
		TAILQ_INSERT_TAIL(&cq->linked, endpoint, in_cq_linked);
		if (next_message(endpoint))
			order_call(cq, &endpoint->receiving);
	}
}

/* The caller looks at all CQs once more after this. What comes later rings. */
static void ask_for_bells(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;
	struct loopback_cq *cq;

	TAILQ_FOREACH (cq, &device->cqs, in_device) {
		if (cq->page)
			atomic_fetch_or(&cq->page->waits, WAIT_IN_AGENT);
		else
			TAILQ_FOREACH (endpoint, &cq->linked, in_cq_linked)
				atomic_fetch_or(&endpoint->in->receiver_waits, WAIT_IN_AGENT);
	}
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- the bell ---- */

static bool has_stalled_sender(struct loopback_endpoint *endpoint)
{
	/* Orders this look after the store to `consumed`; see loopback_advance(). */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&endpoint->in->sender_waits, memory_order_relaxed) &&
	       atomic_exchange(&endpoint->in->sender_waits, 0);
}

/* Ends the connection with one peer that violates the protocol or is gone, if there is any. */
static void expel(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;

	LIST_FOREACH (endpoint, &device->linked, in_linked) {
		uint32_t fault = atomic_exchange(&endpoint->fault, 0);

		if (!fault)
			continue;
		loopback_ring(device, device->bell_name); /* the list changes: come again */
		if (fault == FAULT_OF_PROTOCOL)
			log_error_ratelimited("a peer violates the protocol of shared memory: closing its connection");
		else if (fault == FAULT_IN_ACCESS)
			log_warning_ratelimited("a peer has not ended its access to our memory within a second: closing its "
						"connection");
		endpoint_failed(endpoint->vi, VIP_ERROR_CONN_LOST);
		return;
	}
}

void loopback_bell_ready(struct watch *watch)
{
	struct loopback_device *device = container_of(watch, struct loopback_device, bell);
	struct loopback_endpoint *endpoint;
	struct loopback_cq *cq;

	if (fd_is_own(watch->fd) && !loopback_drain(device, watch->fd))
		left_alone_bell(device);
	/* Anybody may have rung, so all are looked at. */
	if (!atomic_load(&device->ticks))
		ask_for_bells(device);
	TAILQ_FOREACH (cq, &device->cqs, in_device)
		look(device, cq);
	LIST_FOREACH (endpoint, &device->linked, in_linked)
		if (has_stalled_sender(endpoint))
			loopback_ring(device, endpoint->peer_agent_bell);
	expel(device);
}

/* ---- the timer ---- */

void loopback_progress_polled(struct loopback_device *device)
{
	if (atomic_load_explicit(&device->is_looking, memory_order_relaxed))
		return; /* by the agent itself; or else the program's next poll counts */
	atomic_store(&device->is_polled, true);
	if (!atomic_exchange(&device->ticks, true))
		loopback_set_timer(device, TICK_MSEC);
}

/* Looks at some of the CQs at each turn. */
static void look_at_some(struct loopback_device *device)
{
	struct loopback_cq *first = TAILQ_FIRST(&device->cqs), *cq = first;

	for (unsigned i = 0; cq && i < SOME_CQS; i++) {
		look_after(cq, SOME_CONNECTIONS);
		/* A CQ that the program has polled since the last turn is left to the program. */
		if (!atomic_exchange_explicit(&cq->look.is_polled, false, memory_order_relaxed))
			look(device, cq);
		TAILQ_REMOVE(&device->cqs, cq, in_device);
		TAILQ_INSERT_TAIL(&device->cqs, cq, in_device);
		cq = TAILQ_FIRST(&device->cqs);
		if (cq == first)
			break;
	}
}

/* From here on peers ring. */
static void stop_ticking(struct loopback_device *device)
{
	bool depends = false;
	struct loopback_cq *cq;

	TAILQ_FOREACH (cq, &device->cqs, in_device)
		depends |= cq->page && cq->links;
	device->ticks_slowly = depends;
	atomic_store(&device->ticks, false);
	loopback_set_timer(device, depends ? SLOW_TICK_MSEC : NO_TICK);
	/* Just now threads may have asked for a tick, or have polled. */
	if (atomic_load(&device->left_alone.any) || (atomic_load(&device->is_polled) && !atomic_exchange(&device->ticks, true)))
		loopback_set_timer(device, TICK_MSEC);
	ask_for_bells(device);
	TAILQ_FOREACH (cq, &device->cqs, in_device) {
		look_after(cq, MANY_CONNECTIONS);
		look(device, cq);
	}
}

void loopback_timer_ready(struct watch *watch)
{
	struct loopback_device *device = container_of(watch, struct loopback_device, timer);

	/* Both ways from here set the timer, which then is not readable any more. */
	left_alone_tick(device);
	device->quiet = atomic_exchange(&device->is_polled, false) ? 0 : device->quiet + 1;
	if (device->quiet >= QUIET_TICKS || !atomic_load(&device->ticks)) {
		stop_ticking(device);
		return;
	}
	look_at_some(device);
	loopback_set_timer(device, TICK_MSEC);
}
