/* SPDX-License-Identifier: BSD-2-Clause */
/* Binds a process to a CPU. */
#ifndef VIP_PERF_CPUS_H
#define VIP_PERF_CPUS_H

/* Binds this process to the n-th of the CPUs that it may use. Does nothing if there are fewer. */
void pin(int n);

#endif
