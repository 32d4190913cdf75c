/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NetPIPE's method, for several transports in one run: messages of growing sizes, and some trials
 * for each size. In each trial every transport has its turn. A machine's speed changes within a
 * run, so the changes affect all transports.
 */
#ifndef VIP_PERF_NETPIPE_H
#define VIP_PERF_NETPIPE_H

#include "arithmetic.h"
#include "match.h"
#include "report.h"

struct Plan {
	uint64_t from, to; /* sizes */
	unsigned factor, perturb;
	unsigned trials;
	/* The approximate duration of a trial; a trial has at least one message. */
	unsigned trial_ms;
	bool is_stream = false;
	unsigned depth = Shape().depth;
	unsigned buffers = 0; /* 0: the program chooses */
};

/* The results of a size's trials for one transport. */
struct Result {
	Shape shape;
	size_t bytes;
	Samples one_way_us = {}; /* of each trial. A read goes there and back and counts as one way */
	Block sum = {};		 /* of all trials */
	/* Ticks (some milliseconds each) of all CPUs of the client's host: of those with work, and of all. */
	double busy_ticks = 0, all_ticks = 0;

	Samples MBps() const;
	/* The host's load in percent of one CPU. */
	double host_percent() const;
};

/* Measures, and calls `found` for each transport and size. Adds the plan to the report. */
void measure_by_turns(const Side &side, const std::vector<Shape> &shapes, const Plan &plan,
		      Report &report, const std::function<void(const Result &)> &found);

#endif
