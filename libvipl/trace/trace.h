/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VIPL_TRACE: a line in a file for each call of the API and each call of a handler. api/functions.def and api/kinds.def
 * say which arguments of each function are in its line; docs/TRACE.md says what the lines look like.
 *
 * A line is put together on the stack of its thread, and written by one write().
 */
#ifndef VIPL_TRACE_H
#define VIPL_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"

#define TRACE_ROOM 1152 /* more than any line has */

/* The queues that can be polled. Polls that find nothing are counted, until the next line about the queue. */
enum trace_queue { TRACE_NONE, TRACE_SEND, TRACE_RECV, TRACE_CQ, TRACE_PEER };

struct trace_line {
	const char *function;
	int64_t begun, now; /* nanoseconds of CLOCK_MONOTONIC */
	VIP_PVOID handle;   /* of the queue, if it is about one: for it, too, a word is written */
	enum trace_queue queue;
	bool found_empty; /* it is a poll of an empty queue */
	size_t length;
	char words[TRACE_ROOM]; /* " key=value" for each fact */
};

/* True until it is known whether calls are traced. It is hidden, so that one instruction reads it. */
extern __attribute__((visibility("hidden"))) atomic_bool trace_may_be_on;

static inline bool trace_is_on(void)
{
	return __builtin_expect(atomic_load_explicit(&trace_may_be_on, memory_order_relaxed), false);
}

void trace_begin(struct trace_line *line, const char *function);
/* Adds words. */
void trace_say(struct trace_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a key, " name=", and bytes. Spaces, backslashes and bytes that are no printable ASCII become \xHH. */
void trace_say_bytes(struct trace_line *line, const char *key, const void *bytes, size_t length);
#define TRACE_HEX(value) ((unsigned long)(uintptr_t)(value)) /* for 0x%lx */

/* Adds the words of a descriptor that is done. It is the program's again. */
void trace_done(struct trace_line *line, const VIP_DESCRIPTOR *descriptor);
/* The call begins. If it may wait, a line with the words so far is written. */
void trace_enter(struct trace_line *line, bool may_wait);
/* Writes the line of an event at line->now: '=' when a call has returned, with all words that were added until then. */
void trace_event(struct trace_line *line, char event, const char *result);
/* The same of a returned call with the name of its result, which it returns. A poll that has found nothing is only counted. */
VIP_RETURN trace_result(struct trace_line *line, VIP_RETURN rc);

/*
 * Before a handler is called: the handler of errors; the handler of an entry of a CQ, or, if `cq` is NULL, of a descriptor.
 * And after one of these, with the same line.
 */
void trace_error_handler(struct trace_line *line, const VIP_ERROR_DESCRIPTOR *error, VIP_PVOID context, uintptr_t handler);
void trace_done_handler(struct trace_line *line, VIP_CQ_HANDLE cq, VIP_VI_HANDLE vi, bool is_receive,
			const VIP_DESCRIPTOR *descriptor, VIP_PVOID context, uintptr_t handler);
void trace_handler_returned(struct trace_line *line);

/* Writes a remark, a line that begins with "# ". */
void trace_remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * trace_file.c, for trace.c. Opens the file, once in a process, or one with another name if another process writes it. Each
 * file begins with the header and its number. False, and a warning: it cannot be opened.
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
