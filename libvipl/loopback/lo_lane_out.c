/* SPDX-License-Identifier: BSD-2-Clause */
/* The lane that goes out: the functions that are too long to be inline in lane_out.h. */
#include "lane_out.h"

#include "base/futex.h"

/* The memory of `count` receives, from the next one on. */
static bool bring_receives(struct loopback_endpoint *endpoint, uint32_t count)
{
	_Atomic uint64_t *receives = endpoint->out->receives;
	uint32_t first = endpoint->taken & (LANE_RECEIVES - 1), here = LANE_RECEIVES - first;

	if (here > count)
		here = count;
	return lane_bring(endpoint->out, &endpoint->out_known, receives + first, here * sizeof(*receives)) &&
	       (here == count ||
		lane_bring(endpoint->out, &endpoint->out_known, receives, (count - here) * sizeof(*receives)));
}

bool lane_look(struct loopback_endpoint *endpoint)
{
	struct lane *out = endpoint->out;
	/* The peer does not read a message again after it has consumed it: litmus/message_place. */
	uint32_t used = endpoint->written - atomic_load_explicit(&out->consumed, memory_order_acquire);
	uint32_t place = endpoint->written & (LANE_MESSAGES - 1), room = LANE_MESSAGES - used;
	size_t in_step = LANE_STEP - offsetof(struct lane, messages[place]) % LANE_STEP;

	if (used >= LANE_MESSAGES)
		return true;
	/* One step at a time, so that a connection that is hardly used takes little memory. */
	if (!lane_has(out, endpoint->out_known, out->messages, sizeof(out->messages))) {
		if (room > in_step / sizeof(out->messages[0]))
			room = (uint32_t)(in_step / sizeof(out->messages[0]));
		if (room > LANE_MESSAGES - place)
			room = LANE_MESSAGES - place;
		if (!lane_bring(out, &endpoint->out_known, &out->messages[place], room * sizeof(out->messages[0])))
			return endpoint_short_of_memory(endpoint);
	}
	if (!bring_receives(endpoint, room + 1))
		return endpoint_short_of_memory(endpoint);
	endpoint->limit = endpoint->written + room;
	return true;
}

/* Moves the ring's limit to this position or further. False if there is no room or no memory. */
static bool ring_extend(struct loopback_endpoint *endpoint, uint64_t after)
{
	struct lane *out = endpoint->out;
	uint64_t consumed = atomic_load_explicit(&out->ring_consumed, memory_order_acquire);

	if (after - consumed > LANE_RING)
		return false;
	/* What was left out at the end in the first round may be used in the next ones. */
	if (!lane_bring(out, &endpoint->out_known, out->ring, after < LANE_RING ? (size_t)after : LANE_RING))
		return endpoint_short_of_memory(endpoint);
	endpoint->ring_limit = after < LANE_RING ? after : consumed + LANE_RING;
	return true;
}

uint8_t *lane_ring_room(struct loopback_endpoint *endpoint, uint32_t length)
{
	uint64_t place = ring_place(endpoint->ring_written, length);
	uint64_t after = ring_after(place, length);

	if (after > endpoint->ring_limit && !ring_extend(endpoint, after))
		return NULL;
	endpoint->ring_written = after;
	return &endpoint->out->ring[place & (LANE_RING - 1)];
}

void send_publish(struct loopback_endpoint *endpoint, struct lane_message *message,
		  enum message_kind kind, uint32_t length, const struct device_send *send)
{
	send_publish_inline(endpoint, message, kind, length, send, endpoint->shares);
}

void send_finish_stamped(struct loopback_endpoint *endpoint, uint32_t error)
{
	if (!error || endpoint->own.reliability == VIP_SERVICE_UNRELIABLE) {
		send_finish_well(endpoint);
		return;
	}
	atomic_store_explicit(&endpoint->failure, error, memory_order_release);
	order_call(endpoint->send_cq, &endpoint->sending);
	/* The connection shall end although the program may not ask for completions. */
	endpoint_wake_agent(endpoint);
}

void send_finish(struct loopback_endpoint *endpoint, uint32_t error)
{
	send_stamp_now(endpoint);
	send_finish_stamped(endpoint, error);
}

void send_refused(struct loopback_endpoint *endpoint, uint32_t error, enum lane_end end)
{
	/* The peer reads it when the connection ends. Such an error ends no connection of an Unreliable VI. */
	if (endpoint->own.reliability != VIP_SERVICE_UNRELIABLE)
		atomic_store_explicit(&endpoint->out->end, end, memory_order_release);
	send_finish(endpoint, error);
}

/*
 * Tells the peer that we access its memory from here on. If the peer takes back a receive or a region, then either we see
 * that, or the peer waits for us. The same holds for loopback_endpoint_is_still().
 */
bool access_begin(struct loopback_endpoint *endpoint)
{
	atomic_store_explicit(&endpoint->is_copying, true, memory_order_relaxed);
	atomic_fetch_add_explicit(&endpoint->out->busy, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !atomic_load_explicit(&endpoint->is_closing, memory_order_relaxed);
}

void access_end(struct loopback_endpoint *endpoint)
{
	atomic_fetch_add_explicit(&endpoint->out->busy, 1, memory_order_release);
	atomic_store_explicit(&endpoint->is_copying, false, memory_order_release);
}

/*
 * Clears the bits of who waits at the peer's word, and returns them. A page is for other peers, too: when our connection has ended
 * the peer looks once more at that page, and a bit that was cleared after this would be lost. So it is cleared only while the peer
 * waits for us.
 */
static uint32_t take_waits(struct loopback_endpoint *endpoint)
{
	uint32_t waits = 0;

	if (!endpoint->peer_page)
		return atomic_fetch_and(endpoint->peer_waits, ~(uint32_t)WAIT_BITS);
	if (access_begin(endpoint) && !atomic_load_explicit(&endpoint->out->closed, memory_order_relaxed))
		waits = atomic_fetch_and(endpoint->peer_waits, ~(uint32_t)WAIT_BITS);
	access_end(endpoint);
	return waits;
}

int send_wake(struct loopback_endpoint *endpoint, uint32_t waits)
{
	struct loopback_cq *cq = endpoint->send_cq;
	uint32_t armed;

	if (waits)
		waits = take_waits(endpoint);
	if (waits & WAIT_HERE)
		futex_wake(endpoint->peer_waits, false, FUTEX_SHARED);
	if (waits & WAIT_IN_AGENT)
		endpoint_wake_peer(endpoint);
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (armed & WAIT_HERE)
		loopback_wake_for_send(cq);
	/* No thread is woken for a completion that can be reported here. A pending send goes on where the CQ is polled. */
	if (armed & WAIT_IN_AGENT && !atomic_load_explicit(&endpoint->is_pending, memory_order_relaxed))
		loopback_cq_poll_armed(cq);
	return 0;
}

int send_announce_shared(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *cq = endpoint->send_cq;
	uint32_t waits;

	/* A CQ that is called in this way, or by the queue's bit (cq_page_arrived()), cannot miss it: litmus/arrived_and_wait.
	   The others are as above. */
	order_call(cq, &endpoint->sending);
	if (!endpoint->peer_page || !cq->page)
		atomic_thread_fence(memory_order_seq_cst);
	waits = atomic_load(endpoint->peer_waits);
	if ((waits | atomic_load(&cq->armed)) & WAIT_BITS)
		return send_wake(endpoint, waits);
	return 0;
}

void send_announce(struct loopback_endpoint *endpoint)
{
	if (endpoint->shares)
		send_announce_shared(endpoint);
	else
		send_announce_alone(endpoint);
}
