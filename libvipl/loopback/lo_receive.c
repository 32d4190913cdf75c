/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving end: takes what the peer has sent. Each field of the link is read once, and checked. */
#include "base/copy.h"
#include "base/own_memory.h"
#include "order.h"
#include "region.h"

/* There is no memory for what the peer has sent. Returns false. */
static bool stop_short(struct loopback_endpoint *endpoint)
{
	endpoint->rx_stopped = true;
	return endpoint_short_of_memory(endpoint);
}

/* The next `length` bytes of the ring, or NULL if there is no memory. Both ends find them by the same rule. */
static const uint8_t *ring_take(struct loopback_endpoint *endpoint, uint32_t length)
{
	uint64_t place = ring_place(endpoint->ring_read, length);
	const uint8_t *data = &endpoint->in->ring[place & (LANE_RING - 1)];

	if (!lane_bring(endpoint->in, &endpoint->in_known, data, length + !length))
		return NULL;
	endpoint->ring_read = ring_after(place, length);
	return data;
}

/* The members of a message, each read once. */
struct header {
	uint8_t kind;
	bool has_immediate;
	uint32_t length, immediate;
};

static void complete_receive(struct loopback_endpoint *endpoint, uint32_t status, uint32_t length,
			     uint32_t immediate)
{
	endpoint->completed++;
	endpoint->offset = 0;
	endpoint->part_failed = false;
	workqueue_complete(endpoint->receive_queue, status, length, immediate);
}

/* The peer may reuse the ring and the messages up to here, because we have read them: litmus/message_place. */
static inline void consumed(struct loopback_endpoint *endpoint, uint32_t read)
{
	struct lane *in = endpoint->in;

	atomic_store_explicit(&in->ring_consumed, endpoint->ring_read, memory_order_release);
	atomic_store_explicit(&in->consumed, read, memory_order_release);
}

/* Ends the peer's send of this message before the receive is done, so that no answer is ordered before it. */
static void tell_reception(struct loopback_endpoint *endpoint)
{
	if (endpoint->peer_page)
		atomic_store_explicit(&endpoint->in->reception, cq_page_stamp(endpoint->peer_page),
				      memory_order_relaxed);
	consumed(endpoint, atomic_load_explicit(&endpoint->read, memory_order_relaxed) + 1);
}

/* A message for the oldest receive. False when the peer violates the protocol, or there is no memory. */
static bool take_message(struct loopback_endpoint *endpoint, const struct lane_message *message,
			 const struct header *header)
{
	const struct loopback_receive *receive = receive_at(endpoint, endpoint->completed);
	uint32_t total = endpoint->offset + header->length, status = 0;
	bool in_ring = header->kind == MESSAGE_IN_RING || header->kind == MESSAGE_PART;
	const uint8_t *data = message->data;

	if (receive->count != 1) /* what is before its segments is not used any more */
		atomic_store_explicit(&endpoint->pool_free, receive->list, memory_order_release);
	if (header->kind == MESSAGE_TOO_LONG) {
		/* Or too long for the registered part of it. */
		endpoint->rx_stopped = endpoint->own.reliability != VIP_SERVICE_UNRELIABLE;
		complete_receive(endpoint,
				 header->length > receive->room ? VIP_STATUS_LENGTH_ERROR
						      : VIP_STATUS_PROTECTION_ERROR,
				 0, 0);
		return true;
	}
	/* All parts together are one message. */
	if (header->length > endpoint->own.max_transfer - endpoint->offset ||
	    (header->kind == MESSAGE_INLINED && header->length > MESSAGE_INLINE) ||
	    (in_ring && header->length > LANE_PIECE) ||
	    (header->kind != MESSAGE_WRITTEN && total > receive->room))
		return false;
	/* An RDMA write takes a receive only for its immediate data. */
	if (header->kind == MESSAGE_WRITTEN &&
	    (!header->has_immediate || endpoint->offset ||
	     (header->length && !endpoint->own.rights.rdma_write)))
		return false;
	if (in_ring) {
		data = ring_take(endpoint, header->length);
		if (!data)
			return stop_short(endpoint);
	}
	if ((in_ring || header->kind == MESSAGE_INLINED) &&
	    !copy_receive(endpoint, receive, data, header->length))
		endpoint->part_failed = true;
	endpoint->offset = total;
	if (header->kind == MESSAGE_PART)
		return true;

	if (endpoint->part_failed) { /* deregistered since it was posted */
		endpoint->rx_stopped = endpoint->own.reliability != VIP_SERVICE_UNRELIABLE;
		complete_receive(endpoint, VIP_STATUS_PROTECTION_ERROR, 0, 0);
		return true;
	}
	if (header->kind == MESSAGE_IN_RING &&
	    endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION)
		tell_reception(endpoint);
	if (header->has_immediate)
		status |= VIP_STATUS_IMMEDIATE;
	if (header->kind == MESSAGE_WRITTEN)
		status |= VIP_STATUS_OP_REMOTE_RDMA_WRITE;
	complete_receive(endpoint, status, total, header->immediate);
	return true;
}

