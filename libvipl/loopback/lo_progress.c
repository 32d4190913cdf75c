/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress without the program's help. Usually the program polls often, or sleeps until there is a completion, and there
 * is nothing to do here. Otherwise:
 *
 * - While the program polls some CQs, a timer runs. Each tick looks at the CQs that were not polled since the last one.
 * - When it polls none, the timer stops, or ticks each second. From then on peers wake the agent: lo_wake.c.
 *
 * Why the agent misses nothing:
 *
 * - When the timer stops it asks for wake-ups, and looks. One that has come is asked for again before the look. Between both is a
 *   fence, as there is between a message and the sender's look at the bit: the agent sees the message, or the sender the bit.
 * - The notifier, and the agent with VIPL_PROGRESS, ask for wake-ups before their last look. If another thread was faster, so that
 *   nothing is left to poll, the wake-up is asked for again, also while the timer runs.
 * - A wake-up that fails is tried again: lo_wake.c. One that nobody reads any more is replaced at the end of the connection.
 * - What a look leaves is the next turn's: the endpoint calls the agent again, or the timer runs.
 * - A peer may clear the bit of a page that others need, and wake nobody: the timer ticks each second.
 *
 * The NIC's lock is held everywhere in this file but in loopback_progress_polled().
 */
#include <errno.h>
#include <sys/timerfd.h>

#include "base/config.h"
#include "base/container.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "order.h"

#define TICK_MSEC	 10
#define SLOW_TICK_MSEC	 1000
#define WAKE_AGAIN_MSEC  10
#define QUIET_TICKS      8u  /* after this number without a poll the timer stops */
#define MOST_TURNS       64u /* at one CQ */
#define MOST_NEWS	 64u /* in a turn */
#define SOME_CQS         1024u
#define SOME_CONNECTIONS 64u
#define MANY_CONNECTIONS 1024u

/* The next tick is after this time; 0: there is none. */
static void set_timer(struct loopback_device *device, long milliseconds)
{
	struct itimerspec tick = {.it_value = {.tv_sec = milliseconds / 1000,
					       .tv_nsec = milliseconds % 1000 * 1000000}};

	if (fd_is_own(device->timer.fd) && timerfd_settime(device->timer.fd, 0, &tick, NULL))
		device_lost(device->nic, "timerfd_settime()", errno);
}

static void tick(struct loopback_device *device)
{
	if (!atomic_exchange(&device->ticks, true))
		set_timer(device, TICK_MSEC);
}

