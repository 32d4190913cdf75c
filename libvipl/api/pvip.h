/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each function of the API has another name, which is not exported. PVipPostSend does what VipPostSend does, without a trace;
 * the files beside this one define it, and the P is as in MPI's profiling interface. Programs call the functions of
 * vip_entry.c.
 */
#ifndef VIPL_PVIP_H
#define VIPL_PVIP_H

#include "vipl.h"

#pragma GCC visibility push(hidden)
#define F(name, ...) __typeof__(name) P##name;
#define W	     F
#define D	     F
#include "functions.def"
__typeof__(VipGetUserData) PVipGetUserData;
__typeof__(VipSetUserData) PVipSetUserData;
#pragma GCC visibility pop

#endif
