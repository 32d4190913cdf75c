/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checking a descriptor and turning it into what the device takes. Each field that is checked is read once, because the
 * program may change the descriptor meanwhile. The segments alone say how long a message is: programs leave garbage in
 * CS.Length, and in all reserved fields except Control's.
 */
#include "descriptor.h"

#include "base/log.h"

static bool may_rdma_read(const struct vi *vi)
{
	return vi->nic->attributes.RDMAReadSupport & vi->attributes.ReliabilityLevel;
}

/* As region_of(), perhaps for the device to write there. The hints of a receive queue are only about regions where it may. */
static __attribute__((noinline))
const struct region_view *search_region(struct workqueue *queue, uint32_t handle, struct region_hint *hint, bool writes)
{
	const struct region_view *region = region_of(queue->vi, handle, hint);

	if (!region || !(writes && region->read_only))
		return region;
	hint->version = 0;
	log_error_ratelimited("nothing can come into the memory of handle %#x, which the device may only read: it is read-only, or "
			      "a shared mapping of a file (since Linux 6.5)", handle);
	return NULL;
}

/* The region of a segment of the VI's, or NULL: there is none, it has another tag, or the device shall write there and may not. */
static inline const struct region_view *find_region(struct workqueue *queue, uint32_t handle, bool writes)
{
	struct region_hint *hint = hint_for(queue, handle);

	if (region_hint_fits(&queue->vi->nic->regions, handle, hint) && !(writes && hint->view.read_only))
		return &hint->view;
	return search_region(queue, handle, hint, writes);
}

uint32_t descriptor_read_send(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
			      struct segment *segments, struct device_send *send)
{
	const VIP_DESCRIPTOR_SEGMENT *data = descriptor->DS, *end;
	uint16_t control = READ_ONCE(descriptor->CS.Control);
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	unsigned operation = control & VIP_CONTROL_OP_MASK;
	struct segment *segment = segments;
	uint64_t length = 0;

	if (control & VIP_CONTROL_RESERVED || count > MAX_SEGMENTS)
		return VIP_STATUS_FORMAT_ERROR;
	/* This comes before the loop over the segments: a value that is kept meanwhile costs each segment. */
	send->segments = segments;
	send->control = control;
	send->immediate = descriptor->CS.ImmediateData;
	end = data + count;
	if (operation != VIP_CONTROL_OP_SENDRECV) {
		if (!count || operation == VIP_CONTROL_OP_RESERVED ||
		    (operation == VIP_CONTROL_OP_RDMAREAD && !may_rdma_read(queue->vi)))
			return VIP_STATUS_FORMAT_ERROR;
		send->remote_address = address_bits(&data->Remote.Data);
		send->remote_handle = data->Remote.Handle;
		data++;
	}
	for (; data != end; data++) {
		const VIP_DATA_SEGMENT *local = &data->Local;
		uint64_t address = address_bits(&local->Data);
		uint32_t here = READ_ONCE(local->Length);
		const struct region_view *region;

		if (!here) /* its handle may be anything */
			continue;
		region = find_region(queue, READ_ONCE(local->Handle), operation == VIP_CONTROL_OP_RDMAREAD);
		if (!region || !within(region, address, here))
			return VIP_STATUS_PROTECTION_ERROR;
		*segment++ = (struct segment){address, here, region->key};
		length += here;
	}
	if (length > queue->vi->attributes.MaxTransferSize)
		return VIP_STATUS_LENGTH_ERROR;
	send->count = (unsigned)(segment - segments);
	send->length = (uint32_t)length;
	return 0;
}

/* A receive may reach past its region. That is an error only when data comes there. */
uint32_t descriptor_read_receive(struct workqueue *queue, const VIP_DESCRIPTOR *descriptor,
				 struct segment *segments, unsigned *segment_count)
{
	const VIP_DESCRIPTOR_SEGMENT *data = descriptor->DS, *end;
	uint32_t room = (uint32_t)queue->vi->attributes.MaxTransferSize;
	unsigned count = READ_ONCE(descriptor->CS.SegCount);
	struct segment *segment = segments;

	/* IMMEDIATE and QFENCE mean nothing here; programs set them all the same. */
	if (READ_ONCE(descriptor->CS.Control) & (VIP_CONTROL_RESERVED | VIP_CONTROL_OP_MASK) ||
	    count > MAX_SEGMENTS)
		return VIP_STATUS_FORMAT_ERROR;
	for (end = data + count; data != end; data++) {
		const VIP_DATA_SEGMENT *local = &data->Local;
		uint64_t address = address_bits(&local->Data);
		uint32_t here = READ_ONCE(local->Length);
		const struct region_view *region;

		if (!here)
			continue;
		region = find_region(queue, READ_ONCE(local->Handle), true);
		if (!region)
			return VIP_STATUS_PROTECTION_ERROR;
		if (here > room) /* no message is longer, but devices count the sum */
			here = room;
		if (here)
			*segment++ = (struct segment){address, here, region->key};
		room -= here;
	}
	*segment_count = (unsigned)(segment - segments);
	return 0;
}
