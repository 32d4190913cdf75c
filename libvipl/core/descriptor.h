/* SPDX-License-Identifier: BSD-2-Clause */
/* Checking a descriptor and turning it into what the device takes. */
#ifndef VIPL_DESCRIPTOR_H
#define VIPL_DESCRIPTOR_H

#include "base/copy.h"
#include "device.h"
#include "nic.h"
#include "vi.h"

/* Both return 0 or the error bit for the descriptor's status. `segments` has MAX_SEGMENTS. */
uint32_t descriptor_read_send(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
			      struct segment *segments, struct device_send *send);
uint32_t descriptor_read_receive(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
				 struct segment *segments, unsigned *count);

/* On i386 programs write the Address member and leave the upper half of the 64 bits as it was. */
static inline uint64_t address_bits(const VIP_PVOID64 *address)
{
	return (uintptr_t)READ_ONCE(address->AddressBits);
}

/*
 * The region of a segment of the VI's. NULL: there is none, or it has another tag. Hints are only about regions of the
 * VI's tag, so a region from a hint needs no check of its tag.
 */
static inline const struct region_view *region_of(const struct vi *vi, uint32_t handle,
						   struct region_hint *hint)
{
	const struct region_view *region = region_table_search(&vi->nic->regions, handle, hint);

	if (region && region->domain != vi->tag->domain)
		hint->version = 0;
	return region && region->domain == vi->tag->domain ? region : NULL;
}

/* Programs have their messages in a few regions. Devices number regions from bit 0 of the handle on, or from bit 8. */
static inline struct region_hint *hint_for(struct workqueue *queue, uint32_t handle)
{
	return &queue->regions[(handle ^ handle >> 8) % QUEUE_HINTS];
}

static inline bool within(const struct region_view *region, uint64_t address, uint32_t length)
{
	uint64_t offset = address - region->start; /* huge when the address is before the start */
	uint64_t end;

	return !__builtin_add_overflow(offset, length, &end) && end <= region->length;
}

/*
 * Reads the usual descriptor: one segment of data, in a region that was seen just before. False if it is not that: then
 * the functions above read it.
 */
static inline bool read_near_segment(struct workqueue *queue, const struct vi *vi,
				     const VIP_DATA_SEGMENT *local, bool is_receive,
				     struct segment *segment)
{
	uint64_t address = address_bits(&local->Data);
	uint32_t length = READ_ONCE(local->Length), handle = READ_ONCE(local->Handle);
	const struct region_hint *hint = hint_for(queue, handle);

	segment->address = address;
	segment->length = length;
	if (length - 1 >= vi->attributes.MaxTransferSize || /* or it is 0 */
	    !region_hint_fits(&vi->nic->regions, handle, hint) ||
	    (!is_receive && !within(&hint->view, address, length)))
		return false;
	segment->key = hint->view.key;
	return true;
}

/* A send, or an RDMA write, without immediate data. Fills in the members that differ between such sends. */
static inline bool descriptor_read_short_send(struct workqueue *queue, const struct vi *vi,
					      const VIP_DESCRIPTOR *descriptor)
{
	const VIP_DESCRIPTOR_SEGMENT *data = descriptor->DS;
	uint16_t control = READ_ONCE(descriptor->CS.Control);
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	struct device_send *send = &queue->sending;

	send->control = control;
	if (control == VIP_CONTROL_OP_RDMAWRITE) {
		send->remote_address = address_bits(&data->Remote.Data);
		send->remote_handle = data->Remote.Handle;
		data++;
		count--;
	} else if (control != VIP_CONTROL_OP_SENDRECV) {
		return false;
	}
	if (count != 1 || !read_near_segment(queue, vi, &data->Local, false, &queue->segment))
		return false;
	send->length = queue->segment.length;
	return true;
}

static inline bool descriptor_read_short_receive(struct workqueue *queue, const struct vi *vi,
						 const VIP_DESCRIPTOR *descriptor)
{
	return READ_ONCE(descriptor->CS.Control) == 0 && READ_ONCE(descriptor->CS.SegCount) == 1 &&
	       read_near_segment(queue, vi, &descriptor->DS[0].Local, true, &queue->segment);
}

#endif
