/* SPDX-License-Identifier: BSD-2-Clause */
// What a process says of its data path over via_lo. C++ cannot read the headers of that memory.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct description;

// Describes an end whose receive queue is on no CQ of the program. The caller closes the descriptors: the region table,
// and of an accepting end the link.
bool local_describe(struct description *own, bool accepts);

#ifdef __cplusplus
}
#endif
