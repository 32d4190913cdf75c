/*
 * The sending end. Most sends are over when they are posted: the peer's posted receives can be
 * seen, so there is nothing to wait for. The others go on in pending.c.
 */
#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "loopback.h"

/* Longer messages are copied by the kernel, in one step, where it lets us. */
#define RING_MOST 0x2000u

bool send_next_receive(struct loopback_endpoint *endpoint, uint32_t *room)
{
	/* With the receive come its details. */
	uint64_t receive = atomic_load_explicit(
		&endpoint->out->receives[endpoint->taken & (LANE_RECEIVES - 1)],
		memory_order_acquire);

	*room = (uint32_t)receive;
	return receive >> 32 == (uint32_t)(endpoint->taken + 1);
}

struct lane_message *send_message(struct loopback_endpoint *endpoint)
{
	struct lane *out = endpoint->out;

	if (endpoint->written - endpoint->seen_consumed >= LANE_MESSAGES) {
		/* What the peer has consumed it does not read any more. */
		endpoint->seen_consumed =
			atomic_load_explicit(&out->consumed, memory_order_acquire);
		if (endpoint->written - endpoint->seen_consumed >= LANE_MESSAGES)
			return NULL;
	}
	return &out->messages[endpoint->written & (LANE_MESSAGES - 1)];
}

uint8_t *send_ring(struct loopback_endpoint *endpoint, uint32_t length)
{
	uint64_t place = ring_place(endpoint->ring_written, length);
	uint64_t after = ring_after(place, length);

	if (after - endpoint->seen_ring_consumed > LANE_RING) {
		endpoint->seen_ring_consumed = atomic_load_explicit(
			&endpoint->out->ring_consumed, memory_order_acquire);
		if (after - endpoint->seen_ring_consumed > LANE_RING)
			return NULL;
	}
	endpoint->ring_written = after;
	return &endpoint->out->ring[place & (LANE_RING - 1)];
}

/* The turn of the send under way in its CQ is now, whenever it is told. */
static inline void stamp_now(struct loopback_endpoint *endpoint)
{
	if (endpoint->shares && endpoint->send_cq->page)
		send_set_stamp(endpoint, cq_page_stamp(endpoint->send_cq->page));
}

/*
 * The same before the message is published: from then on it may be answered, and another thread may poll the CQ
 * before this one has said that the send is done. So that one finds the place. A pending send is gone on with
 * under the CQ's lock: nobody polls meanwhile.
 */
static inline void take_place(struct loopback_endpoint *endpoint)
{
	stamp_now(endpoint);
	if (!endpoint->send_cq->page ||
	    atomic_load_explicit(&endpoint->is_pending, memory_order_relaxed))
		return;
	atomic_store_explicit(&endpoint->stamped,
			      atomic_load_explicit(&endpoint->finished, memory_order_relaxed) + 1,
			      memory_order_release);
	order_call(endpoint->send_cq, &endpoint->sending);
}

static inline __attribute__((always_inline))
void publish(struct loopback_endpoint *endpoint, struct lane_message *message,
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
	/* After the message's own stamp, for the CQ may be the same, and before an answer can have one. */
	if (shares && kind < MESSAGE_PART)
		take_place(endpoint);
	/* With the number the peer gets all that was written before it, in the ring, too. */
	atomic_store_explicit(&message->number, ++endpoint->written, memory_order_release);
	/* Before the send is done: who sees that may send to the same CQ, and shall not overtake this. */
	if (shares && endpoint->peer_page)
		cq_page_arrived(endpoint->peer_page, endpoint->peer_queue);
	/* What the next one needs is best fetched while the peer is at this one. */
	__builtin_prefetch(&endpoint->out->messages[endpoint->written & (LANE_MESSAGES - 1)], 1);
	__builtin_prefetch((void *)&endpoint->out->receives[endpoint->taken & (LANE_RECEIVES - 1)]);
}

void send_publish(struct loopback_endpoint *endpoint, struct lane_message *message,
		  enum message_kind kind, uint32_t length, const struct device_send *send)
{
	publish(endpoint, message, kind, length, send, endpoint->shares);
}

static inline void finish_well(struct loopback_endpoint *endpoint)
{
	atomic_store_explicit(&endpoint->finished,
			      atomic_load_explicit(&endpoint->finished, memory_order_relaxed) + 1,
			      memory_order_release);
}

