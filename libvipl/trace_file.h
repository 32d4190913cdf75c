/*
 * The file that VIPL_TRACE names, as memory that threads write to: what they have written is the
 * kernel's to keep, however the process ends.
 */
#ifndef VIPL_TRACE_FILE_H
#define VIPL_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define TRACE_BLOCK 65536 /* bytes: what a thread gets of the file at a time */

/* Opens the file, or another one if it is not ours alone. 0 or errno, with a warning. */
int trace_file_open(void);

/* The next block of the file, full of newlines; NULL and errno. Waits for no other thread. */
char *trace_file_block(void);
void trace_file_unmap(char *block);

/* In a child of fork(): the parent's file is none of ours. */
void trace_file_forget(void);

#endif
