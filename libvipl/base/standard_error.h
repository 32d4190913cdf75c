/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines to standard error. A line never waits, raises no signal, takes no lock of the program's, and is dropped where
 * number 2 is not standard error.
 */
#ifndef VIPL_STANDARD_ERROR_H
#define VIPL_STANDARD_ERROR_H

#include <stdarg.h>

/* "vipl: LEVEL: ...", a line. errno stays as it is. */
void standard_error_line(const char *level, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Called before the first line: all lines begin with a stamp (log_stamp.h). */
void standard_error_stamp(void);

/* Called early: notices a closed standard error, whose number another file may get later. */
void standard_error_look(void);

#endif