void send_finish_stamped(struct loopback_endpoint *endpoint, uint32_t error)
{
	if (!error || endpoint->own.reliability == VIP_SERVICE_UNRELIABLE) {
		finish_well(endpoint);
		return;
	}
	atomic_store_explicit(&endpoint->failure, error, memory_order_release);
	order_call(endpoint->send_cq, &endpoint->sending);
	/* The connection shall end although the program may not ask for completions. */
	bell_ring(endpoint->device->bell.fd, endpoint->device->bell_name);
}

void send_finish(struct loopback_endpoint *endpoint, uint32_t error)
{
	stamp_now(endpoint);
	send_finish_stamped(endpoint, error);
}

void send_refused(struct loopback_endpoint *endpoint, uint32_t error, enum lane_end end)
{
	/* It is read when the connection ends, which at the other levels is not for this. */
	if (endpoint->own.reliability != VIP_SERVICE_UNRELIABLE)
		atomic_store_explicit(&endpoint->out->end, end, memory_order_release);
	send_finish(endpoint, error);
}

static __attribute__((noinline)) int wake(struct loopback_endpoint *endpoint, uint32_t waits)
{
	struct loopback_cq *cq = endpoint->send_cq;
	int from_fd = endpoint->device->bell.fd;
	uint32_t armed;

	if (waits)
		waits = atomic_exchange(endpoint->peer_waits, 0);
	if (waits & WAIT_ON_CHANNEL)
		bell_ring(from_fd, endpoint->peer_channel_bell);
	if (waits & WAIT_IN_AGENT)
		bell_ring(from_fd, endpoint->peer_agent_bell);
	armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
	if (armed & ARMED_TO_RING && atomic_fetch_and(&cq->armed, ~(uint32_t)ARMED_TO_RING) & ARMED_TO_RING)
		bell_ring(from_fd, cq->channel->bell_name);
	/* Nobody is woken for what can be told here. A pending send goes on where the CQ is polled. */
	if (armed & ARMED_TO_LOOK &&
	    !atomic_load_explicit(&endpoint->is_pending, memory_order_relaxed))
		cq_poll_for_device(cq->cq);
	return 0;
}

/* Returns 0, for those who are finished then. */
static inline int announce(struct loopback_endpoint *endpoint)
{
	uint32_t waits;

	/* See loopback_cq_arm(). */
	atomic_thread_fence(memory_order_seq_cst);
	waits = atomic_load_explicit(&endpoint->out->receiver_waits, memory_order_relaxed);
	if (waits || atomic_load_explicit(&endpoint->send_cq->armed, memory_order_relaxed))
		return wake(endpoint, waits);
	return 0;
}

/* The same with CQs of several queues: each is told which one has something. */
static __attribute__((noinline)) int announce_shared(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *cq = endpoint->send_cq;
	uint32_t waits;

	/* Who is told in this way, or by the bit of publish(), cannot miss it. With the others it is as above. */
	order_call(cq, &endpoint->sending);
	if (!endpoint->peer_page || !cq->page)
		atomic_thread_fence(memory_order_seq_cst);
	waits = atomic_load(endpoint->peer_waits);
	if (waits || atomic_load(&cq->armed))
		return wake(endpoint, waits);
	return 0;
}

void send_announce(struct loopback_endpoint *endpoint)
{
	if (endpoint->shares)
		announce_shared(endpoint);
	else
		announce(endpoint);
}

/*
 * Says to the peer that we are in its memory from here on. What it takes back after this, it takes
 * back before we look, or it waits for us: see endpoint_quiesce().
 */
