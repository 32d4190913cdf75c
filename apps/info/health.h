/* SPDX-License-Identifier: BSD-2-Clause */
/* Says what a VI NIC needs and this system lacks: RDMA ports that can be used, and memory that may be locked. */
#ifndef VIP_APPS_HEALTH_H
#define VIP_APPS_HEALTH_H

#include "rdma/verbs_candidates.h"

/* Is told one problem, and what helps. What it is about: "device", of which there is none, a "port", "network" or "memory". */
typedef void tell_problem(void *context, const char *about, const char *problem, const char *remedy);

void find_problems(const struct candidates *list, tell_problem *tell, void *context);

#endif
