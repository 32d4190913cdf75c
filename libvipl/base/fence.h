/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An asymmetric fence: each call passes the cheap side; the expensive side is rare. Towards each other both order as full
 * fences do: if two threads each write, pass their side, and read what the other wrote, at least one sees the other's write.
 *
 * The expensive side is membarrier(), which makes all running threads of the process pass a fence. So the cheap side only
 * keeps the compiler from reordering (lock_enter()). hot_flags.has_membarrier is false where there is no membarrier(). If
 * it is refused later, the expensive side waits instead: fence.c.
 */
#ifndef VIPL_FENCE_H
#define VIPL_FENCE_H

#include "hot_flags.h"

void asym_fence_heavy(void);

/* Called before there is anything to order, and in a child of fork(). */
void fence_init(void);

#endif
