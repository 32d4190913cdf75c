// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf latency - measures the one-way time of a message, by size.
 *
 * The method is NetPIPE's, as Farrell and Ong used it for VIA: a ping-pong over sizes that grow
 * exponentially, with neighbours a little shorter and longer. A figure is half of the round-trip
 * time. The best of several trials counts, because disturbances only ever slow a message.
 */
#include <memory>

#include "netpipe.h"
#include "run.h"
#include "series.h"

namespace
{
Report measure(const Side &side, const Choice &choice, const Plan &plan)
{
	Report report("latency", {{"bytes", "message size", "B"},
				  {"us", "one way, best", "us"},
				  {"us_median", "median", "us"},
				  {"us_stderr", "std. error", "us"}});

	measure_by_turns(side, shapes_of(choice, side, report), plan, report,
			 [&](const Result &result) {
				 const Samples us = result.one_way_us();

				 report.add(name_of(result.shape),
					    {{"bytes", result.bytes},
					     {"us", minimum(us)},
					     {"us_median", median(us)},
					     {"us_stderr", standard_error(us)}});
			 });
	return report;
}
} // namespace

void add_latency(CLI::App &app)
{
	auto choice = std::make_shared<Choice>();
	auto plan = std::make_shared<Plan>(Plan{1, 64 << 10, 2, 3, 5, 10});
	CLI::App *command =
		add_measurement(app, "latency", "Time of a message one way, by size",
				[=](const Side &side) { return measure(side, *choice, *plan); });

	add_choice_options(command, *choice);
	add_plan_options(command, *plan);
}
