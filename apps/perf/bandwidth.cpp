// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf bandwidth - measures megabytes per second, by message size.
 *
 * By default it measures NetPIPE's throughput, as Farrell and Ong and Park et al. give it: the size
 * divided by the one-way time of a ping-pong, in which one message is under way at a time. With
 * --stream several messages are under way in one direction, and the time ends when the last one
 * arrives. A megabyte is 10^6 bytes. The best of several trials counts.
 */
#include <memory>

#include "netpipe.h"
#include "run.h"
#include "series.h"

namespace
{
Report measure(const Side &side, const Choice &choice, const Plan &plan)
{
	Report report(plan.is_stream ? "bandwidth of a stream" : "bandwidth",
		      {{"bytes", "message size", "B"},
		       {"MBps", "best", "MB/s"},
		       {"MBps_median", "median", "MB/s"},
		       {"MBps_stderr", "std. error", "MB/s"}});

	measure_by_turns(side, shapes_of(choice, side, report), plan, report,
			 [&](const Result &result) {
				 const Samples rates = result.MBps();

				 report.add(name_of(result.shape),
					    {{"bytes", result.bytes},
					     {"MBps", maximum(rates)},
					     {"MBps_median", median(rates)},
					     {"MBps_stderr", standard_error(rates)}});
			 });
	return report;
}
} // namespace

void add_bandwidth(CLI::App &app)
{
	auto choice = std::make_shared<Choice>();
	auto plan = std::make_shared<Plan>(Plan{64, 4 << 20, 2, 0, 3, 15});
	CLI::App *command =
		add_measurement(app, "bandwidth", "Bytes per second, by size of messages",
				[=](const Side &side) { return measure(side, *choice, *plan); });

	add_choice_options(command, *choice);
	add_plan_options(command, *plan);
	add_stream_options(command, *plan);
}
