/* Words that lines of calls and lines of handlers have in common. */
#ifndef VIPL_TRACE_WORDS_H
#define VIPL_TRACE_WORDS_H

#include "trace.h"
#include "trace_text.h"

static inline void handle(struct text *t, const char *key, const void *value)
{
	text_hex(t, key, (uintptr_t)value);
}

static inline void queue(struct trace_line *l, enum trace_queue which, VIP_PVOID owner)
{
	l->queue = which;
	l->handle = owner;
}

/* Of one that was done, and is the program's again. */
static inline void descriptor_done(struct text *t, const VIP_DESCRIPTOR *descriptor)
{
	handle(t, "desc", descriptor);
	text_hex(t, "status", descriptor->CS.Status);
	text_number(t, "bytes", descriptor->CS.Length);
	if (descriptor->CS.Status & VIP_STATUS_IMMEDIATE)
		text_hex(t, "imm", descriptor->CS.ImmediateData);
}

static inline void asks(struct trace_line *l, enum trace_queue which, const char *key,
			VIP_PVOID owner, VIP_PVOID context, uintptr_t handler)
{
	queue(l, which, owner);
	handle(&l->text, key, owner);
	handle(&l->text, "context", context);
	text_hex(&l->text, "handler", handler);
}

static inline void entry(struct text *t, VIP_VI_HANDLE vi, VIP_BOOLEAN receives)
{
	handle(t, "vi", vi);
	text_word(t, "queue", receives ? "recv" : "send");
}

#endif
