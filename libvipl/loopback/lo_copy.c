/* SPDX-License-Identifier: BSD-2-Clause */
/* Copying between segments of the program's memory and plain memory. */
#include "base/own_memory.h"
#include "span.h"
#include "region.h"

static inline bool gather_segments(uint8_t *to, const struct device_send *send, struct span span, bool carefully)
{
	for (unsigned i = 0; i < send->count && span.length; i++) {
		struct segment piece = span_next(&span, send->segments[i]);

		if (piece.length && !own_memory_take(to, memory_at(piece.address), piece.length, carefully))
			return false;
		to += piece.length;
	}
	return true;
}

bool copy_gather_carefully(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length)
{
	return gather_segments(to, send, (struct span){offset, length}, true);
}

void copy_gather(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length)
{
	if (send->count == 1)
		copy_out(to, memory_at(send->segments[0].address + offset), length);
	else
		gather_segments(to, send, (struct span){offset, length}, false);
}

bool copy_scatter_carefully(const struct device_send *send, uint32_t offset, const uint8_t *from, uint32_t length)
{
	struct span span = {offset, length};

	for (unsigned i = 0; i < send->count && span.length; i++) {
		struct segment piece = span_next(&span, send->segments[i]);

		if (piece.length && !own_memory_write(memory_at(piece.address), from, piece.length))
			return false;
		from += piece.length;
	}
	return true;
}

bool copy_receive_carefully(const struct loopback_endpoint *endpoint, const struct loopback_receive *receive,
			    const uint8_t *from, uint32_t length)
{
	const struct segment *segment = receive_segments(endpoint, receive);
	struct span span = {endpoint->offset, length};

	if (!segment)
		return workqueue_scatter(endpoint->receive_queue, endpoint->offset, from, length, true);
	for (uint32_t i = 0; i < receive->count && span.length; i++, segment++) {
		struct segment piece = span_next(&span, *segment);
		uint32_t reach = (uint32_t)(piece.address - segment->address) + piece.length;

		if (piece.length &&
		    (region_room(endpoint->device->regions, segment->key, endpoint->domain->number,
				 RIGHT_LOCAL_WRITE, segment->address, reach) < reach ||
		     !own_memory_write(memory_at(piece.address), from, piece.length)))
			return false;
		from += piece.length;
	}
	return !span.length;
}
