/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flags that each call of the data path reads, and that hardly ever change. They are together, so that none takes a cache line
 * of its own, and hidden, so that one instruction reads a flag.
 */
#ifndef VIPL_HOT_FLAGS_H
#define VIPL_HOT_FLAGS_H

#include <stdatomic.h>
#include <stdbool.h>

extern __attribute__((visibility("hidden"))) struct hot_flags {
	atomic_bool has_membarrier; /* fence.h: true from fence_init() on, unless it is refused */
	atomic_bool is_traced; /* trace.h: true until it is known whether calls are traced */
} hot_flags;

#endif
