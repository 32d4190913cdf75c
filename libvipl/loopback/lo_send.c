/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending end. It sees the peer's posted receives, so most sends are finished at once. The others go on in lo_pending.c.
 */
#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "lane_out.h"
#include "region.h"

/* Longer messages are copied by the kernel in one step, where it allows that. */
#define RING_MOST 0x2000u

/*
 * Whether this thread may copy directly. Page faults of a peer's memory may take any time. So threads of the library do not: they
 * may hold the NIC's lock.
 */
static bool copies_directly(const struct loopback_endpoint *endpoint)
{
	return endpoint->peer_memory && !thread_is_library;
}

/* Reads where the data of the next receive goes. Returns the number of segments; 0: it does not say, or makes no sense. */
static unsigned read_details(struct loopback_endpoint *endpoint, struct segment segments[LANE_SEGMENTS])
{
	struct lane *out = endpoint->out;
	const struct lane_detail *detail = &out->details[endpoint->taken & (LANE_RECEIVES - 1)];
	const struct lane_segment *list;
	uint32_t room, count;
	uint64_t address;

	if (!lane_next_receive(endpoint, &room) || room <= endpoint->short_receive ||
	    !lane_bring(out, &endpoint->out_known, detail, sizeof(*detail)))
		return 0;
	address = READ_ONCE(detail->address);
	count = READ_ONCE(detail->count);
	if (count == 1) {
		segments[0] = (struct segment){address, room, READ_ONCE(detail->handle)};
		return 1;
	}
	if (!count || count > LANE_SEGMENTS || address > LANE_POOL - count)
		return 0;
	list = out->pool + address;
	if (!lane_bring(out, &endpoint->out_known, list, count * sizeof(*list)))
		return 0;
	_Static_assert(sizeof(*list) == sizeof(*segments), "both have the same members");
	memcpy(segments, list, count * sizeof(*list));
	return count;
}

/* Copies the send to or from these segments of the peer's memory. 0 or errno; ERANGE: not all of it is registered for that. */
static int access_remote(struct loopback_endpoint *endpoint, const struct device_send *send, const struct segment *segments,
			 unsigned count, uint32_t right)
{
	uint32_t left = send->length;
	int error = ESHUTDOWN;

	if (!access_begin(endpoint))
		goto end;
	error = ECONNABORTED;
	if (atomic_load_explicit(&endpoint->out->closed, memory_order_relaxed))
		goto end;
	error = ERANGE;
	for (unsigned i = 0; i < count && left; i++) {
		uint32_t here = segments[i].length < left ? segments[i].length : left;

		if (region_room(endpoint->peer_regions, segments[i].key, endpoint->peer_domain,
				right, segments[i].address, here) != here)
			goto end;
		left -= here;
	}
	if (!left)
		error = peer_memory_copy(endpoint->peer_memory, send, segments, count, right != RIGHT_RDMA_READ);
end:
	access_end(endpoint);
	return error;
}

/* Writes a message into the receive's memory. 0 or errno. */
static int place_message(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	struct segment segments[LANE_SEGMENTS];
	unsigned count = read_details(endpoint, segments);

	return count ? access_remote(endpoint, send, segments, count, RIGHT_LOCAL_WRITE) : EINVAL;
}

/* The peer's receive cannot take the message. */
static void send_misfit(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	struct lane_message *message = lane_next_message(endpoint);

	if (message && endpoint->own.reliability != VIP_SERVICE_UNRELIABLE) {
		send_publish(endpoint, message, MESSAGE_TOO_LONG, send->length, send);
		send_finish_stamped(endpoint, VIP_STATUS_REMOTE_DESC_ERROR);
	} else {
		send_finish(endpoint, VIP_STATUS_REMOTE_DESC_ERROR);
	}
}

/*
 * One of the ends takes nothing any more, and nothing has been copied. So the send ends with the connection, and is no success at
 * any level.
 */