static void begin_access(struct loopback_endpoint *endpoint)
{
	atomic_fetch_add_explicit(&endpoint->out->busy, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

static void end_access(struct loopback_endpoint *endpoint)
{
	atomic_fetch_add_explicit(&endpoint->out->busy, 1, memory_order_release);
}

/* Writes a message into the receive's memory. 0 or errno. */
static int place(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	const struct lane_detail *detail =
		&endpoint->out->details[endpoint->taken & (LANE_RECEIVES - 1)];
	unsigned count = READ_ONCE(detail->count);
	struct segment segments[LANE_SEGMENTS];
	uint32_t left = send->length;
	int error = EINVAL;

	if (!count || count > LANE_SEGMENTS)
		return error;
	_Static_assert(sizeof(segments) == sizeof(detail->segments), "both have the same members");
	memcpy(segments, detail->segments, count * sizeof(segments[0]));
	begin_access(endpoint);
	error = ECONNABORTED;
	if (atomic_load_explicit(&endpoint->out->closed, memory_order_relaxed))
		goto end;
	error = EFAULT;
	for (unsigned i = 0; i < count && left; i++) {
		uint32_t here = segments[i].length < left ? segments[i].length : left;

		if (region_room(endpoint->peer_regions, segments[i].key, endpoint->peer_domain,
				RIGHT_LOCAL_WRITE, segments[i].address, here) != here)
			goto end;
		left -= here;
	}
	if (!left)
		error = copy_remote(endpoint->peer_pid, send, segments, count, true);
end:
	end_access(endpoint);
	return error;
}

/* The peer's receive cannot take the message. */
static void send_misfit(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	struct lane_message *message = send_message(endpoint);

	if (message && endpoint->own.reliability != VIP_SERVICE_UNRELIABLE) {
		send_publish(endpoint, message, MESSAGE_TOO_LONG, send->length, send);
		send_finish_stamped(endpoint, VIP_STATUS_REMOTE_DESC_ERROR);
	} else {
		send_finish(endpoint, VIP_STATUS_REMOTE_DESC_ERROR);
	}
}

static __attribute__((noinline)) void send_long(struct loopback_endpoint *endpoint,
						const struct device_send *send,
						struct lane_message *message)
{
	switch (message && endpoint->one_copy ? place(endpoint, send) : EPERM) {
	case 0:
		send_publish(endpoint, message, MESSAGE_PLACED, send->length, send);
		send_finish_stamped(endpoint, 0);
		break;
	case ECONNABORTED:
		send_finish(endpoint, VIP_STATUS_TRANSPORT_ERROR);
		break;
	case EFAULT:
		send_misfit(endpoint, send);
		break;
	default: /* the kernel does not let us */
		loopback_suspend(endpoint, send, PENDING_SEND);
		break;
	}
}

static void send_data(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	bool in_memory = endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION && send->length;
	struct lane_message *message = send_message(endpoint);
	uint8_t *ring;

	if (message && send->length <= MESSAGE_INLINE && !in_memory) {
		copy_gather(message->data, send, 0, send->length);
		send_publish(endpoint, message, MESSAGE_INLINED, send->length, send);
		send_finish_stamped(endpoint, 0);
		return;
	}
	if (message && send->length <= RING_MOST && !in_memory) {
		ring = send_ring(endpoint, send->length);
		if (ring) {
			copy_gather(ring, send, 0, send->length);
			send_publish(endpoint, message, MESSAGE_IN_RING, send->length, send);
			send_finish_stamped(endpoint, 0);
			return;
		}
	}
	send_long(endpoint, send, message);
}

static void send_plain(struct loopback_endpoint *endpoint, const struct device_send *send)
{
	uint32_t room;

	if (!send_next_receive(endpoint, &room))
		send_refused(endpoint, VIP_STATUS_REMOTE_DESC_ERROR, END_NO_RECEIVE);
	else if (send->length <= room)
		send_data(endpoint, send);
	else
		send_misfit(endpoint, send);
}

/* What the kernel lets us do of an RDMA operation. 0 or errno. */
static int access_remote(struct loopback_endpoint *endpoint, const struct device_send *send,
			 bool is_write)
{
	struct segment remote = {send->remote_address, send->length, send->remote_handle};
	int error = ECONNABORTED;

	begin_access(endpoint);
	if (!atomic_load_explicit(&endpoint->out->closed, memory_order_relaxed)) {
		error = EACCES;
		if (region_room(endpoint->peer_regions, remote.key, endpoint->peer_domain,
				is_write ? RIGHT_RDMA_WRITE : RIGHT_RDMA_READ, remote.address,
				remote.length) == remote.length)
			error = copy_remote(endpoint->peer_pid, send, &remote, 1, is_write);
	}
	end_access(endpoint);
	return error;
}

bool send_memory_is_there(const struct loopback_endpoint *endpoint, const struct device_send *send,
			  uint32_t rights)
{
	for (unsigned i = 0; i < send->count; i++) {
		const struct segment *segment = &send->segments[i];

		if (region_room(endpoint->device->regions, segment->key, endpoint->domain->number,
				rights, segment->address, segment->length) != segment->length)
			return false;
	}
	return true;
}

static void send_rdma(struct loopback_endpoint *endpoint, const struct device_send *send,
		      bool is_write)
{
	bool announced = is_write && send->control & VIP_CONTROL_IMMEDIATE;
	enum lane_end refused = is_write ? END_WRITE_REFUSED : END_READ_REFUSED;
	int error = EPERM;
	uint32_t room;

	if (send->length && !(is_write ? endpoint->peer.rights.rdma_write
				       : endpoint->peer.rights.rdma_read)) {
		send_refused(endpoint, VIP_STATUS_RDMA_PROT_ERROR, refused);
		return;
	}
	if (announced && !send_next_receive(endpoint, &room)) {
		send_refused(endpoint, VIP_STATUS_REMOTE_DESC_ERROR, END_NO_RECEIVE);
		return;
	}
	if (!is_write && !send_memory_is_there(endpoint, send, RIGHT_LOCAL_WRITE)) {
		send_finish(endpoint, VIP_STATUS_PROTECTION_ERROR);
		return;
	}
	if (announced && !send_message(endpoint)) {
		loopback_suspend(endpoint, send, PENDING_WRITE);
		return;
	}
	if (!send->length)
		error = 0;
	else if (endpoint->one_copy)
		error = access_remote(endpoint, send, is_write);
	switch (error) {
	case 0:
		if (!announced) {
			send_finish(endpoint, 0);
			break;
		}
		send_publish(endpoint, send_message(endpoint), MESSAGE_WRITTEN, send->length, send);
		send_finish_stamped(endpoint, 0);
		break;
	case EACCES:
		send_refused(endpoint, VIP_STATUS_RDMA_PROT_ERROR, refused);
		break;
	case EFAULT: /* memory of either side */
		send_finish(endpoint, VIP_STATUS_RDMA_PROT_ERROR);
		break;
	case ECONNABORTED:
		send_finish(endpoint, VIP_STATUS_TRANSPORT_ERROR);
		break;
	default: /* the kernel does not let us: the peer has to do it */
		loopback_suspend(endpoint, send, is_write ? PENDING_WRITE : PENDING_READ);
		break;
	}
}

static __attribute__((noinline)) int send_any(struct loopback_endpoint *endpoint,
					      const struct device_send *send)
{
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
	return endpoint->shares ? announce_shared(endpoint) : announce(endpoint);
}

/*
 * As most sends are: one segment of a few bytes, for which there is a receive. False, and nothing has been
 * done, when it is another one, or there is anything in the way: that is for send_any().
 */
static inline bool send_short(struct loopback_endpoint *endpoint, const struct device_send *send,
			      bool shares)
{
	uint32_t length = send->length, room;
	struct lane_message *message;

	if (send->control != VIP_CONTROL_OP_SENDRECV || send->count != 1 ||
	    length > MESSAGE_INLINE ||
	    endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION ||
	    endpoint->written - endpoint->seen_consumed >= LANE_MESSAGES ||
	    !send_next_receive(endpoint, &room) || length > room)
		return false;
	message = &endpoint->out->messages[endpoint->written & (LANE_MESSAGES - 1)];
	copy_out_short(message->data, (const uint8_t *)(uintptr_t)send->segments->address, length);
	publish(endpoint, message, MESSAGE_INLINED, length, send, shares);
	finish_well(endpoint);
	return true;
}

static __attribute__((noinline)) int post_shared(struct loopback_endpoint *endpoint,
						 const struct device_send *send)
{
	return send_short(endpoint, send, true) ? announce_shared(endpoint)
						: send_any(endpoint, send);
}

int loopback_post_send(struct device_endpoint *base, const struct device_send *send)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;

	/* Together with the pending send its state comes back to us. */
	if (atomic_load_explicit(&endpoint->is_pending, memory_order_acquire))
		return EAGAIN;
	endpoint->accepted++;
	if (atomic_load_explicit(&endpoint->failure, memory_order_relaxed))
		return 0; /* it will be flushed */
	if (endpoint->shares)
		return post_shared(endpoint, send);
	if (!send_short(endpoint, send, false))
		return send_any(endpoint, send);
	return announce(endpoint);
}
