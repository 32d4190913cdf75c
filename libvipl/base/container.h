/* SPDX-License-Identifier: BSD-2-Clause */
/* From a member to what it is a member of. */
#ifndef VIPL_CONTAINER_H
#define VIPL_CONTAINER_H

#include <stddef.h>

/* The condition makes the compiler compare the types of the two pointers. */
#define container_of(pointer, type, member) \
	((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

#endif
