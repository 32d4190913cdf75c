/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VIPL_TRACE: a line in a file for each call of the API and each call of a handler. api/traced_*.c says which
 * arguments of each function are in its line; docs/TRACE.md says what the lines look like.
 *
 * Each thread writes into a block of the file of its own, without a lock. Only a new block, of 64 KiB, takes a short one.
 */
#ifndef VIPL_TRACE_H
#define VIPL_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hot_flags.h"
#include "trace_text.h"
#include "vipl.h"

/* The objects that can be polled. A thread counts its polls that find nothing, until its next line about the object. */
enum trace_queue { TRACE_NONE, TRACE_SEND, TRACE_RECV, TRACE_CQ, TRACE_PEER };

/* The events: the third word of a line. */
#define TRACE_ENTERS   '>' /* a call that may wait has begun */
#define TRACE_RETURNS  '=' /* a call has returned */
#define TRACE_CALLS    '{' /* a handler is called */
#define TRACE_CALLED   '}' /* a handler has returned */
#define TRACE_POLLS    '~' /* polls, where no other line could tell of them */

struct trace_line {
	const char *function;
	int64_t begun, now; /* nanoseconds of CLOCK_MONOTONIC */
	VIP_PVOID handle;   /* of the queue, if it is about one */
	enum trace_queue queue;
	struct text text; /* " key=value" for each thing it tells */
};

static inline bool trace_is_on(void)
{
	return __builtin_expect(
		atomic_load_explicit(&hot_flags.is_traced, memory_order_relaxed), false);
}

void trace_begin(struct trace_line *line, const char *function);
/* The call that the line is about begins: what is noted so far is written if it may wait. */
void trace_enter(struct trace_line *line, bool may_wait);
/* The call has returned. trace_return() writes the line, with all that is noted until then. */
void trace_returned(struct trace_line *line);
void trace_return(struct trace_line *line, const char *result);
/* A handler is about to be called. */
void trace_handler(struct trace_line *line);
/* A handler has returned that was called at this time; 0: that was not traced. */
void trace_handler_returned(const char *function, int64_t begun);
/* A poll has found nothing (`empty`: for there is nothing that could be done). */
void trace_poll(const struct trace_line *line, bool empty);
/* From here on this thread writes without allocating anything. */
void trace_prepare(void);
/* Writes a remark, a line that begins with "# ". */
void trace_remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
