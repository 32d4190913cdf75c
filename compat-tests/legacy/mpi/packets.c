/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packets.c - packets and their credits. Each packet takes a receive of the peer, so each packet
 * needs a credit. New credits go with every packet, or in a packet of their own when half of them
 * are due. The last credit is kept for that packet: otherwise two ends that owe each other credits
 * could not send them.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define SPARE_SENDS 8 /* sends' completions may be noticed later than their credits come back */

static char *memory;
static unsigned long memory_bytes, slot_bytes, slots_used;
static VIP_MEM_HANDLE memory_handle;

/* Makes one region for all descriptors and buffers. */
void packets_open(void)
{
	unsigned long alignment = VIP_DESCRIPTOR_ALIGNMENT;
	unsigned long slots = (2UL * settings.credits + SPARE_SENDS) * (settings.size - 1);

	slot_bytes = offsetof(struct slot, data) + settings.eager;
	if (slot_bytes < sizeof(struct slot))
		slot_bytes = sizeof(struct slot);
	slot_bytes = (slot_bytes + alignment - 1) / alignment * alignment;
	memory_bytes = slots * slot_bytes + 4096;
	if (posix_memalign((void **)&memory, 4096, memory_bytes))
		mp_fail("no memory for packets");
	memset(memory, 0, memory_bytes);
	memory_handle = nic_register(memory, memory_bytes, 0);
}

void packets_close(void)
{
	must(VipDeregisterMem(nic, memory, memory_handle), "VipDeregisterMem of packets");
	free(memory);
}

static void post_receive(struct channel *channel, struct slot *slot)
{
	VIP_DESCRIPTOR *descriptor = &slot->descriptor;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = sizeof(struct head) + settings.eager;
	descriptor->DS[0].Local.Data.Address = &slot->head;
	descriptor->DS[0].Local.Handle = memory_handle;
	descriptor->DS[0].Local.Length = sizeof(struct head) + settings.eager;
	must(VipPostRecv(channel->vi, descriptor, memory_handle), "VipPostRecv");
}

static struct slot *new_slot(void)
{
	return (struct slot *)(memory + slots_used++ * slot_bytes);
}

/* Both sides post the same number of receives, so this side knows the peer's number. */
void packets_prepare(struct channel *channel)
{
	struct slot *slot;
	int i;

	for (i = 0; i < settings.credits; ++i)
		post_receive(channel, new_slot());
	for (i = 0; i < settings.credits + SPARE_SENDS; ++i) {
		slot = new_slot();
		slot->next = channel->free_sends;
		channel->free_sends = slot;
	}
	channel->credits = settings.credits;
}

/* Returns a free descriptor for a send, or NULL. */
struct slot *packets_slot(struct channel *channel)
{
	struct slot *slot = channel->free_sends;

	if (slot) {
		channel->free_sends = slot->next;
		slot->finishes = NULL;
		slot->kind = 0;
		memset(&slot->descriptor, 0, sizeof(slot->descriptor));
	}
	return slot;
}

void packets_post(struct channel *channel, struct slot *slot)
{
	++channel->posted_sends;
	must(VipPostSend(channel->vi, &slot->descriptor, memory_handle), "VipPostSend");
}

static struct head *begin(struct slot *slot, enum kind kind)
{
	slot->kind = kind;
	memset(&slot->head, 0, sizeof(slot->head));
	slot->head.kind = kind;
	return &slot->head;
}

static void send_packet(struct channel *channel, struct slot *slot, long data_bytes)
{
	VIP_DESCRIPTOR *descriptor = &slot->descriptor;
	VIP_UINT32 bytes = (VIP_UINT32)(sizeof(struct head) + data_bytes);

	if (channel->credits < 1)
		mp_fail("a packet to rank %d without a credit", channel->peer);
	--channel->credits;
	slot->head.credits = channel->owed;
	channel->owed = 0;
	slot->head.sequence = channel->sent++;
	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = bytes;
	descriptor->DS[0].Local.Data.Address = &slot->head;
	descriptor->DS[0].Local.Handle = memory_handle;
	descriptor->DS[0].Local.Length = bytes;
	++counters.packets;
	packets_post(channel, slot);
}

/* Sends a request's packet, if there is a credit and a descriptor for it. */
static int send_for(struct channel *channel, struct mp_request *request)
{
	struct slot *slot;
	struct head *head;
	long bytes = 0;

	if (request->out == FINISHED && !rendezvous_write(channel, request))
		return 0;
	if (channel->credits < 2 || !(slot = packets_slot(channel)))
		return 0;
	head = begin(slot, (enum kind)request->out);
	head->context = request->context;
	head->tag = request->tag;
	head->length = (VIP_UINT32)request->length;
	switch (request->out) {
	case EAGER:
		bytes = request->length;
		memcpy(slot->data, request->data, bytes);
		break;
	case REQUEST:
		head->sender_request = request->id;
		break;
	case REPLY:
		head->sender_request = request->partner;
		head->receiver_request = request->id;
		head->address = (unsigned long)request->data;
		head->handle = request->registration->handle;
		break;
	default:
		head->receiver_request = request->partner;
		slot->finishes = request;
	}
	send_packet(channel, slot, bytes);
	if (request->out == EAGER)
		request_done(request);
	return 1;
}

