/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each function of the API has two more names, which are not exported. PVipPostSend does what VipPostSend does, without a
 * trace; the files beside this one define it, and the P is as in MPI's profiling interface. traced_VipPostSend calls it, and
 * writes a line of the trace (vip_traced.c). Programs call the functions of vip_entry.c.
 */
#ifndef VIPL_PVIP_H
#define VIPL_PVIP_H

#include "vipl.h"

#pragma GCC visibility push(hidden)
#define F(name, ...) __typeof__(name) P##name, traced_##name;
#define W	     F
#define GET	     F
#define SET	     F
#include "functions.def"
#undef F
#undef W
#undef GET
#undef SET
#pragma GCC visibility pop

#endif
