/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An asymmetric fence: a cheap side, which is passed with every call, and an expensive side, which is
 * passed rarely. Each orders as a full fence does, towards the other: of two threads
 * that each write, pass their fence and read what the other wrote, at least one sees the other.
 *
 * The expensive side is membarrier(), by which all running threads of the process pass a fence, so the
 * cheap side only keeps the compiler from changing the order (lock_is_own()). Without membarrier() there is no
 * such pair: hot_flags.has_membarrier says so. Where it is refused later, the expensive side waits instead: fence.c.
 */
#ifndef VIPL_FENCE_H
#define VIPL_FENCE_H

#include "hot_flags.h"

void asym_fence_heavy(void);

/* To be called before there is anything to be ordered, and in a child of fork(). */
void fence_init(void);

#endif
