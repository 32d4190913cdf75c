/*
 * What every call of the data path looks at and what hardly ever changes: all of it together, so
 * that no switch takes a cache line of its own there.
 */
#ifndef VIPL_SWITCHES_H
#define VIPL_SWITCHES_H

#include <stdatomic.h>
#include <stdbool.h>

extern struct switches {
	bool fence_is_free;    /* fence.h: changes once at most, before fence_init() returns */
	atomic_bool is_traced; /* trace.h: until it is known whether, true */
} switches;

#endif
