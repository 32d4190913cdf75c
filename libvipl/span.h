/* SPDX-License-Identifier: BSD-2-Clause */
/* Some of the bytes that a list of segments describes: going along the list piece by piece, and copying. */
#ifndef VIPL_SPAN_H
#define VIPL_SPAN_H

#include "base/own_memory.h"
#include "device.h"

/* Bytes [offset, offset + length) of the segments that are still to come. */
struct span {
	uint32_t offset, length;
};

/* Returns the piece of the next segment that is in the span. Its `length` may be 0. */
static inline struct segment span_next(struct span *span, struct segment next)
{
	uint32_t skipped = span->offset < next.length ? span->offset : next.length;

	next.address += skipped;
	next.length -= skipped;
	if (next.length > span->length)
		next.length = span->length;
	span->offset -= skipped;
	span->length -= next.length;
	return next;
}

/* A copy between the span's bytes and plain memory. */
struct span_copy {
	uint8_t *plain;
	bool to_plain;	/* else into the segments */
	bool carefully; /* own_memory.h */
	/* Whether the first `reach` bytes of the segment may be used, asked for each piece. NULL: all may be. */
	bool (*allows)(const void *asked, const struct segment *segment, uint32_t reach);
	const void *asked;
};

/* False when some of the memory is not there, or may not be used, or the segments end before the span. */
static inline __attribute__((always_inline))
bool span_copy(struct span span, const struct segment *segments, unsigned count, struct span_copy copy)
{
	for (const struct segment *end = segments + count; segments != end && span.length; segments++) {
		struct segment piece = span_next(&span, *segments);
		void *memory = (void *)(uintptr_t)piece.address;
		uint32_t reach = (uint32_t)(piece.address - segments->address) + piece.length;

		if (!piece.length)
			continue;
		if (copy.allows && !copy.allows(copy.asked, segments, reach))
			return false;
		if (!(copy.to_plain ? own_memory_take(copy.plain, memory, piece.length, copy.carefully)
				    : own_memory_put(memory, copy.plain, piece.length, copy.carefully)))
			return false;
		copy.plain += piece.length;
	}
	return !span.length;
}

#endif
