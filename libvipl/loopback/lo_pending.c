/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends that need the peer's help: long messages in pieces through the ring, RDMA that the kernel
 * does not let us do ourselves, Reliable Reception without direct access. An endpoint
 * has one at a time. The thread that polls the send CQ goes on with it: the program's, or the agent, which the
 * peer wakes.
 */
#include <string.h>

#include "lane_out.h"
#include "region.h"

void loopback_suspend(struct loopback_endpoint *endpoint, const struct device_send *send,
		      unsigned kind)
{
	struct loopback_pending *pending = &endpoint->pending;

	pending->kind = kind;
	pending->offset = 0;
	pending->asked = false;
	pending->send = *send;
	memcpy(endpoint->arrays->pending, send->segments, send->count * sizeof(send->segments[0]));
	pending->send.segments = endpoint->arrays->pending;
	/* From here on the threads that poll have it. */
	atomic_store_explicit(&endpoint->is_pending, true, memory_order_release);
	order_call(endpoint->send_cq, &endpoint->sending); /* the thread that is woken finds it */
	endpoint_wake_agent(endpoint);
}

/* The next send may begin. */
static bool end_pending(struct loopback_endpoint *endpoint)
{
	atomic_store_explicit(&endpoint->is_pending, false, memory_order_release);
	return true;
}

static bool finish_pending(struct loopback_endpoint *endpoint, uint32_t error)
{
	send_finish(endpoint, error);
	return end_pending(endpoint);
}

/* The send has its stamp. */
static bool finish_stamped(struct loopback_endpoint *endpoint)
{
	send_finish_stamped(endpoint, 0);
	return end_pending(endpoint);
}

static bool refuse_pending(struct loopback_endpoint *endpoint, uint32_t error, enum lane_end end)
{
	send_refused(endpoint, error, end);
	return end_pending(endpoint);
}

/* Parts of a message that stays incomplete must not become the beginning of the next message. */
static bool give_up(struct loopback_endpoint *endpoint, uint32_t error)
{
	struct loopback_pending *pending = &endpoint->pending;

	if (pending->kind != PENDING_SEND || !pending->offset)
		return finish_pending(endpoint, error);
	pending->kind = PENDING_ABORT;
	pending->error = error;
	return true;
}

static bool step_abort(struct loopback_endpoint *endpoint)
{
	struct lane_message *message = lane_next_message(endpoint);

	if (!message)
		return false;
	send_publish(endpoint, message, MESSAGE_ABORT, 0, &endpoint->pending.send);
	send_announce(endpoint);
	return finish_pending(endpoint, endpoint->pending.error);
}

static uint32_t next_piece(const struct loopback_pending *pending)
{
	uint32_t left = pending->send.length - pending->offset;

	return left < LANE_PIECE ? left : LANE_PIECE;
}

/* Puts the next piece into the ring, and a message for it. False when there is no room. */
static bool put_piece(struct loopback_endpoint *endpoint, enum message_kind kind)
{
	struct loopback_pending *pending = &endpoint->pending;
	uint32_t length = next_piece(pending);
	struct lane_message *message = lane_next_message(endpoint);
	uint64_t ring_written = endpoint->ring_written;
	uint8_t *ring;

	if (!message)
		return false;
	if (kind != MESSAGE_READ) {
		ring = lane_ring_room(endpoint, length);
		if (!ring)
			return false;
		if (!copy_gather(ring, &pending->send, pending->offset, length,
				 kind == MESSAGE_WRITE || copies_carefully(endpoint))) {
			endpoint->ring_written = ring_written;
			pending->kind = PENDING_ABORT; /* the next step */
			pending->error = VIP_STATUS_PROTECTION_ERROR;
			return false;
		}
	}
	if (kind == MESSAGE_WRITE || kind == MESSAGE_READ) {
		message->target.address = pending->send.remote_address + pending->offset;
		message->target.handle = pending->send.remote_handle;
	}
	send_publish(endpoint, message, kind, length, &pending->send);
	send_announce(endpoint);
	pending->number = endpoint->written;
	pending->piece = length;
	return true;
}

static bool step_send(struct loopback_endpoint *endpoint)
{
	struct loopback_pending *pending = &endpoint->pending;
	uint32_t left = pending->send.length - pending->offset;
	bool is_last = left <= LANE_PIECE;

	if (!put_piece(endpoint, is_last ? MESSAGE_IN_RING : MESSAGE_PART))
		return false;
	pending->offset += pending->piece;
	if (!is_last)
		return true;
	if (endpoint->own.reliability != VIP_SERVICE_RELIABLE_RECEPTION)
		return finish_stamped(endpoint);
	pending->kind = PENDING_RECEPTION;
	return true;
}

