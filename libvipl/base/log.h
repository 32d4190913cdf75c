/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to standard error, up to the level that VIPL_LOG sets. */
#ifndef VIPL_LOG_H
#define VIPL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "cause.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_message(enum log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * For what peers or a program can cause again and again: one message from each call site in five
 * seconds.
 */
#define log_ratelimited(level, ...)                                                                \
	do {                                                                                       \
		static _Atomic int64_t log_next_;                                                  \
		if (log_is_due(&log_next_))                                                        \
			log_message(level, __VA_ARGS__);                                           \
	} while (0)
#define log_error_ratelimited(...)   log_ratelimited(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning_ratelimited(...) log_ratelimited(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_debug_ratelimited(...)   log_ratelimited(LOG_LEVEL_DEBUG, __VA_ARGS__)
bool log_is_due(_Atomic int64_t *next);

#define log_error(...)   log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_message(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
