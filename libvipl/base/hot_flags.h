/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every call of the data path looks at, or every lock of it now and then, and what hardly ever
 * changes: all of it together, so that no switch takes a cache line of its own. Hidden, so that they are
 * looked at in one step.
 */
#ifndef VIPL_SWITCHES_H
#define VIPL_SWITCHES_H

#include <stdatomic.h>
#include <stdbool.h>

extern __attribute__((visibility("hidden"))) struct hot_flags {
	bool has_membarrier;   /* fence.h: changes once at most, before fence_init() returns */
	atomic_bool is_traced; /* trace.h: until it is known whether, true */
} hot_flags;

#endif
