/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that programs call, made from functions.def. Each is a jump: to the one that does the work (PVipPostSend, in
 * the files beside this one), or, while calls are traced, to the one that also writes a line (traced_VipPostSend, in
 * vip_traced.c).
 */
#include "table.h"
#include "trace/trace.h"

#define JUMP(name, ...) (trace_is_on() ? traced_##name(ARGUMENTS(__VA_ARGS__)) : P##name(ARGUMENTS(__VA_ARGS__)))

#define F(name, ...)                                \
	VIP_RETURN name(PARAMETERS(__VA_ARGS__))    \
	{                                           \
		return JUMP(name, __VA_ARGS__);     \
	}
#define W F
#define GET(name, kind, data)                       \
	arg_##data name(PARAMETERS(kind))           \
	{                                           \
		return JUMP(name, kind);            \
	}
#define SET(name, ...)                              \
	void name(PARAMETERS(__VA_ARGS__))          \
	{                                           \
		JUMP(name, __VA_ARGS__);            \
	}
#include "functions.def"
