/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to standard error. An error is logged where it is first classified. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

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

const char *memory_hint(int error)
{
	static _Thread_local char hint[128];
	struct rlimit limit;

	if ((error != ENOMEM && error != EAGAIN) || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return "";
	snprintf(hint, sizeof(hint),
		 " (the limit on locked memory may be too low: %llu KiB; ulimit -l, RLIMIT_MEMLOCK)",
		 (unsigned long long)limit.rlim_cur / 1024);
	return hint;
}

const char *filter_hint(int error, const char *calls)
{
	static _Thread_local char hint[256];

	if (!is_refused(error))
		return "";
	snprintf(hint, sizeof(hint), " (a filter of system calls seems to refuse %s: it has to allow that)", calls);
	return hint;
}

const char *thread_hint(int error)
{
	static _Thread_local char hint[192];
	struct rlimit threads, memory;

	if (is_refused(error))
		return filter_hint(error, "clone3() or clone()");
	if (error != EAGAIN || getrlimit(RLIMIT_NPROC, &threads) || getrlimit(RLIMIT_MEMLOCK, &memory))
		return "";
	snprintf(hint, sizeof(hint),
		 " (no thread can be started: threads of this user, ulimit -u, are limited to %lld; locked memory, "
		 "ulimit -l, to %lld KiB; or a container limits them)",
		 threads.rlim_cur == RLIM_INFINITY ? -1 : (long long)threads.rlim_cur,
		 memory.rlim_cur == RLIM_INFINITY ? -1 : (long long)memory.rlim_cur / 1024);
	return hint;
}
