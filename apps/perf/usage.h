/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and files of a process, and memory of the kernel, by which one can tell what VIs take. */
#ifndef VIP_PERF_USAGE_H
#define VIP_PERF_USAGE_H

#include "control.h"

struct Usage {
	double process_KiB; /* resident: its own, and what it shares */
	double fair_KiB;    /* the same, of what it shares with n others one in n + 1 */
	double files;	    /* that it has open */
	double kernel_KiB;  /* of the whole machine: slabs, page tables, vmalloc'ed memory */
};

void to_json(Json &json, const Usage &usage);
void from_json(const Json &json, Usage &usage);

/* After giving back what the process has freed. */
Usage usage_now();
Usage usage_of_server(Control &control);

#endif
