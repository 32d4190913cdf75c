/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to standard error. The function that first decides which error it is logs it. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "config.h"
#include "deadline.h"

#define INTERVAL_NSEC INT64_C(5000000000)

void log_message(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	char line[640];
	size_t length;
	va_list args;
	int saved = errno;

	if ((unsigned)level > config()->log_level)
		return;
	length = (size_t)snprintf(line, sizeof(line), "vipl: %s: ", names[level]);
	va_start(args, format);
	length += (size_t)vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (length >= sizeof(line))
		length = sizeof(line) - 1;
	line[length++] = '\n';
	/* One call, and so one write(): lines of several threads and processes do not mix. */
	fwrite(line, 1, length, stderr);
	errno = saved;
}

bool log_is_due(_Atomic int64_t *next)
{
	int64_t now = clock_nsec(), due = atomic_load(next);

	return now >= due && atomic_compare_exchange_strong(next, &due, now + INTERVAL_NSEC);
}

const char *memory_hint(int error)
{
	static _Thread_local char hint[128];
	struct rlimit limit;

	if (error != ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return "";
	snprintf(hint, sizeof(hint),
		 " (the limit on locked memory may be too low: %llu KiB; ulimit -l, RLIMIT_MEMLOCK)",
		 (unsigned long long)limit.rlim_cur / 1024);
	return hint;
}
