/* SPDX-License-Identifier: BSD-2-Clause */
/* From a handle to type-stable memory, in a few instructions: see object.h. */
#ifndef VIPL_OBJECT_AT_H
#define VIPL_OBJECT_AT_H

#include <stdatomic.h>

#include "base/lock.h"
#include "object.h"

#define OBJECT_INDEX_BITS  20
#define OBJECT_CHUNK_BITS  10
#define OBJECT_CHUNK_SLOTS (1u << OBJECT_CHUNK_BITS)
#define OBJECT_CHUNKS	   (1u << (OBJECT_INDEX_BITS - OBJECT_CHUNK_BITS))
#define OBJECT_INDEX_MASK  ((1u << OBJECT_INDEX_BITS) - 1)

typedef struct object *_Atomic object_place;
extern object_place *_Atomic object_places[OBJECT_TYPE_STABLE][OBJECT_CHUNKS];

/*
 * The place of the object that the handle names, or NULL. The kind is one whose memory is type-stable. Another object of
 * that kind may be there by now, or none.
 */
static inline void *object_at(VIP_PVOID handle, enum object_kind kind)
{
	uint32_t index = (uintptr_t)handle & OBJECT_INDEX_MASK;
	object_place *chunk = atomic_load_explicit(&object_places[kind][index >> OBJECT_CHUNK_BITS],
						   memory_order_acquire);

	if (!chunk)
		return NULL;
	return atomic_load_explicit(&chunk[index % OBJECT_CHUNK_SLOTS], memory_order_acquire);
}

/* Releases a lock that was taken at that place, because the handle names another object. */
VIP_RETURN object_unlock_bad_handle(struct lock *lock);

#endif