static void send_to_nobody(struct loopback_endpoint *endpoint, const struct device_send *send, int error)
{
	if (error == ECONNABORTED && endpoint->own.reliability != VIP_SERVICE_UNRELIABLE) {
		send_finish(endpoint, VIP_STATUS_TRANSPORT_ERROR);
		return;
	}
	if (error == ESRCH)
		atomic_store(&endpoint->fault, FAULT_NO_PROCESS);
	loopback_suspend(endpoint, send, PENDING_END); /* and the agent looks */
}

static __attribute__((noinline)) void send_long(struct loopback_endpoint *endpoint,
						const struct device_send *send,
						struct lane_message *message)
{
	int error = message && copies_directly(endpoint) ? place_message(endpoint, send) : EPERM;

	switch (error) {
	case 0:
		send_publish(endpoint, message, MESSAGE_PLACED, send->length, send);
		send_finish_well(endpoint);
		break;
	case ECONNABORTED:
	case ESHUTDOWN:
	case ESRCH:
		send_to_nobody(endpoint, send, error);
		break;
	case EFAULT:
	case ERANGE:
		send_misfit(endpoint, send);
		break;
	default: /* the kernel does not let us */
		loopback_suspend(endpoint, send, PENDING_SEND);
		break;
	}
}

/* Copies the data to `to`, and publishes the message. If the copy fails, the ring goes back to `ring_written`. */
static inline __attribute__((always_inline))
void send_copy(struct loopback_endpoint *endpoint, const struct device_send *send,
		      struct lane_message *message, enum message_kind kind, uint8_t *to, uint64_t ring_written)
{
	if (!copy_gather(to, send, 0, send->length, copies_carefully(endpoint))) {
		endpoint->ring_written = ring_written;
		send_finish(endpoint, VIP_STATUS_PROTECTION_ERROR);
		return;
	}
	send_publish(endpoint, message, kind, send->length, send);
	send_finish_well(endpoint);
}

static void send_data(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	bool in_memory = endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION && send->length;
	struct lane_message *message = lane_next_message(endpoint);
	uint64_t ring_written = endpoint->ring_written;
	uint8_t *ring;

	if (message && send->length <= MESSAGE_INLINE && !in_memory) {
		send_copy(endpoint, send, message, MESSAGE_INLINED, message->data, ring_written);
		return;
	}
	if (message && send->length <= RING_MOST && !in_memory) {
		ring = lane_ring_room(endpoint, send->length);
		if (ring) {
			send_copy(endpoint, send, message, MESSAGE_IN_RING, ring, ring_written);
			return;
		}
	}
	send_long(endpoint, send, message);
}

static void send_plain(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	uint32_t room;

	if (!lane_next_receive(endpoint, &room))
		send_refused(endpoint, VIP_STATUS_REMOTE_DESC_ERROR, END_NO_RECEIVE);
	else if (send->length <= room)
		send_data(endpoint, send);
	else
		send_misfit(endpoint, send);
}

