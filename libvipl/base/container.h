/* SPDX-License-Identifier: BSD-2-Clause */
/* From a member to what it is a member of. */
#ifndef VIPL_CONTAINER_H
#define VIPL_CONTAINER_H

#include <stddef.h>

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
