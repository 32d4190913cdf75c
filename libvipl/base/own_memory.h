/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies to and from the program's memory that never fault. The kernel makes them. An adapter reads and writes memory
 * that is registered, also where the program has protected it by mprotect(), and so do these functions.
 *
 * They are slower than a copy by the processor. Threads of the library use them, because these must never fault; and so do
 * copies for programs that may have protected their memory.
 */
#ifndef VIPL_OWN_MEMORY_H
#define VIPL_OWN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "copy.h"

/* Without process_vm_readv(), and without a /proc that is right, the processor copies, and may fault. */

/* False when no memory is there, or when it is a shared mapping that may not be written. */
bool own_memory_write(void *to, const void *from, size_t length);
/* False when no memory is there. */
bool own_memory_read(void *to, const void *from, size_t length);
/*
 * True if the program handles SIGSEGV and asks for the address of the fault. Programs do so that protect memory, and make it
 * accessible when it is used.
 */
bool own_memory_may_be_protected(void);

/* These two copy by the processor, unless `carefully`. */
static inline bool own_memory_put(void *to, const void *from, size_t length, bool carefully)
{
	if (carefully)
		return own_memory_write(to, from, length);
	copy_unseen(to, from, length);
	return true;
}

static inline bool own_memory_take(void *to, const void *from, size_t length, bool carefully)
{
	if (carefully)
		return own_memory_read(to, from, length);
	copy_out(to, from, length);
	return true;
}

#endif
