/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zeroed memory at a multiple of `alignment`. A program may have a malloc() and free() of its own and not know of
 * aligned_alloc(), whose memory is then the C library's and must not go to that free().
 */
#ifndef VIPL_ALIGNED_H
#define VIPL_ALIGNED_H

#include <stdint.h>
#include <stdlib.h>

#include "log.h"

/* `alignment`: a power of two, a pointer's at least. NULL, errno and a line of the log when there is none. */
static inline void *aligned_create(size_t alignment, size_t size)
{
	void **memory = zeroed(1, sizeof(void *) + alignment - 1 + size);
	void **aligned = (void **)(((uintptr_t)memory + sizeof(void *) + alignment - 1) & -(uintptr_t)alignment);

	if (!memory) {
		log_error_ratelimited("no memory: %s", failure(errno));
		errno = ENOMEM;
		return NULL;
	}
	aligned[-1] = memory;
	return aligned;
}

static inline void aligned_free(void *aligned)
{
	if (aligned)
		free(((void **)aligned)[-1]);
}

#endif
