/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and files of a process, and memory of the kernel. Their growth shows the cost of VIs. */
#ifndef VIP_PERF_USAGE_H
#define VIP_PERF_USAGE_H

#include "control.h"

struct Usage {
	double process_KiB; /* resident memory, shared memory included */
	double fair_KiB;    /* the same, but memory that n others share counts 1 / (n + 1) */
	double files;	    /* open files */
	double kernel_KiB;  /* of the whole machine: slabs, page tables, vmalloc'ed memory */
};

MEMBERS_IN_JSON(Usage, process_KiB, fair_KiB, files, kernel_KiB)

/* Returns the usage after the process has given freed memory back to the kernel. */
Usage usage_now();
Usage usage_of_server(Control &control);

#endif
