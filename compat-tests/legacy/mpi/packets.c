/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packets.c - packets and their credits. Each packet takes a receive of the peer, so each packet
 * needs a credit. New credits go with every packet, or in a packet of their own when half of them
 * are due. The last credit is kept for that packet: otherwise two ends that owe each other credits
 * could not send them. For a long message the sender asks, and the receiver replies with its buffer's address
 * and handle. The sender writes into the buffer by RDMA and then sends FINISHED. FINISHED stays behind the
 * writes, as both are in order on one send queue.
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

/* The packet has so many bytes. */
static VIP_DESCRIPTOR *describe(struct slot *slot, long bytes)
{
	VIP_DESCRIPTOR *descriptor = &slot->descriptor;

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = 1;
	descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
	descriptor->CS.Length = (VIP_UINT32)bytes;
	descriptor->DS[0].Local.Data.Address = &slot->head;
	descriptor->DS[0].Local.Handle = memory_handle;
	descriptor->DS[0].Local.Length = (VIP_UINT32)bytes;
	return descriptor;
}

static void post_receive(struct channel *channel, struct slot *slot)
{
	VIP_DESCRIPTOR *descriptor = describe(slot, (long)sizeof(struct head) + settings.eager);

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
static struct slot *free_slot(struct channel *channel)
{
	struct slot *slot = channel->free_sends;

	if (slot) {
		channel->free_sends = slot->next;
		slot->finishes = NULL;
		memset(&slot->descriptor, 0, sizeof(slot->descriptor));
		memset(&slot->head, 0, sizeof(slot->head));
	}
	return slot;
}

static void post_send(struct channel *channel, struct slot *slot)
{
	++channel->posted_sends;
	must(VipPostSend(channel->vi, &slot->descriptor, memory_handle), "VipPostSend");
}

static void send_packet(struct channel *channel, struct slot *slot, enum kind kind, long data_bytes)
{
	if (channel->credits < 1)
		mp_fail("a packet to rank %d without a credit", channel->peer);
	--channel->credits;
	slot->head.kind = kind;
	slot->head.credits = channel->owed;
	channel->owed = 0;
	slot->head.sequence = channel->sent++;
	describe(slot, (long)sizeof(struct head) + data_bytes);
	post_send(channel, slot);
}

/* Posts RDMA writes as long as there are descriptors. Returns true when nothing is left. */
static int write_by_rdma(struct channel *channel, struct mp_request *send)
{
	VIP_DESCRIPTOR *descriptor;
	struct slot *slot;
	long bytes;

	while (send->written < send->length) {
		slot = free_slot(channel);
		if (!slot)
			return 0;
		bytes = send->length - send->written;
		if (bytes > (long)longest_transfer)
			bytes = (long)longest_transfer;
		descriptor = &slot->descriptor;
		descriptor->CS.SegCount = 2;
		descriptor->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
		descriptor->CS.Length = (VIP_UINT32)bytes;
		descriptor->DS[0].Remote.Data.AddressBits = send->address + send->written;
		descriptor->DS[0].Remote.Handle = send->handle;
		descriptor->DS[1].Local.Data.Address = send->data + send->written;
		descriptor->DS[1].Local.Handle = send->registration->handle;
		descriptor->DS[1].Local.Length = (VIP_UINT32)bytes;
		send->written += bytes;
		post_send(channel, slot);
	}
	return 1;
}

/* Sends a request's packet, if there is a credit and a descriptor for it. */
static int send_for(struct channel *channel, struct mp_request *request)
{
	struct slot *slot;
	struct head *head;
	long bytes = 0;

	if (request->out == FINISHED && !write_by_rdma(channel, request))
		return 0;
	if (channel->credits < 2 || !(slot = free_slot(channel)))
		return 0;
	head = &slot->head;
	head->tag = request->tag;
	head->length = (VIP_UINT32)request->length;
	head->from = (unsigned long)request;
	head->to = request->partner;
	if (request->out == EAGER) {
		bytes = request->length;
		memcpy(slot->data, request->data, bytes);
		request->done = 1;
	} else if (request->out == REPLY) {
		head->address = (unsigned long)request->data;
		head->handle = request->registration->handle;
	} else if (request->out == FINISHED) {
		slot->finishes = request;
	}
	send_packet(channel, slot, request->out, bytes);
	return 1;
}

static void send_alone(struct channel *channel, enum kind kind)
{
	send_packet(channel, free_slot(channel), kind, 0);
}

static void say_goodbye(struct channel *channel)
{
	pthread_mutex_lock(&connecting_lock);
	channel->said_goodbye = 1;
	pthread_mutex_unlock(&connecting_lock);
	send_alone(channel, GOODBYE);
}

/* Sends all packets that can be sent now. */
static void push(struct channel *channel)
{
	struct mp_request *request, *next;

	while ((request = channel->out.first) != NULL) {
		next = request->next;
		if (!send_for(channel, request))
			break;
		channel->out.first = next;
	}
	if (channel->wants_goodbye == 1 && !channel->out.first && channel->credits >= 2 &&
	    channel->free_sends) {
		channel->wants_goodbye = 2;
		say_goodbye(channel);
	}
	if (channel->wants_goodbye < 2 && channel->owed >= settings.credits / 2 &&
	    channel->credits >= 1 && channel->free_sends)
		send_alone(channel, CREDIT);
}

void packets_queue(struct mp_request *request, enum kind kind)
{
	struct channel *channel = &channels[request->peer];

	demand_connect(channel);
	request->out = kind;
	queue_add(&channel->out, request);
	push(channel);
}

/* Has the long message written into the receive's buffer. */
void packets_fetch(struct mp_request *receive, VIP_UINT64 partner)
{
	receive->partner = partner;
	receive->registration = regcache_get(receive->data, receive->length);
	packets_queue(receive, REPLY);
}

/* Returns this process's own request, that a packet names. */
static struct mp_request *request_of(VIP_UINT64 address)
{
	return (struct mp_request *)(unsigned long)address;
}

static void write_message(const struct head *head)
{
	struct mp_request *send = request_of(head->to);

	send->partner = head->from;
	send->address = head->address;
	send->handle = head->handle;
	send->registration = regcache_get(send->data, send->length);
	packets_queue(send, FINISHED);
}

static void finish_receive(const struct head *head)
{
	struct mp_request *receive = request_of(head->to);

	regcache_put(receive->registration);
	receive->done = 1;
}

/*
 * Handles a completed send. A peer that has our goodbye may leave before the NIC knows that it
 * arrived.
 */
void packets_sent(struct channel *channel, struct slot *slot)
{
	VIP_UINT32 status = slot->descriptor.CS.Status;

	if ((status & VIP_STATUS_ERROR_MASK) && slot->head.kind != GOODBYE)
		mp_fail("a send to rank %d (kind %d, packet %u) ended with status 0x%x",
			channel->peer, slot->head.kind, slot->head.sequence, (unsigned int)status);
	--channel->posted_sends;
	slot->next = channel->free_sends;
	channel->free_sends = slot;
	if (slot->finishes) {
		regcache_put(slot->finishes->registration);
		slot->finishes->done = 1;
	}
	push(channel);
}

static void take(struct channel *channel, struct slot *slot)
{
	switch (slot->head.kind) {
	case EAGER:
		match_arrived(channel->peer, &slot->head, slot->data);
		break;
	case REQUEST:
		match_arrived(channel->peer, &slot->head, NULL);
		break;
	case REPLY:
		write_message(&slot->head);
		break;
	case FINISHED:
		finish_receive(&slot->head);
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
	push(channel);
}

/* Sends goodbye to each peer and waits for its goodbye. After that nothing is under way. */
void packets_goodbye(void)
{
	int i;

	for (i = 0; i < settings.size; ++i)
		if (i != settings.rank && channels[i].link == CONNECTED) {
			channels[i].wants_goodbye = 1;
			push(&channels[i]);
		}
	for (i = 0; i < settings.size; ++i)
		if (channels[i].wants_goodbye)
			progress_until(&channels[i].got_goodbye, "a goodbye");
	for (i = 0; i < settings.size; ++i)
		while (channels[i].posted_sends)
			mp_progress();
}
