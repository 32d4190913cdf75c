/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines to standard error. A line never waits, raises no signal, takes no lock of the program's, and is dropped where
 * number 2 is not standard error.
 */
#ifndef VIPL_STANDARD_ERROR_H
#define VIPL_STANDARD_ERROR_H

#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#define LOG_STAMP_ROOM 160

/* "vipl: LEVEL: ...", a line. errno stays as it is. */
void standard_error_line(const char *level, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Called before the first line: all lines begin with a stamp. errno stays as it is. */
void standard_error_stamp(void);
/* "2026-11-28T03:14:15.926+01:00 node7 ring[4711] ". Returns its length. Takes no lock. */
size_t log_stamp(char text[LOG_STAMP_ROOM], const struct timespec *now);

/* Called early: notices a closed standard error, whose number another file may get later. */
void standard_error_look(void);

#endif