/* Does an RDMA operation that the peer cannot do itself. False when the peer violates the protocol, or there is no memory. */
static bool take_rdma(struct loopback_endpoint *endpoint, const struct lane_message *message,
		       const struct header *header)
{
	uint64_t address = READ_ONCE(message->target.address);
	uint32_t handle = READ_ONCE(message->target.handle);
	bool is_write = header->kind == MESSAGE_WRITE;
	uint32_t right = is_write ? RIGHT_RDMA_WRITE : RIGHT_RDMA_READ;
	const uint8_t *data = NULL;
	bool allowed;

	if (header->length > LANE_PIECE)
		return false;
	if (is_write)
		data = ring_take(endpoint, header->length);
	if (is_write ? !data : !lane_bring(endpoint->in, &endpoint->in_known, endpoint->in->answer_data, LANE_PIECE))
		return stop_short(endpoint);
	allowed = (is_write ? endpoint->own.rights.rdma_write : endpoint->own.rights.rdma_read) &&
		  region_room(endpoint->device->regions, handle, endpoint->domain->number, right,
			      address, header->length) == header->length;
	/* Without bytes the address may be anything. The kernel copies, because the program may have protected its memory. */
	if (allowed && header->length)
		allowed = is_write ? own_memory_write((void *)(uintptr_t)address, data, header->length)
				   : own_memory_read(endpoint->in->answer_data, (void *)(uintptr_t)address,
						     header->length);
	/* A requester that reads the answer finds the data there. */
	atomic_store_explicit(&endpoint->in->answer,
			      (uint64_t)(atomic_load_explicit(&endpoint->read,
							      memory_order_relaxed) +
					 1)
					      << 32 |
				      (allowed ? ANSWER_DONE : ANSWER_REFUSED),
			      memory_order_release);
	return true;
}

/*
 * Is the memory still registered that was registered when the receive was posted? A thread that deregisters it
 * waits while we hold the CQ's lock: see loopback_await_accesses().
 */
static inline bool is_still_usable(const struct loopback_endpoint *endpoint,
				   const struct loopback_receive *receive, uint32_t length)
{
	return length <= receive->alone &&
	       receive->dereg_epoch == atomic_load_explicit(&endpoint->device->dereg_epoch,
							   memory_order_acquire);
}

/*
 * The usual message: it contains its data, all for one segment. Returns false, and does nothing, if it is not that, or if
 * anything is wrong with it: then take_checked() takes it.
 */
static inline __attribute__((always_inline))
bool take_short(struct loopback_endpoint *endpoint, const struct lane_message *message)
{
	const struct loopback_receive *receive = receive_at(endpoint, endpoint->completed);
	const struct lane_message inlined = {.kind = MESSAGE_INLINED};
	uint32_t length = READ_ONCE(message->length);

	if (READ_ONCE(message->kind_and_immediate) != inlined.kind_and_immediate ||
	    endpoint->offset || length - 1 >= endpoint->short_most || /* or there are no bytes, and perhaps no segment */
	    atomic_load_explicit(&endpoint->posted, memory_order_acquire) == endpoint->completed ||
	    !is_still_usable(endpoint, receive, length))
		return false;
	copy_unseen((void *)(uintptr_t)receive->segment.address, message->data, length);
	endpoint->completed++;
	workqueue_complete(endpoint->receive_queue, 0, length, 0);
	return true;
}

/*
 * From here on there may be more messages than posted receives. Before that, posting makes sure that the memory of the next
 * message is there: bring_entry().
 */
static bool bring_messages(struct loopback_endpoint *endpoint)
{
	return lane_bring(endpoint->in, &endpoint->in_known, endpoint->in->messages, sizeof(endpoint->in->messages));
}