static void send_alone(struct channel *channel, enum kind kind)
{
	struct slot *slot = packets_slot(channel);

	begin(slot, kind);
	if (kind == CREDIT)
		++counters.credit_packets;
	send_packet(channel, slot, 0);
}

static void say_goodbye(struct channel *channel)
{
	pthread_mutex_lock(&connecting_lock);
	channel->said_goodbye = 1;
	pthread_mutex_unlock(&connecting_lock);
	send_alone(channel, GOODBYE);
}

/* Sends all packets that can be sent now. */
void packets_push(struct channel *channel)
{
	struct mp_request *request;

	while ((request = channel->out_first) != NULL) {
		struct mp_request *next = request->out_next;

		if (!send_for(channel, request))
			break;
		channel->out_first = next;
	}
	if (channel->wants_goodbye == 1 && !channel->out_first && channel->credits >= 2 &&
	    channel->free_sends) {
		channel->wants_goodbye = 2;
		say_goodbye(channel);
	}
	if (channel->wants_goodbye < 2 && channel->owed >= settings.credits / 2 &&
	    channel->credits >= 1 && channel->free_sends)
		send_alone(channel, CREDIT);
}

void packets_queue(struct channel *channel, struct mp_request *request, enum kind kind)
{
	channel_connect(channel);
	request->out = kind;
	request->out_next = NULL;
	if (channel->out_first)
		channel->out_last->out_next = request;
	else
		channel->out_first = request;
	channel->out_last = request;
	packets_push(channel);
}

/*
 * Handles a completed send. A peer that has our goodbye may leave before the NIC knows that it
 * arrived.
 */
void packets_sent(struct channel *channel, struct slot *slot)
{
	VIP_UINT32 status = slot->descriptor.CS.Status;

	if ((status & VIP_STATUS_ERROR_MASK) && slot->kind != GOODBYE)
		mp_fail("a send to rank %d (kind %d, packet %u) ended with status 0x%x",
			channel->peer, slot->kind, slot->head.sequence, (unsigned int)status);
	--channel->posted_sends;
	slot->next = channel->free_sends;
	channel->free_sends = slot;
	if (slot->finishes) {
		regcache_put(slot->finishes->registration);
		request_done(slot->finishes);
	}
	packets_push(channel);
}

static void take(struct channel *channel, const struct slot *slot)
{
	switch (slot->head.kind) {
	case EAGER:
		match_eager(channel->peer, &slot->head, slot->data);
		break;
	case REQUEST:
		match_request(channel->peer, &slot->head);
		break;
	case REPLY:
		rendezvous_replied(channel, &slot->head);
		break;
	case FINISHED:
		rendezvous_finished(&slot->head);
		break;
	case GOODBYE:
		channel->got_goodbye = 1;
		break;
	case CREDIT:
		break;
	default:
		mp_fail("rank %d sent a packet of kind %d", channel->peer, slot->head.kind);
	}
}

void packets_received(struct channel *channel, struct slot *slot)
{
	const VIP_CONTROL_SEGMENT *control = &slot->descriptor.CS;
	const struct head *head = &slot->head;
	unsigned long data_bytes = head->kind == EAGER ? head->length : 0;

	if (control->Status & VIP_STATUS_ERROR_MASK) {
		if (channel->got_goodbye) /* flushed when the peer left */
			return;
		mp_fail("a receive from rank %d ended with status 0x%x", channel->peer,
			(unsigned int)control->Status);
	}
	if (control->Length != sizeof(*head) + data_bytes)
		mp_fail("rank %d sent %u bytes in a packet of kind %d and length %u",
			channel->peer, (unsigned int)control->Length, head->kind,
			(unsigned int)head->length);
	if (head->sequence != channel->received)
		mp_fail("rank %d sent packet %u where %u was to come", channel->peer,
			head->sequence, channel->received);
	++channel->received;
	channel->credits += head->credits;
	if (channel->credits > settings.credits)
		mp_fail("rank %d gave %d credits of %d", channel->peer, channel->credits,
			settings.credits);
	if (channel->got_goodbye)
		mp_fail("rank %d said goodbye, and then something of kind %d", channel->peer,
			head->kind);
	take(channel, slot);
	post_receive(channel, slot);
	++channel->owed;
	packets_push(channel);
}

static int is_connected(struct channel *channel)
{
	int result = channel->usable;

	pthread_mutex_lock(&connecting_lock);
	result |= channel->link == CONNECTED;
	pthread_mutex_unlock(&connecting_lock);
	return result;
}

/* Sends goodbye to each peer and waits for its goodbye. After that nothing is under way. */
void packets_goodbye(void)
{
	int i;

	for (i = 0; i < settings.size; ++i)
		if (i != settings.rank && is_connected(&channels[i])) {
			channels[i].wants_goodbye = 1;
			packets_push(&channels[i]);
		}
	for (i = 0; i < settings.size; ++i)
		if (channels[i].wants_goodbye)
			progress_until(&channels[i].got_goodbye, "a goodbye");
	for (i = 0; i < settings.size; ++i)
		while (channels[i].posted_sends)
			mp_progress();
}
