/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles and the lifetime of what they name.
 *
 * A handle is not a pointer but an index and a generation, so any value that a program passes can be checked without
 * touching the memory behind it. A thread that works on an object holds a reference from object_get() to object_put(). The
 * thread that destroys the object first retires the handle, so that there are no new references. Then it wakes the threads
 * that sleep on the object, and waits until all references are gone.
 *
 * Calls of the data path hold no reference. They find the object by object_at(), take a lock in it, and only then check the
 * handle. This is safe because the memory of VIs and CQs is type-stable: it is used again only for objects of the same
 * kind, so a lock in it is always a lock. The thread that retires such an object changes its handle under its locks.
 * Afterwards no call is inside that has seen the former handle.
 */
#ifndef VIPL_OBJECT_H
#define VIPL_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"

/* The memory of the first ones is type-stable. */
enum object_kind { OBJECT_VI, OBJECT_CQ, OBJECT_NIC, OBJECT_TAG, OBJECT_REQUEST };
#define OBJECT_TYPE_STABLE 2

struct object {
	enum object_kind kind;
	uintptr_t handle;
	struct object *next_unused; /* of type-stable memory */
};

#define OBJECT_ALIGNMENT 64 /* of type-stable memory: a cache line */

/*
 * Allocates type-stable memory for an object, or returns NULL. If it `is_new` it is all zeros. Else it is as an earlier
 * object has left it, and the members that are read without a lock must stay so.
 */
void *object_allocate(enum object_kind kind, size_t size, bool *is_new);
/* Keeps the memory for the next one. */
void object_free(struct object *object);

/* Gives the object its handle. 0, or ENOMEM. */
int object_publish(struct object *object, enum object_kind kind);

/* The object with a reference, or NULL when the handle names no live object of this kind. */
void *object_get(VIP_PVOID handle, enum object_kind kind);
void object_put(struct object *object);
/* One more reference; false when the object is retired. */
bool object_hold(struct object *object);
/* Does the handle name a live object of this kind? It may be retired at any moment. */
bool object_is_live(VIP_PVOID handle, enum object_kind kind);

/* Makes the handle invalid. False when another thread was first. */
bool object_retire(struct object *object);
bool object_retired(const struct object *object);

/*
 * Waits until only the caller has references (it holds `own` of them), and frees the handle.
 * The caller has retired the object and woken all threads that sleep on it.
 */
void object_drain(struct object *object, unsigned own);

static inline VIP_PVOID object_handle(const struct object *object)
{
	return (VIP_PVOID)object->handle;
}

#endif
