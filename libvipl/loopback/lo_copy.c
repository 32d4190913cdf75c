/* SPDX-License-Identifier: BSD-2-Clause */
/* Copying between segments of the program's memory and plain memory. */
#include "region.h"
#include "span.h"

static __attribute__((noinline)) bool gather_carefully(uint8_t *to, const struct device_send *send, struct span span)
{
	return span_copy(span, send->segments, send->count, (struct span_copy){.plain = to, .to_plain = true, .carefully = true});
}

bool copy_gather(uint8_t *to, const struct device_send *send, uint32_t offset, uint32_t length, bool carefully)
{
	const struct span span = {offset, length};

	if (carefully)
		return gather_carefully(to, send, span);
	return span_copy(span, send->segments, send->count, (struct span_copy){.plain = to, .to_plain = true});
}

bool copy_scatter_carefully(const struct device_send *send, uint32_t offset, const uint8_t *from, uint32_t length)
{
	return span_copy((struct span){offset, length}, send->segments, send->count,
			 (struct span_copy){.plain = (uint8_t *)(uintptr_t)from, .carefully = true});
}

static bool is_usable(const void *asked, const struct segment *segment, uint32_t reach)
{
	return usable(asked, segment) >= reach;
}

bool copy_receive(const struct loopback_endpoint *endpoint, const struct loopback_receive *receive, const uint8_t *from,
		  uint32_t length)
{
	const struct segment *segments = receive_segments(endpoint, receive);
	const bool carefully = copies_carefully(endpoint);

	if (!length)
		return true;
	if (!segments)
		return workqueue_scatter(endpoint->receive_queue, endpoint->offset, from, length, carefully);
	return span_copy((struct span){endpoint->offset, length}, segments, receive->count,
			 (struct span_copy){(uint8_t *)(uintptr_t)from, false, carefully, is_usable, endpoint});
}
