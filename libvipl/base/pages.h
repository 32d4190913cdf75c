/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zeroed memory for arrays of which usually only the beginning is used. A page takes memory when it is touched. calloc()
 * would touch all pages of memory that was used before.
 */
#ifndef VIPL_PAGES_H
#define VIPL_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

#include "cause.h"

/* NULL and errno when there is none. */
static inline void *pages_allocate(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory != MAP_FAILED)
		return memory;
	cause_of_memory("mmap()", size, errno);
	return NULL;
}

static inline void pages_free(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}

#endif
