/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NetPIPE's method, for several transports in one run: messages of growing sizes, and some trials
 * for each size. In each trial every transport has its turn. A machine's speed changes within a
 * run, so the changes affect all transports.
 */
#ifndef VIP_PERF_NETPIPE_H
#define VIP_PERF_NETPIPE_H

#include <functional>
#include <vector>

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

/*
 * The ticks (some milliseconds each) of all CPUs of the client's host: of those with work, and of
 * all.
 */
struct HostTicks {
	double busy, all;
};

struct Trial {
	Block block;
	uint64_t count;
	HostTicks host; /* ticks during the trial */
};

/* The results of a size's trials for one transport. */
struct Result {
	Shape shape;
	size_t bytes;
	bool is_stream;
	std::vector<Trial> trials;

	/*
	 * Each of the two has one number per trial. A read goes there and back and counts as one
	 * way.
	 */
	Samples one_way_us() const;
	Samples MBps() const;
	/*
	 * A side's processor time in percent of its duration, and the host's load in percent of one
	 * CPU.
	 */
	double percent(double Block::*processor_us, double Block::*took_us) const;
	double host_percent() const;
};

/* Measures, and calls `found` for each transport and size. Adds the plan to the report. */
void measure_by_turns(const Side &side, const std::vector<Shape> &shapes, const Plan &plan,
		      Report &report, const std::function<void(const Result &)> &found);

#endif
