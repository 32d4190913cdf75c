/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous.c - long messages. The sender asks, and the receiver replies with its buffer's address
 * and handle. The sender writes into the buffer by RDMA and then sends FINISHED. FINISHED stays
 * behind the writes, as both are in order on one send queue.
 */
#include "layer.h"

void rendezvous_accept(struct mp_request *receive, VIP_UINT64 partner)
{
	receive->partner = partner;
	receive->registration = regcache_get(receive->data, receive->length);
	packets_queue(receive, REPLY);
}

void rendezvous_replied(const struct head *head)
{
	struct mp_request *send = request_of(head->to);

	send->partner = head->from;
	send->address = head->address;
	send->handle = head->handle;
	send->registration = regcache_get(send->data, send->length);
	packets_queue(send, FINISHED);
}

/* Posts RDMA writes as long as there are descriptors. Returns true when nothing is left. */
int rendezvous_write(struct channel *channel, struct mp_request *send)
{
	VIP_DESCRIPTOR *descriptor;
	struct slot *slot;
	long bytes;

	while (send->written < send->length) {
		slot = packets_slot(channel);
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
		packets_post(channel, slot);
	}
	return 1;
}

void rendezvous_finished(const struct head *head)
{
	struct mp_request *receive = request_of(head->to);

	regcache_put(receive->registration);
	receive->done = 1;
}
