/*
 * Handles and the lifetime of what they name.
 *
 * A handle is not a pointer but an index and a generation, so that any value a program may pass
 * is checked without touching memory behind it. Whoever works on an object holds a reference
 * from object_get() to object_put(), or is on a visit; who destroys it retires the handle first (no
 * new ones), wakes those that sleep on the object, and waits for the others to let go.
 */
#ifndef VIPL_OBJECT_H
#define VIPL_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl.h"

enum object_kind { OBJECT_NIC, OBJECT_VI, OBJECT_CQ, OBJECT_TAG, OBJECT_REQUEST };

struct object {
	enum object_kind kind;
	uintptr_t handle;
};

/* Gives the object its handle. 0, or ENOMEM. */
int object_publish(struct object *object, enum object_kind kind);

/* The object with a reference, or NULL when the handle is no live object of this kind. */
void *object_get(VIP_PVOID handle, enum object_kind kind);
void object_put(struct object *object);
/*
 * The same for calls that are short and many: no other thread's cache line is written. What a
 * thread does inside of a visit may take references, and make visits of its own.
 */
void *object_enter(VIP_PVOID handle, enum object_kind kind);
void object_leave(struct object *object);
/* One more reference; false when the object is retired. */
bool object_hold(struct object *object);

/* Makes the handle invalid. False when another thread was first. */
bool object_retire(struct object *object);
bool object_retired(const struct object *object);

/*
 * Waits until nobody but the caller (who holds `own` references) has one, and frees the handle.
 * The caller has retired the object and woken everybody who sleeps on it.
 */
void object_drain(struct object *object, unsigned own);

static inline VIP_PVOID object_handle(const struct object *object)
{
	return (VIP_PVOID)object->handle;
}

#endif
