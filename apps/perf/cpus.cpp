// SPDX-License-Identifier: BSD-2-Clause
#include "cpus.h"

#include <sched.h>

void pin(int n)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
		if (CPU_ISSET(cpu, &allowed) && n-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}
