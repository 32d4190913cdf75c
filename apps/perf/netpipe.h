/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NetPIPE's way to measure, for several transports in one run: messages of growing sizes, and for
 * each size some trials, in each of which all transports have their turn. A machine's speed changes
 * within a run, and so for all of them.
 */
#ifndef VIP_PERF_NETPIPE_H
#define VIP_PERF_NETPIPE_H

#include <functional>
#include <vector>

#include "match.h"
#include "report.h"
#include "statistics.h"

namespace CLI
{
class App;
}

struct Plan {
	uint64_t from, to; /* sizes */
	unsigned factor, perturb;
	unsigned trials;
	unsigned trial_ms; /* how long one takes, about; at least one message */
	bool is_stream = false;
	unsigned depth = Shape().depth;
	unsigned buffers = 0; /* 0: by itself */
};

/* --from and the others; the defaults are what is in the plan. */
void add_plan_options(CLI::App *command, Plan &plan);
/* --stream, and what belongs to it. */
void add_stream_options(CLI::App *command, Plan &plan);

/* Ticks of some milliseconds of all CPUs of the client's host: those with work, and all. */
struct HostTicks {
	double busy, all;
};

struct Trial {
	Block block;
	uint64_t count;
	HostTicks host; /* meanwhile */
};

/* What the trials of a size found about one transport. */
struct Result {
	Shape shape;
	size_t bytes;
	bool is_stream;
	std::vector<Trial> trials;

	/* One number of each trial. One way; of a read there and back, for that is what it is. */
	Samples one_way_us() const;
	Samples MBps() const;
	/* A side's processor time in percent of its time; and how busy the host was, of one CPU. */
	double percent(double Block::*processor_us, double Block::*took_us) const;
	double host_percent() const;
};

/* Measures, and calls `found` for each transport and size. The report gets what the plan was. */
void measure_by_turns(const Side &side, const std::vector<Shape> &shapes, const Plan &plan,
		      Report &report, const std::function<void(const Result &)> &found);

#endif
