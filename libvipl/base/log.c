/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to standard error. An error is logged where it is first classified. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>

#include "config.h"
#include "deadline.h"
#include "standard_error.h"

#define INTERVAL_NSEC INT64_C(5000000000)

void log_message(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	va_list args;

	if ((unsigned)level > config()->log_level)
		return;
	va_start(args, format);
	standard_error_line(names[level], format, args);
	va_end(args);
}

bool log_is_due(_Atomic int64_t *next)
{
	int64_t now = clock_nsec(), due = atomic_load(next);

	return now >= due && atomic_compare_exchange_strong(next, &due, now + INTERVAL_NSEC);
}
