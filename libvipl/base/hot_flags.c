/* SPDX-License-Identifier: BSD-2-Clause */
/* The flags as a process begins: fence_init() sets one, the first line of the trace the other. */
#include "hot_flags.h"

struct hot_flags hot_flags = {.is_traced = true};
