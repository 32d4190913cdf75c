/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a trace before and after a call of a program's handler. */
#ifndef VIPL_TRACE_HANDLER_H
#define VIPL_TRACE_HANDLER_H

#include "trace.h"

/* To be called when trace_is_on(). When it was, for trace_handler_returned(). */
int64_t trace_error_handler(const VIP_ERROR_DESCRIPTOR *error, VIP_PVOID context,
			    VIP_ERROR_HANDLER handler);
int64_t trace_vi_handler(bool is_receive, VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *descriptor,
			 VIP_PVOID context, VIP_VI_CALLBACK handler);
int64_t trace_cq_handler(VIP_CQ_HANDLE cq, VIP_VI_HANDLE vi, VIP_BOOLEAN is_receive,
			 VIP_PVOID context, VIP_CQ_CALLBACK handler);

#endif