static bool step_reception(struct loopback_endpoint *endpoint)
{
	uint32_t consumed = atomic_load_explicit(&endpoint->out->consumed, memory_order_acquire);

	if ((int32_t)(consumed - endpoint->pending.number) < 0)
		return false;
	/* The peer knows only the page of our receive CQ. */
	if (!endpoint->send_cq->page || endpoint->send_cq != endpoint->receive_cq)
		return finish_pending(endpoint, 0);
	send_set_stamp(endpoint,
		       atomic_load_explicit(&endpoint->out->reception, memory_order_relaxed));
	return finish_stamped(endpoint);
}

/* Sends the immediate data of an RDMA write, after everything else. */
static bool step_immediate(struct loopback_endpoint *endpoint)
{
	struct lane_message *message = lane_next_message(endpoint);
	const struct device_send *send = &endpoint->pending.send;
	uint32_t room;

	if (!lane_next_receive(endpoint, &room))
		return refuse_pending(endpoint, VIP_STATUS_REMOTE_DESC_ERROR, END_NO_RECEIVE);
	if (!message)
		return false;
	send_publish(endpoint, message, MESSAGE_WRITTEN, send->length, send);
	send_announce(endpoint);
	return finish_stamped(endpoint);
}

static bool step_rdma(struct loopback_endpoint *endpoint)
{
	struct loopback_pending *pending = &endpoint->pending;
	bool is_write = pending->kind == PENDING_WRITE;
	uint64_t answer;

	if (pending->offset == pending->send.length) {
		if (is_write && pending->send.control & VIP_CONTROL_IMMEDIATE)
			return step_immediate(endpoint);
		return finish_pending(endpoint, 0);
	}
	if (!pending->asked) {
		pending->asked = put_piece(endpoint, is_write ? MESSAGE_WRITE : MESSAGE_READ);
		return pending->asked;
	}
	/* With the answer come its data. */
	answer = atomic_load_explicit(&endpoint->out->answer, memory_order_acquire);
	if (answer >> 32 != pending->number)
		return false;
	if ((uint32_t)answer != ANSWER_DONE)
		return refuse_pending(endpoint, VIP_STATUS_RDMA_PROT_ERROR,
				      is_write ? END_WRITE_REFUSED : END_READ_REFUSED);
	if (!is_write && !lane_bring(endpoint->out, &endpoint->out_known, endpoint->out->answer_data, LANE_PIECE))
		return endpoint_short_of_memory(endpoint);
	if (!is_write && !copy_scatter_carefully(&pending->send, pending->offset, endpoint->out->answer_data,
				       pending->piece))
		return finish_pending(endpoint, VIP_STATUS_PROTECTION_ERROR);
	pending->offset += pending->piece;
	pending->asked = false;
	return true;
}

/* One step further, if the peer has made it possible. */
static bool step(struct loopback_endpoint *endpoint)
{
	struct loopback_pending *pending = &endpoint->pending;

	if (pending->kind == PENDING_RECEPTION)
		return step_reception(endpoint);
	if (pending->kind == PENDING_ABORT)
		return step_abort(endpoint);
	if (pending->kind == PENDING_END)
		return false;
	/* From here on the next receive may be read. */
	if (endpoint->written == endpoint->limit && !lane_look(endpoint))
		return false;
	/* The program may have deregistered its memory meanwhile. */
	if (!send_memory_is_there(endpoint, &pending->send,
				  pending->kind == PENDING_READ ? RIGHT_LOCAL_WRITE : 0))
		return give_up(endpoint, VIP_STATUS_PROTECTION_ERROR);
	return pending->kind == PENDING_SEND ? step_send(endpoint) : step_rdma(endpoint);
}

static bool is_pending(const struct loopback_endpoint *endpoint)
{
	/* The pending send may be another one by now, with another state. */
	return atomic_load_explicit(&endpoint->is_pending, memory_order_acquire);
}

void loopback_advance(struct loopback_endpoint *endpoint)
{
	bool must_wake = false;

	if (!endpoint->out || atomic_load_explicit(&endpoint->stopped, memory_order_relaxed))
		return;
	do {
		while (is_pending(endpoint) && step(endpoint))
			;
		if (!is_pending(endpoint)) {
			if (must_wake) /* not any more */
				atomic_store(&endpoint->out->sender_waits, 0);
			return;
		}
		/* The peer's agent, when it is woken, first takes messages, and then looks at this flag. If the flag was set already,
		   we have woken that agent. */
		must_wake |= !atomic_exchange(&endpoint->out->sender_waits, 1);
		atomic_thread_fence(memory_order_seq_cst);
	} while (step(endpoint));
	if (must_wake)
		endpoint_wake_peer(endpoint);
}
