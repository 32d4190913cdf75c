/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: the messages and the ring of the lane that goes out, and waking the peer. The send queue's lock is held. */
#ifndef VIPL_LOOPBACK_LANE_OUT_H
#define VIPL_LOOPBACK_LANE_OUT_H

#include "order.h"

/* An access to the peer's memory. The send queue's lock is held. False: this end takes no part in any access any more. */
bool access_begin(struct loopback_endpoint *endpoint);
void access_end(struct loopback_endpoint *endpoint);

/*
 * Finds out for how many messages there is room, and makes sure that the memory of these is there, and that of the receives
 * that they may take and of the one after these. For use when `written` is at the limit. False if there is no memory.
 */
bool lane_look(struct loopback_endpoint *endpoint);

/* False when the peer has no receive posted, else its room. */
static inline bool lane_next_receive(struct loopback_endpoint *endpoint, uint32_t *room)
{
	/* With the receive come its details. */
	uint64_t receive = atomic_load_explicit(
		&endpoint->out->receives[endpoint->taken & (LANE_RECEIVES - 1)],
		memory_order_acquire);

	*room = (uint32_t)receive;
	return receive >> 32 == (uint32_t)(endpoint->taken + 1);
}

/* The next message, to be filled and published; NULL when the lane is full. */
static inline struct lane_message *lane_next_message(struct loopback_endpoint *endpoint)
{
	if (endpoint->written == endpoint->limit &&
	    (!lane_look(endpoint) || endpoint->written == endpoint->limit))
		return NULL;
	return &endpoint->out->messages[endpoint->written & (LANE_MESSAGES - 1)];
}

/* `length` bytes of the ring, or NULL when there is no room or no memory. */
uint8_t *lane_ring_room(struct loopback_endpoint *endpoint, uint32_t length);

static inline void send_set_stamp(struct loopback_endpoint *endpoint, uint32_t stamp)
{
	uint32_t place = atomic_load_explicit(&endpoint->finished, memory_order_relaxed);

	endpoint->stamps[place % SEND_STAMPS] = stamp;
}

/* Gives the send under way its stamp, which is its place in the order of its CQ. It may be reported later. */
static inline void send_stamp_now(struct loopback_endpoint *endpoint)
{
	if (endpoint->shares && endpoint->send_cq->page)
		send_set_stamp(endpoint, cq_page_stamp(endpoint->send_cq->page));
}

/*
 * Gives the send under way its stamp before the message is published. From then on it may be answered, and another thread
 * may poll the CQ before this one has marked the send as done. That thread finds the stamp. A pending send continues
 * under the CQ's lock, so no thread polls meanwhile.
 */
static inline void send_take_place(struct loopback_endpoint *endpoint)
{
	send_stamp_now(endpoint);
	if (!endpoint->send_cq->page ||
	    atomic_load_explicit(&endpoint->is_pending, memory_order_relaxed))
		return;
	atomic_store_explicit(&endpoint->stamped,
			      atomic_load_explicit(&endpoint->finished, memory_order_relaxed) + 1,
			      memory_order_release);
	order_call(endpoint->send_cq, &endpoint->sending);
}

static inline __attribute__((always_inline))
void send_publish_inline(struct loopback_endpoint *endpoint, struct lane_message *message,
	     enum message_kind kind, uint32_t length, const struct device_send *send, bool shares)
{
	message->kind = (uint8_t)kind;
	message->has_immediate = !!(send->control & VIP_CONTROL_IMMEDIATE);
	message->length = length;
	message->immediate = send->immediate;
	if (kind < MESSAGE_PART)
		endpoint->taken++;
	if (shares && endpoint->peer_page)
		message->stamp = cq_page_stamp(endpoint->peer_page);
	/* After the message's stamp, because both may be of one CQ; and before an answer can have its stamp. */
	if (shares && kind < MESSAGE_PART)
		send_take_place(endpoint);
	/* A peer that sees the number sees all that was written before it, also in the ring: litmus/message_number. */
	atomic_store_explicit(&message->number, ++endpoint->written, memory_order_release);
	/* Before the send is marked as done: a thread that sees the mark may send to the same CQ, and must not overtake it. */
	if (shares && endpoint->peer_page)
		cq_page_arrived(endpoint->peer_page, endpoint->peer_queue);
	/* The next message's cache lines are fetched while the peer reads this message. */
	__builtin_prefetch(&endpoint->out->messages[endpoint->written & (LANE_MESSAGES - 1)], 1);
	__builtin_prefetch((void *)&endpoint->out->receives[endpoint->taken & (LANE_RECEIVES - 1)]);
}

/* send_publish_inline(), out of line. */
void send_publish(struct loopback_endpoint *endpoint, struct lane_message *message,
		  enum message_kind kind, uint32_t length, const struct device_send *send);

static inline void send_finish_well(struct loopback_endpoint *endpoint)
{
	atomic_store_explicit(&endpoint->finished,
			      atomic_load_explicit(&endpoint->finished, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* The send under way has ended, with success or with an error bit. It gets its stamp now. */
void send_finish(struct loopback_endpoint *endpoint, uint32_t error);
/* The send under way has ended. It has its stamp already, from send_publish() or send_set_stamp(). */
void send_finish_stamped(struct loopback_endpoint *endpoint, uint32_t error);
/* The send under way has ended, because the peer's VI refuses it. The peer gets the error `end`. */
void send_refused(struct loopback_endpoint *endpoint, uint32_t error, enum lane_end end);

/* Wakes the sleepers that asked for it, after a message was published or finished. Returns 0. */
int send_wake(struct loopback_endpoint *endpoint, uint32_t waits);
/* Wakes the sleepers, if there are any. Returns 0. */
static inline int send_announce_alone(struct loopback_endpoint *endpoint)
{
	uint32_t waits;

	/* See loopback_cq_arm(), and litmus/publish_and_wait. */
	atomic_thread_fence(memory_order_seq_cst);
	waits = atomic_load_explicit(&endpoint->out->receiver_waits, memory_order_relaxed);
	if ((waits | atomic_load_explicit(&endpoint->send_cq->armed, memory_order_relaxed)) & WAIT_BITS)
		return send_wake(endpoint, waits);
	return 0;
}

/* Wakes the sleepers, if there are any, where the peer's receive queue or our send queue is on a VIPL CQ. */
int send_announce_shared(struct loopback_endpoint *endpoint);
/* Calls the one of the two that is right for the endpoint. */
void send_announce(struct loopback_endpoint *endpoint);

#endif
