/*
 * Progress without the program's help. Usually the program asks for completions often, or sleeps
 * until there is one, and nothing has to be done here. One that does neither (it computes, or looks
 * for data in its memory) is found by a timer, which runs only while completions are asked for;
 * from then on peers ring for the agent. The NIC's lock is held everywhere here.
 */
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "log.h"
#include "loopback.h"

#define TICK_NSEC 10000000
#define SPAN_TICKS 8u

/* So many times completions have been asked for, but by look(). With VIPL_PROGRESS the agent asks, too. */
static uint32_t polls(const struct loopback_cq *cq)
{
	return atomic_load_explicit(&cq->polls, memory_order_relaxed) - cq->looks;
}

/*
 * In this span of the timer or the one before? That is long enough for a program that asks many CQs in
 * turn. If those rang that it is about to ask, it would be so slow that it seemed to ask none of them.
 */
static bool was_polled(const struct loopback_cq *cq)
{
	return polls(cq) != cq->polls_then;
}

/* After this the CQ is looked at once more: what comes later rings. */
static void ask_for_bell(struct loopback_endpoint *endpoint)
{
	atomic_fetch_or(&endpoint->in->receiver_waits, WAIT_IN_AGENT);
	atomic_thread_fence(memory_order_seq_cst);
}

/* Each CQ once in a round, however many connections it has. */
static void look(struct loopback_device *device, struct loopback_cq *cq)
{
	if (cq->round == device->round)
		return;
	cq->round = device->round;
	cq_poll_for_device(cq->cq);
	cq->looks++;
}

static void begin_span(struct loopback_cq *cq)
{
	cq->polls_then = cq->polls_at_start;
	cq->polls_at_start = polls(cq);
}

static bool has_stalled_sender(struct loopback_endpoint *endpoint)
{
	/* Between what was consumed and this; see loopback_advance(). */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&endpoint->in->sender_waits, memory_order_relaxed) &&
	       atomic_exchange(&endpoint->in->sender_waits, 0);
}

/* Ends the connection with one peer that broke the rules, if there is any. */
static void expel(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;

	LIST_FOREACH(endpoint, &device->linked, in_linked) {
		if (!atomic_exchange(&endpoint->violated, false))
			continue;
		bell_ring(device->bell.fd, device->bell_name); /* the list changes: come again */
		log_error("a peer has broken the rules of shared memory: its connection ends");
		endpoint_failed(endpoint->vi, VIP_ERROR_CONN_LOST);
		return;
	}
}

void loopback_bell_ready(struct watch *watch)
{
	struct loopback_device *device =
		(struct loopback_device *)((char *)watch - offsetof(struct loopback_device, bell));
	struct loopback_endpoint *endpoint;

	bell_drain(watch->fd);
	/* Anybody may have rung, so all are looked at. */
	device->round++;
	LIST_FOREACH(endpoint, &device->linked, in_linked)
		if (!was_polled(endpoint->receive_cq))
			ask_for_bell(endpoint);
	LIST_FOREACH(endpoint, &device->linked, in_linked) {
		look(device, endpoint->receive_cq);
		look(device, endpoint->send_cq);
		if (has_stalled_sender(endpoint))
			bell_ring(watch->fd, endpoint->peer_agent_bell);
	}
	expel(device);
}

static void set_timer(struct loopback_device *device)
{
	static const struct itimerspec tick = {.it_value.tv_nsec = TICK_NSEC};

	timerfd_settime(device->timer.fd, 0, &tick, NULL);
}

void progress_start_ticking(struct loopback_device *device)
{
	if (!atomic_exchange(&device->ticks, true))
		set_timer(device);
}

void loopback_timer_ready(struct watch *watch)
{
	struct loopback_device *device =
		(struct loopback_device *)((char *)watch - offsetof(struct loopback_device, timer));
	bool polled = false, begins = ++device->rings % SPAN_TICKS == 0;
	struct loopback_endpoint *endpoint;
	uint64_t ticks;

	if (read(watch->fd, &ticks, sizeof(ticks)) < 0) {
		/* EAGAIN: set anew since. */
	}
	device->round++;
	LIST_FOREACH(endpoint, &device->linked, in_linked) {
		if (was_polled(endpoint->receive_cq))
			polled = true;
		else
			ask_for_bell(endpoint);
	}
	LIST_FOREACH(endpoint, &device->linked, in_linked) {
		if (begins && endpoint->receive_cq->round != device->round)
			begin_span(endpoint->receive_cq);
		look(device, endpoint->receive_cq);
	}
	if (polled)
		set_timer(device);
	else
		atomic_store(&device->ticks, false);
}
