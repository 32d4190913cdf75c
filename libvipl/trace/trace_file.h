/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that VIPL_TRACE names. Each line is one write() at the end of the file, so the kernel has it however the process
 * ends. A file that has reached half of VIPL_TRACE_MIB becomes FILE.old, in place of an earlier one, and a new file begins.
 * Lines that cannot be written are counted.
 */
#ifndef VIPL_TRACE_FILE_H
#define VIPL_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Opens the file, unless it is open. If another process writes it, opens one with another name. Each file begins with the
 * header and its number. False, and a warning: it cannot be opened.
 */
bool trace_file_open(const char *header);
bool trace_file_is_open(void);

/* Appends a line. errno stays as it is. */
void trace_file_write(const char *line, size_t length);

/* When the process ends: warns of lost lines that no remark counts. */
void trace_file_end(void);
/* In a child of fork(): the file is the parent's. */
void trace_file_forget(void);

#endif
