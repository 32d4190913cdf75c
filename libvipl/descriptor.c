/*
 * Checking a descriptor and turning it into what the device takes. Only the segments say how long
 * a message is: programs leave stale or no values in CS.Length, and in all reserved fields but
 * Control's.
 */
#include "descriptor.h"

#include "nic.h"

/* On i386 programs write the Address member and leave the upper half of the 64 bits as it was. */
static inline uint64_t address_bits(const VIP_PVOID64 *address)
{
	return (uintptr_t)address->AddressBits;
}

static inline bool within(const struct region_view *region, uintptr_t address, uint32_t length)
{
	return address >= region->start && address - region->start <= region->length &&
	       length <= region->length - (address - region->start);
}

/* 0 or PROTECTION_ERROR. A receive may reach past its region: it counts when data comes. */
static inline uint32_t translate(const struct vi *vi, const VIP_DATA_SEGMENT *data,
				 bool check_bounds, struct segment *segment)
{
	struct region_view region;

	segment->address = address_bits(&data->Data);
	segment->length = data->Length;
	if (!region_table_find(&vi->nic->regions, data->Handle, &region) ||
	    region.domain != vi->tag->domain)
		return VIP_STATUS_PROTECTION_ERROR;
	if (check_bounds && !within(&region, (uintptr_t)segment->address, segment->length))
		return VIP_STATUS_PROTECTION_ERROR;
	segment->key = region.key;
	return 0;
}

uint32_t descriptor_read_send(const struct vi *vi, const VIP_DESCRIPTOR *descriptor,
			      struct segment *segments, struct device_send *send)
{
	const VIP_CONTROL_SEGMENT *control = &descriptor->CS;
	const VIP_DESCRIPTOR_SEGMENT *data = descriptor->DS;
	unsigned operation = control->Control & VIP_CONTROL_OP_MASK, first = 0;
	uint64_t length = 0;

	if (control->Control & VIP_CONTROL_RESERVED ||
	    control->SegCount > vi->nic->attributes.MaxSegmentsPerDesc ||
	    operation == VIP_CONTROL_OP_RESERVED ||
	    (operation == VIP_CONTROL_OP_RDMAREAD &&
	     !(vi->nic->attributes.RDMAReadSupport & vi->attributes.ReliabilityLevel)))
		return VIP_STATUS_FORMAT_ERROR;
	*send = (struct device_send){.segments = segments,
				     .control = control->Control,
				     .immediate = control->ImmediateData};
	if (operation != VIP_CONTROL_OP_SENDRECV) {
		if (!control->SegCount)
			return VIP_STATUS_FORMAT_ERROR;
		send->remote_address = address_bits(&data[0].Remote.Data);
		send->remote_handle = data[0].Remote.Handle;
		first = 1;
	}
	for (unsigned i = first; i < control->SegCount; i++) {
		uint32_t error;

		if (!data[i].Local.Length) /* its handle may be anything */
			continue;
		error = translate(vi, &data[i].Local, true, &segments[send->count++]);
		if (error)
			return error;
		length += data[i].Local.Length;
	}
	if (length > vi->attributes.MaxTransferSize)
		return VIP_STATUS_LENGTH_ERROR;
	send->length = (uint32_t)length;
	return 0;
}

uint32_t descriptor_read_receive(const struct vi *vi, const VIP_DESCRIPTOR *descriptor,
				 struct segment *segments, unsigned *count)
{
	const VIP_CONTROL_SEGMENT *control = &descriptor->CS;
	VIP_ULONG room = vi->nic->attributes.MaxTransferSize;

	/* IMMEDIATE and QFENCE mean nothing here; programs set them all the same. */
	if (control->Control & (VIP_CONTROL_RESERVED | VIP_CONTROL_OP_MASK) ||
	    control->SegCount > vi->nic->attributes.MaxSegmentsPerDesc)
		return VIP_STATUS_FORMAT_ERROR;
	*count = 0;
	for (unsigned i = 0; i < control->SegCount && room; i++) {
		const VIP_DATA_SEGMENT *data = &descriptor->DS[i].Local;
		struct segment *segment = &segments[*count];
		uint32_t error;

		if (!data->Length)
			continue;
		error = translate(vi, data, false, segment);
		if (error)
			return error;
		if (segment->length > room) /* no message is longer, but devices count the sum */
			segment->length = (uint32_t)room;
		room -= segment->length;
		(*count)++;
	}
	return 0;
}