static __attribute__((noinline)) bool take_checked(struct loopback_endpoint *endpoint,
						    const struct lane_message *message)
{
	struct header header = {
		.kind = READ_ONCE(message->kind),
		.has_immediate = READ_ONCE(message->has_immediate),
		.length = READ_ONCE(message->length),
		.immediate = READ_ONCE(message->immediate),
	};

	if (header.kind >= MESSAGE_PART && !bring_messages(endpoint))
		return stop_short(endpoint);
	if (header.kind == MESSAGE_WRITE || header.kind == MESSAGE_READ)
		return take_rdma(endpoint, message, &header);
	if (header.kind == MESSAGE_ABORT) {
		endpoint->offset = 0;
		endpoint->part_failed = false;
		return true;
	}
	if (header.kind < MESSAGE_INLINED || header.kind > MESSAGE_PART)
		return false;
	if (atomic_load_explicit(&endpoint->posted, memory_order_acquire) == endpoint->completed)
		return false;
	return take_message(endpoint, message, &header);
}

int loopback_flush_receives(struct loopback_endpoint *endpoint)
{
	uint32_t posted = atomic_load_explicit(&endpoint->posted, memory_order_acquire);
	int count = 0;

	for (; endpoint->completed != posted; count++)
		complete_receive(endpoint, VIP_STATUS_DESC_FLUSHED_ERROR, 0, 0);
	return count;
}

/* The peer violates the protocol, unless there is no memory for what it has sent. */
static __attribute__((noinline)) void give_up(struct loopback_endpoint *endpoint)
{
	if (endpoint->rx_stopped)
		return;
	endpoint->rx_stopped = true;
	atomic_store(&endpoint->fault, FAULT_OF_PROTOCOL);
	endpoint_wake_agent(endpoint);
}

/* False when nothing is taken any more. */
static inline __attribute__((always_inline))
bool take_any(struct loopback_endpoint *endpoint, const struct lane_message *message, uint32_t read)
{
	if ((thread_is_library || !take_short(endpoint, message)) && !take_checked(endpoint, message))
		give_up(endpoint);
	if (endpoint->rx_stopped)
		return false; /* so it does not count as consumed: see PENDING_RECEPTION */
	atomic_store_explicit(&endpoint->read, read + 1, memory_order_relaxed);
	return true;
}

int loopback_consume(struct loopback_endpoint *endpoint)
{
	uint32_t before = endpoint->completed;
	uint32_t first = atomic_load_explicit(&endpoint->read, memory_order_relaxed), read = first;
	struct lane_message *message;

	/* Bounded, because a peer may go on sending without end. */
	while (read - first < LANE_MESSAGES && (message = next_message(endpoint)) && take_any(endpoint, message, read))
		read++;
	if (read != first)
		consumed(endpoint, read);
	return (int)(endpoint->completed - before);
}

bool loopback_next_receive(struct loopback_endpoint *endpoint, uint32_t *stamp)
{
	struct lane_message *message;

	if (atomic_load(&endpoint->stopped)) {
		*stamp = atomic_load_explicit(&endpoint->receiving.end, memory_order_relaxed);
		return endpoint->completed !=
		       atomic_load_explicit(&endpoint->posted, memory_order_acquire);
	}
	message = endpoint->in && !endpoint->rx_stopped ? next_message(endpoint) : NULL;
	if (message)
		*stamp = READ_ONCE(message->stamp);
	return message;
}

int loopback_take_before(struct loopback_endpoint *endpoint, uint32_t bound, uint32_t most, bool *has_more)
{
	uint32_t before = endpoint->completed;
	uint32_t first = atomic_load_explicit(&endpoint->read, memory_order_relaxed), read = first;
	struct lane_message *message;

	*has_more = false;
	if (atomic_load_explicit(&endpoint->stopped, memory_order_acquire))
		return loopback_flush_receives(endpoint);
	if (!endpoint->in || endpoint->rx_stopped)
		return 0;
	while ((message = next_message(endpoint))) {
		/* The stamp of the first one is known, and is not read again, because the peer might change it. */
		*has_more = read - first == most ||
			    (read != first &&
			     !stamp_before(order_stamp(endpoint->receive_cq,
						       READ_ONCE(message->stamp)),
					   bound));
		if (*has_more || !take_any(endpoint, message, read))
			break;
		read++;
	}
	if (read != first)
		consumed(endpoint, read);
	return (int)(endpoint->completed - before);
}
