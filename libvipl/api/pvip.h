/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each function of the API has another name, which is not exported. PVipPostSend does what VipPostSend does, without a trace;
 * the files beside this one define it. Programs call the functions of vip_entry.c, which check the arguments, except on the data
 * path: so they are right, as kinds.def says, and the NIC, VI or CQ stands in place of its handle. The caller has a reference to it.
 */
#ifndef VIPL_PVIP_H
#define VIPL_PVIP_H

#include "vipl.h"

struct nic;
struct vi;
struct cq;

#define K(kind, type, ...)	     \
	typedef type arg_##kind;     \
	typedef type passed_##kind;
#define O(kind, type, object, ...)   \
	typedef type arg_##kind;     \
	typedef struct object *passed_##kind;
#include "kinds.def"

/* EACH(m, VI, TIMEOUT) is "m(VI, a1), m(TIMEOUT, a2)". */
#define PICK(a, b, c, d, e, f, picked, ...) picked
#define EACH(m, ...)		   PICK(__VA_ARGS__, EACH6, EACH5, EACH4, EACH3, EACH2, EACH1, none)(m, __VA_ARGS__)
#define EACH1(m, a)		   m(a, a1)
#define EACH2(m, a, b)		   EACH1(m, a), m(b, a2)
#define EACH3(m, a, b, c)	   EACH2(m, a, b), m(c, a3)
#define EACH4(m, a, b, c, d)	   EACH3(m, a, b, c), m(d, a4)
#define EACH5(m, a, b, c, d, e)	   EACH4(m, a, b, c, d), m(e, a5)
#define EACH6(m, a, b, c, d, e, f) EACH5(m, a, b, c, d, e), m(f, a6)

#pragma GCC visibility push(hidden)
#define PASSED_PARAMETER(kind, name) passed_##kind name
#define F(name, ...)		     VIP_RETURN P##name(EACH(PASSED_PARAMETER, __VA_ARGS__));
#define W			     F
#define D(name, ...)		     __typeof__(name) P##name;
#include "functions.def"
__typeof__(VipGetUserData) PVipGetUserData;
__typeof__(VipSetUserData) PVipSetUserData;
/* For VipCloseNic: frees all regions and tags that the NIC has. */
void memory_free(struct nic *nic);
#pragma GCC visibility pop

#endif
