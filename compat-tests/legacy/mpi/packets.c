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
		memset(&slot->descriptor, 0, sizeof(slot->descriptor));
		memset(&slot->head, 0, sizeof(slot->head));
	}
	return slot;
}

void packets_post(struct channel *channel, struct slot *slot)
{
	++channel->posted_sends;
	must(VipPostSend(channel->vi, &slot->descriptor, memory_handle), "VipPostSend");
}

static void send_packet(struct channel *channel, struct slot *slot, enum kind kind, long data_bytes)
{
	VIP_DESCRIPTOR *descriptor = &slot->descriptor;
	VIP_UINT32 bytes = (VIP_UINT32)(sizeof(struct head) + data_bytes);

	if (channel->credits < 1)
		mp_fail("a packet to rank %d without a credit", channel->peer);
	--channel->credits;
	slot->head.kind = kind;
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
	counters.credit_packets += kind == CREDIT;
	send_packet(channel, packets_slot(channel), kind, 0);
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
		rendezvous_replied(&slot->head);
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
