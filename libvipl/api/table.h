/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For files that make functions from functions.def. PARAMETERS(VI, TIMEOUT) is "arg_VI a1, arg_TIMEOUT a2",
 * ARGUMENTS(VI, TIMEOUT) is "a1, a2", and EACH(m, VI, TIMEOUT) is "m(VI, a1), m(TIMEOUT, a2)".
 */
#ifndef VIPL_TABLE_H
#define VIPL_TABLE_H

#include "pvip.h"

#define K(kind, type, ...) typedef type arg_##kind;
#include "kinds.def"
#undef K

#define PICK(a, b, c, d, e, f, picked, ...) picked
#define EACH(m, ...)		   PICK(__VA_ARGS__, EACH6, EACH5, EACH4, EACH3, EACH2, EACH1, none)(m, __VA_ARGS__)
#define EACH1(m, a)		   m(a, a1)
#define EACH2(m, a, b)		   EACH1(m, a), m(b, a2)
#define EACH3(m, a, b, c)	   EACH2(m, a, b), m(c, a3)
#define EACH4(m, a, b, c, d)	   EACH3(m, a, b, c), m(d, a4)
#define EACH5(m, a, b, c, d, e)	   EACH4(m, a, b, c, d), m(e, a5)
#define EACH6(m, a, b, c, d, e, f) EACH5(m, a, b, c, d, e), m(f, a6)

#define PARAMETER(kind, name) arg_##kind name
#define ARGUMENT(kind, name)  name
#define PARAMETERS(...)	      EACH(PARAMETER, __VA_ARGS__)
#define ARGUMENTS(...)	      EACH(ARGUMENT, __VA_ARGS__)

#endif
