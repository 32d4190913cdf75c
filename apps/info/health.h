/* SPDX-License-Identifier: BSD-2-Clause */
/* Says what a VI NIC needs and this system lacks: RDMA ports that can be used, and memory that may be locked. */
#ifndef VIP_APPS_HEALTH_H
#define VIP_APPS_HEALTH_H

#include "rdma/verbs_candidates.h"

struct finding {
	char problem[600];
	const char *remedy;
};

enum { MAX_FINDINGS = 16 };

/* Returns the number of findings. */
int find_problems(struct finding findings[MAX_FINDINGS], const struct candidates *list);

#endif
