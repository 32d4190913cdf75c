/*
 * A pair of fences for two sides of unlike weight: one that is passed with every call, and one that
 * is passed once in a while. Each orders as a full fence does, towards the other: of two threads
 * that each write, pass their fence and read what the other wrote, at least one sees the other.
 *
 * The kernel makes the light one free: the heavy one is membarrier(), by which all running threads
 * of the process pass a fence. Without membarrier() both are what the processor has.
 */
#ifndef VIPL_FENCE_H
#define VIPL_FENCE_H

#include <stdatomic.h>

#include "switches.h"

static inline void fence_light(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(!switches.fence_is_free, 0))
		atomic_thread_fence(memory_order_seq_cst);
}

void fence_heavy(void);

/* To be called before there is anything to be ordered, and in a child of fork(). */
void fence_init(void);

#endif
