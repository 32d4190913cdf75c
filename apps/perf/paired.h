/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two things compared that were measured by turns. Runs of identical code differ far more than what
 * is looked for (other CPUs, other frequency, other neighbours), those that follow each other less:
 * only what is within pairs counts.
 */
#ifndef VIP_PERF_PAIRED_H
#define VIP_PERF_PAIRED_H

#include <functional>

#include "statistics.h"

struct Pairs {
	Samples first, second;
};

struct Comparison {
	double ratio;	      /* the median of the pairs' second / first */
	double first, second; /* the median of each */
};

/*
 * One of each beforehand, which does not count; then `count` pairs. Which of the two comes first
 * changes from pair to pair, so that a drift favours neither.
 */
Pairs measure_pairs(unsigned count, const std::function<double()> &first,
		    const std::function<double()> &second);

/* Of each pair, second - first. */
Samples differences(const Pairs &pairs);

/* Of at least one pair. */
Comparison compare(const Pairs &pairs);

#endif
