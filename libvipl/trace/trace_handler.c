/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of handlers. */
#include "trace_handler.h"

#include "trace_words.h"
#include "vipl_names.h"

static int64_t handler_called(struct trace_line *line)
{
	trace_handler(line);
	return line->now;
}

int64_t trace_error_handler(const VIP_ERROR_DESCRIPTOR *error, VIP_PVOID context,
			    VIP_ERROR_HANDLER handler)
{
#define NAME(name, sense) [VIP_ERROR_##name] = "VIP_ERROR_" #name,
	static const char *const names[] = {VIPL_ERRORS(NAME)};
#undef NAME
	struct trace_line line;
	struct text *t = &line.text;

	trace_begin(&line, "VipErrorCallback");
	text_handle(t, "nic", error->NicHandle);
	text_handle(t, "vi", error->ViHandle);
	text_handle(t, "desc", error->DescriptorPtr);
	text_hex(t, "op", error->OpCode);
	text_word(t, "error", names[error->ErrorCode]);
	text_handle(t, "context", context);
	text_hex(t, "handler", (uintptr_t)handler);
	return handler_called(&line);
}

int64_t trace_vi_handler(bool is_receive, VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *descriptor,
			 VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	struct trace_line line;

	trace_begin(&line, is_receive ? "VipRecvNotify" : "VipSendNotify");
	trace_asks(&line, is_receive ? TRACE_RECV : TRACE_SEND, "vi", vi, context,
		   (uintptr_t)handler);
	text_descriptor(&line.text, descriptor);
	return handler_called(&line);
}

int64_t trace_cq_handler(VIP_CQ_HANDLE cq, VIP_VI_HANDLE vi, VIP_BOOLEAN is_receive,
			 VIP_PVOID context, VIP_CQ_CALLBACK handler)
{
	struct trace_line line;

	trace_begin(&line, "VipCQNotify");
	trace_asks(&line, TRACE_CQ, "cq", cq, context, (uintptr_t)handler);
	text_entry(&line.text, vi, is_receive);
	return handler_called(&line);
}
