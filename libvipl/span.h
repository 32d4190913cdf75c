/* SPDX-License-Identifier: BSD-2-Clause */
/* Some of the bytes that a list of segments describes: going along the list piece by piece. */
#ifndef VIPL_SPAN_H
#define VIPL_SPAN_H

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

#endif
