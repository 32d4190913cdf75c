/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compares two things that were measured by turns. Runs of identical code differ more than the
 * difference in question (other CPUs, another frequency, other neighbours). Runs that follow each
 * other differ less, so only differences within pairs count.
 */
#ifndef VIP_PERF_PAIRED_H
#define VIP_PERF_PAIRED_H

#include <functional>

#include "statistics.h"

struct Pairs {
	Samples first, second;
};

struct Comparison {
	double ratio;	      /* the median of second / first over the pairs */
	double first, second; /* the median of each */
};

/*
 * Measures each once without counting it, and then `count` pairs. The order changes from pair to
 * pair, so that a drift favours neither.
 */
Pairs measure_pairs(unsigned count, const std::function<double()> &first,
		    const std::function<double()> &second);

/* Returns second - first of each pair. */
Samples differences(const Pairs &pairs);

/* Needs at least one pair. */
Comparison compare(const Pairs &pairs);

#endif
