/* Checking a descriptor and turning it into what the device takes. */
#ifndef VIPL_DESCRIPTOR_H
#define VIPL_DESCRIPTOR_H

#include "copy.h"
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

static inline const struct region_view *region_in_domain(const struct vi *vi,
							  const struct region_view *region)
{
	return region->domain == vi->tag->domain ? region : NULL;
}

/* The region of a segment of the VI's, or NULL: there is none, or it has another tag. */
static inline const struct region_view *region_of(const struct vi *vi, uint32_t handle,
						   struct region_hint *hint)
{
	const struct region_view *region = region_table_find(&vi->nic->regions, handle, hint);

	return region ? region_in_domain(vi, region) : NULL;
}

static inline bool within(const struct region_view *region, uint64_t address, uint32_t length)
{
	uint64_t offset = address - region->start; /* huge when the address is before the start */

	return offset <= region->length && length <= region->length - offset;
}

#endif