void loopback_progress_polled(struct loopback_device *device)
{
	if (thread_is_agent)
		return;
	atomic_store(&device->is_polled, true);
	tick(device);
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

/* The notifier arms the CQ again when it has looked. With VIPL_PROGRESS it stays armed. */
static void disarm(struct loopback_cq *cq)
{
	if (!config()->progress)
		atomic_fetch_and(&cq->armed, ~(uint32_t)WAIT_IN_AGENT);
}

void loopback_cq_poll_armed(struct loopback_cq *cq)
{
	disarm(cq);
	cq_poll_for_device(cq->cq);
}

/*
 * Leaves the lock to the threads that use it when there is nothing to do. True: there is more, the others have their turn, and the
 * caller looks again.
 */
static bool look(struct loopback_cq *cq)
{
	unsigned turns = MOST_TURNS;
	bool found = true;

	if (!has_news(cq))
		return false;
	disarm(cq);
	while (found && has_news(cq) && turns--)
		found = cq_poll_for_device(cq->cq);
	atomic_store_explicit(&cq->look.is_polled, false, memory_order_relaxed); /* that was this look */
	return found && has_news(cq);
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

/* The caller looks once more after this. What comes later wakes the agent. */
static void ask_for_wakes(struct loopback_cq *cq)
{
	struct loopback_endpoint *endpoint;

	if (cq->page)
		atomic_fetch_or(&cq->page->waits, WAIT_IN_AGENT);
	else
		TAILQ_FOREACH (endpoint, &cq->linked, in_cq_linked)
			atomic_fetch_or(&endpoint->in->receiver_waits, WAIT_IN_AGENT);
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- wake-ups ---- */

/* Ends the connection if the peer violates the protocol or is gone. */
static void expel(struct loopback_endpoint *endpoint)
{
	uint32_t fault = atomic_exchange(&endpoint->fault, 0);

	if (!fault)
		return;
	if (fault == FAULT_OF_PROTOCOL)
		log_error_ratelimited("a peer violates the protocol of shared memory: closing its connection");
	else if (fault == FAULT_IN_ACCESS)
		log_warning_ratelimited("a peer has not ended its access to our memory within a second: closing its "
					"connection");
	vi_failed(endpoint->vi, VIP_ERROR_CONN_LOST);
}

void loopback_woken_by_peer(struct device_endpoint *base)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	struct loopback_cq *cq = endpoint->receive_cq;
	bool has_more;

	if (!endpoint->link)
		return;
	/* A wake-up for this CQ has been used up, or is lost. While the timer runs it looks, unless somebody waits. */
	if (!atomic_load(&cq->device->ticks) || atomic_load(&cq->armed) & WAIT_IN_AGENT)
		ask_for_wakes(cq);
	has_more = look(cq);
	if (endpoint->send_cq != cq)
		has_more |= look(endpoint->send_cq);
	if (has_more)
		endpoint_wake_agent(endpoint);
	/* Orders this look after the store to `consumed`; see loopback_advance(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&endpoint->in->sender_waits, memory_order_relaxed) &&
	    atomic_exchange(&endpoint->in->sender_waits, 0))
		endpoint_wake_peer(endpoint);
	expel(endpoint);
}

int loopback_serve(struct device *base)
{
	struct loopback_device *device = (struct loopback_device *)base;
	unsigned count = atomic_load(&device->news.count); /* each once: those that call again are behind these */
	struct loopback_endpoint *endpoint;
	bool has_woken = true;

	if (count > MOST_NEWS) {
		count = MOST_NEWS;
		device_wake(device->nic);
	}
	for (; count && (endpoint = endpoint_with_news(device)); count--) {
		has_woken &= endpoint_wake_peer_again(endpoint);
		loopback_woken_by_peer((struct device_endpoint *)endpoint);
	}
	return has_woken ? -1 : WAKE_AGAIN_MSEC;
}

/* ---- connections ---- */

static void link_cq(struct loopback_cq *cq)
{
	if (!cq->ends++)
		TAILQ_INSERT_TAIL(&cq->device->cqs, cq, in_device);
}

static void unlink_cq(struct loopback_cq *cq)
{
	if (!--cq->ends)
		TAILQ_REMOVE(&cq->device->cqs, cq, in_device);
}

void loopback_progress_link(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *cq = endpoint->receive_cq;

	link_cq(endpoint->send_cq);
	link_cq(cq);
	TAILQ_INSERT_TAIL(&cq->linked, endpoint, in_cq_linked);
	if (!cq->links++ && cq->page)
		tick(cq->device); /* and stop_ticking() finds that it has peers */
}

void loopback_progress_unlink(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *cq = endpoint->receive_cq;

	TAILQ_REMOVE(&cq->linked, endpoint, in_cq_linked);
	/*
	 * This peer may have cleared the page's bit, and its wake-up is unread in the socket, or it has ended before it sent that. It
	 * clears no bit any more: see take_waits() of lo_lane_out.c.
	 */
	if (--cq->links && cq->page) {
		ask_for_wakes(cq);
		if (look(cq))
			endpoint_wake_agent(TAILQ_FIRST(&cq->linked));
	}
	unlink_cq(cq);
	unlink_cq(endpoint->send_cq);
}

/* ---- the timer ---- */

/* Looks at some of the CQs at each turn. */
static void look_at_some(struct loopback_device *device)
{
	struct loopback_cq *first = TAILQ_FIRST(&device->cqs), *cq = first;

	for (unsigned i = 0; cq && i < SOME_CQS; i++) {
		look_after(cq, SOME_CONNECTIONS);
		/* A CQ that the program has polled since the last turn is left to the program. */
		if (!atomic_exchange_explicit(&cq->look.is_polled, false, memory_order_relaxed))
			look(cq);
		TAILQ_REMOVE(&device->cqs, cq, in_device);
		TAILQ_INSERT_TAIL(&device->cqs, cq, in_device);
		cq = TAILQ_FIRST(&device->cqs);
		if (cq == first)
			break;
	}
}

/* From here on peers wake the agent. */
static void stop_ticking(struct loopback_device *device)
{
	bool depends = false, has_more = false;
	struct loopback_cq *cq;

	TAILQ_FOREACH (cq, &device->cqs, in_device)
		depends |= cq->page && cq->links;
	/* In this order: a thread that polls sets the timer after this, or has not set it, and is seen here. */
	set_timer(device, depends ? SLOW_TICK_MSEC : 0);
	atomic_store(&device->ticks, false);
	if (atomic_load(&device->is_polled))
		tick(device);
	TAILQ_FOREACH (cq, &device->cqs, in_device)
		ask_for_wakes(cq);
	TAILQ_FOREACH (cq, &device->cqs, in_device) {
		look_after(cq, MANY_CONNECTIONS);
		has_more |= look(cq);
	}
	if (has_more)
		tick(device);
}

void loopback_timer_ready(struct watch *watch)
{
	struct loopback_device *device = container_of(watch, struct loopback_device, timer);

	/* Both ways from here set the timer, which then is not readable any more. */
	device->quiet = atomic_exchange(&device->is_polled, false) ? 0 : device->quiet + 1;
	if (device->quiet >= QUIET_TICKS || !atomic_load(&device->ticks)) {
		stop_ticking(device);
		return;
	}
	look_at_some(device);
	set_timer(device, TICK_MSEC);
}
