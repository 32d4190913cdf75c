/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out what a VI NIC needs and this system lacks. It looks at the system itself. */
#ifndef VIP_APPS_HEALTH_H
#define VIP_APPS_HEALTH_H

#include <stdbool.h>

struct finding {
	char problem[256];
	const char *remedy;
};

enum { MAX_FINDINGS = 16 };

/*
 * Looks for problems and returns the number of findings. no_nic: no NIC except the loopback one
 * could be opened, so a driver in user space may be missing.
 */
int find_problems(struct finding findings[MAX_FINDINGS], bool no_nic);

#endif
