/* SPDX-License-Identifier: BSD-2-Clause */
/* On which CPU a process runs. */
#ifndef VIP_PERF_CPUS_H
#define VIP_PERF_CPUS_H

/* On the n-th of the CPUs that this process may use; where there are too few, on any. */
void pin(int n);

#endif
