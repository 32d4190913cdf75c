/* SPDX-License-Identifier: BSD-2-Clause */
/* Words for values of the API, and what lines of calls and lines of handlers have in common. */
#ifndef VIPL_TRACE_WORDS_H
#define VIPL_TRACE_WORDS_H

#include <stdint.h>

#include "trace.h"
#include "trace_text.h"
#include "vipl.h"

static inline void text_handle(struct text *t, const char *key, const void *value)
{
	text_hex(t, key, (uintptr_t)value);
}

void text_timeout(struct text *t, VIP_ULONG msec);
void text_host(struct text *t, const char *key, const VIP_NET_ADDRESS *address);
void text_discriminator(struct text *t, const char *key, const VIP_NET_ADDRESS *address);
/* Both; a function that finds the discriminator too long has not looked at the host. */
void text_address(struct text *t, const char *host_key, const char *key,
		  const VIP_NET_ADDRESS *address);
void text_vi_attributes(struct text *t, const VIP_VI_ATTRIBUTES *attributes);
void text_mem_attributes(struct text *t, const VIP_MEM_ATTRIBUTES *attributes);
/* Of a descriptor that is done, and is the program's again. */
void text_descriptor(struct text *t, const VIP_DESCRIPTOR *descriptor);
/* The words about a CQ. */
void text_entry(struct text *t, VIP_VI_HANDLE vi, VIP_BOOLEAN receives);

/* The queue that the line is about. */
static inline void trace_about(struct trace_line *line, enum trace_queue which, VIP_PVOID owner)
{
	line->queue = which;
	line->handle = owner;
}

/* The words about a handler: of the call that asks for it, and of the handler's own call. */
void trace_asks(struct trace_line *line, enum trace_queue which, const char *key, VIP_PVOID owner,
		VIP_PVOID context, uintptr_t handler);
/* The end of a poll that has found nothing, which is counted; VIP_NOT_DONE. */
VIP_RETURN trace_polled(const struct trace_line *line);
/* The end of a line about a call: trace_return() with the name of its result, which it returns. */
VIP_RETURN trace_result(struct trace_line *line, VIP_RETURN rc);

#endif
