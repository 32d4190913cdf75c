/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the cost of VIPL over raw verbs, on the same RDMA device and in the same process. */
#ifndef VIP_PERF_OVERHEAD_H
#define VIP_PERF_OVERHEAD_H

#include <functional>
#include <string>
#include <vector>

#include "control.h"

struct Overhead {
	std::string nic = "nic0";
	std::vector<std::string> cases; /* empty: all */
	unsigned pairs = 15;
	/* In a block of small messages; blocks of larger messages have fewer. */
	unsigned iterations = 1000;
};

/* Called with the name of each case before it is measured. */
using OverheadProgress = std::function<void(const std::string &name)>;

/* Returns {"rc_send_8B": {"ratio": 1.01, "pairs": 15, "raw_us": 11.6, "vipl_us": 11.7}, ...} */
Json run_overhead(const Overhead &asked, const OverheadProgress &progress);
/* Returns the results as a table for people. */
std::string overhead_table(const Json &results);

#endif