static void send_rdma(struct loopback_endpoint *endpoint, const struct device_send *send,
		      bool is_write)
{
	bool announced = is_write && send->control & VIP_CONTROL_IMMEDIATE;
	enum lane_end refused = is_write ? END_WRITE_REFUSED : END_READ_REFUSED;
	const struct segment remote = {send->remote_address, send->length, send->remote_handle};
	int error = EPERM;
	uint32_t room;

	if (send->length && !(is_write ? endpoint->peer.rights.rdma_write
				       : endpoint->peer.rights.rdma_read)) {
		send_refused(endpoint, VIP_STATUS_RDMA_PROT_ERROR, refused);
		return;
	}
	if (announced && !lane_next_receive(endpoint, &room)) {
		send_refused(endpoint, VIP_STATUS_REMOTE_DESC_ERROR, END_NO_RECEIVE);
		return;
	}
	if (!is_write && !send_memory_is_there(endpoint, send, RIGHT_LOCAL_WRITE)) {
		send_finish(endpoint, VIP_STATUS_PROTECTION_ERROR);
		return;
	}
	if (announced && !lane_next_message(endpoint)) {
		loopback_suspend(endpoint, send, PENDING_WRITE);
		return;
	}
	if (!send->length)
		error = 0;
	else if (copies_directly(endpoint))
		error = access_remote(endpoint, send, &remote, 1, is_write ? RIGHT_RDMA_WRITE : RIGHT_RDMA_READ);
	switch (error) {
	case 0:
		if (!announced) {
			send_finish(endpoint, 0);
			break;
		}
		send_publish(endpoint, lane_next_message(endpoint), MESSAGE_WRITTEN, send->length, send);
		send_finish_well(endpoint);
		break;
	case ERANGE:
		send_refused(endpoint, VIP_STATUS_RDMA_PROT_ERROR, refused);
		break;
	case EFAULT: /* memory of either side */
		send_finish(endpoint, VIP_STATUS_RDMA_PROT_ERROR);
		break;
	case ECONNABORTED:
	case ESHUTDOWN:
	case ESRCH:
		send_to_nobody(endpoint, send, error);
		break;
	default: /* the kernel does not let us: the peer has to do it */
		loopback_suspend(endpoint, send, is_write ? PENDING_WRITE : PENDING_READ);
		break;
	}
}

static __attribute__((noinline)) int send_any(struct loopback_endpoint *endpoint,
					      const struct device_send *send)
{
	/* From here on the next receive may be read. */
	if (endpoint->written == endpoint->limit && !lane_look(endpoint)) {
		loopback_suspend(endpoint, send, PENDING_END);
		return 0;
	}
	switch (send->control & VIP_CONTROL_OP_MASK) {
	case VIP_CONTROL_OP_RDMAWRITE:
		send_rdma(endpoint, send, true);
		break;
	case VIP_CONTROL_OP_RDMAREAD:
		send_rdma(endpoint, send, false);
		break;
	default:
		send_plain(endpoint, send);
		break;
	}
	send_announce(endpoint);
	return 0;
}

/*
 * The usual send: one segment of a few bytes, for which there is a receive. Returns false, and does nothing, if it is not that,
 * or if there is an obstacle: then send_any() does it.
 */
static inline __attribute__((always_inline))
bool send_short(struct loopback_endpoint *endpoint, const struct device_send *send, bool shares)
{
	uint32_t length = send->length, room;
	struct lane_message *message;

	if (send->control != VIP_CONTROL_OP_SENDRECV || send->count != 1 ||
	    length > endpoint->short_most || thread_is_library ||
	    endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION ||
	    endpoint->written == endpoint->limit ||
	    !lane_next_receive(endpoint, &room) || length > room)
		return false;
	message = &endpoint->out->messages[endpoint->written & (LANE_MESSAGES - 1)];
	copy_out_short(message->data, (const uint8_t *)(uintptr_t)send->segments->address, length);
	send_publish_inline(endpoint, message, MESSAGE_INLINED, length, send, shares);
	send_finish_well(endpoint);
	return true;
}

static __attribute__((noinline)) int post_shared(struct loopback_endpoint *endpoint,
						 const struct device_send *send)
{
	return send_short(endpoint, send, true) ? send_announce_shared(endpoint)
						: send_any(endpoint, send);
}

int loopback_post_send(struct device_endpoint *base, const struct device_send *send)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;

	/* When no send is pending any more, this acquires the state that polling has changed. */
	if (atomic_load_explicit(&endpoint->is_pending, memory_order_acquire))
		return EAGAIN;
	endpoint->accepted++;
	if (atomic_load_explicit(&endpoint->failure, memory_order_relaxed))
		return 0; /* it will be flushed */
	if (endpoint->shares)
		return post_shared(endpoint, send);
	if (!send_short(endpoint, send, false))
		return send_any(endpoint, send);
	return send_announce_alone(endpoint);
}
