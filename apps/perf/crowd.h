/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of "vip_perf crowd" share. */
#ifndef VIP_PERF_CROWD_H
#define VIP_PERF_CROWD_H

#include "run.h"

struct CrowdOptions {
	unsigned clients = 1000;
	unsigned processes = 0; /* 0: the question's usual number */
	unsigned threads = 64;
};

void crowd_threads(const Side &side, const CrowdOptions &options, Reports &reports);

#endif
