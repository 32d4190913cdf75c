/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that VIPL_TRACE names, in blocks that threads write to: what they have written is the
 * kernel's to keep, however the process ends. A file that has reached its limit keeps its beginning;
 * behind that, the oldest blocks are written anew.
 */
#ifndef VIPL_TRACE_FILE_H
#define VIPL_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_BLOCK 65536 /* bytes: what a thread gets of the file at a time */

struct trace_block {
	char *memory; /* NULL: it is none */
	uint64_t offset;
	bool is_mapped; /* the memory is the file's; else the thread's own */
	uint64_t cut;   /* bytes of the trace that were gone when it was written anew, or 0 */
};

/* Opens the file, or another one if it is not ours alone. 0 or errno, with a warning. */
int trace_file_open(void);
/* How many bytes of its beginning are never written anew. */
uint64_t trace_file_kept(void);

/*
 * Exchanges the block for the next one, full of newlines, which no other thread writes. 0, or errno: then the block
 * stays the caller's; EBUSY when more threads write than the file has blocks. Takes the file's lock.
 */
int trace_file_next(struct trace_block *block);
/* Puts the block's memory into the file. 0 or errno. */
int trace_file_write(const struct trace_block *block, const char *from, size_t length);

/* In a child of fork(): the parent's file and blocks are none of ours. */
void trace_file_drop(struct trace_block *block);
void trace_file_forget(void);

#endif
