/* SPDX-License-Identifier: BSD-2-Clause */
/* What this system lacks for VI NICs, found out by looking at the system itself. */
#ifndef VIP_APPS_HEALTH_H
#define VIP_APPS_HEALTH_H

#include <stdbool.h>

struct finding {
	char problem[256];
	const char *remedy;
};

enum { MAX_FINDINGS = 16 };

/*
 * Looks around. no_nic: not a single NIC but the loopback one could be opened, so that a missing
 * driver in user space is to be suspected; else there is one, wherever it is.
 * Returns the number of findings.
 */
int find_problems(struct finding findings[MAX_FINDINGS], bool no_nic);

#endif
