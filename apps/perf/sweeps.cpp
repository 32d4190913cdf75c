// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf latency, bandwidth and cpu - NetPIPE's sweeps over message sizes, as Farrell and Ong used them for
 * VIA: a ping-pong over sizes that grow exponentially, with neighbours a little shorter and longer.
 *
 * latency	the one-way time, half of the round trip. The best of several trials counts, because
 *		disturbances only ever slow a message.
 * bandwidth	the size divided by the one-way time, as Farrell and Ong and Park et al. give it, in which one
 *		message is under way at a time. With --stream several are under way in one direction, and the
 *		time ends when the last one arrives. A megabyte is 10^6 bytes. The best trial counts.
 * cpu		the processor time of each side's process, user and kernel, in percent of one CPU, with the
 *		time one way and the bytes per second. The kernel does some work for a process in interrupts,
 *		such as most of soft-RoCE and of TCP's receiving. That time is not in the process's time, or is
 *		charged to the process that is interrupted. So the report also has the load of the client's
 *		whole host, other programs included, in percent of one CPU.
 */
#include <memory>

#include "netpipe.h"
#include "run.h"
#include "series.h"

namespace
{
struct Sweep {
	std::string name, about;
	std::vector<Column> columns; /* after the size */
	Json (*figures)(const Result &result);
};

Json latency_of(const Result &result)
{
	const Samples us = result.one_way_us();

	return {{"us", minimum(us)}, {"us_median", median(us)}, {"us_stderr", standard_error(us)}};
}

Json bandwidth_of(const Result &result)
{
	const Samples rates = result.MBps();

	return {{"MBps", maximum(rates)},
		{"MBps_median", median(rates)},
		{"MBps_stderr", standard_error(rates)}};
}

Json load_of(const Result &result)
{
	return {{"percent_client", result.percent(&Block::client_us, &Block::us)},
		{"percent_server", result.percent(&Block::server_us, &Block::server_took_us)},
		{"percent_system", result.host_percent()},
		{"us", median(result.one_way_us())},
		{"MBps", median(result.MBps())}};
}

Report measure(const Side &side, const Sweep &sweep, const Choice &choice, const Plan &plan)
{
	std::vector<Column> columns = {{"bytes", "message size", "B"}};

	columns.insert(columns.end(), sweep.columns.begin(), sweep.columns.end());
	for (Column &column : columns)
		if (plan.is_stream && column.title == "one way")
			column.title = "each message";
	Report report(sweep.name + (plan.is_stream ? " of a stream" : ""), columns);

	measure_by_turns(side, shapes_of(choice, side, report), plan, report,
			 [&](const Result &result) {
				 Json point = {{"bytes", result.bytes}};

				 point.update(sweep.figures(result));
				 report.add(name_of(result.shape), std::move(point));
			 });
	return report;
}

/* The options' defaults are those of the choice and of the plan. */
CLI::App *add_sweep(CLI::App &app, const Sweep &sweep, const Choice &defaults,
		    const std::shared_ptr<Plan> &plan)
{
	auto choice = std::make_shared<Choice>(defaults);
	CLI::App *command = add_measurement(app, sweep.name, sweep.about, [=](const Side &side) {
		return measure(side, sweep, *choice, *plan);
	});

	add_choice_options(command, *choice);
	add_plan_options(command, *plan);
	return command;
}
} // namespace

void add_latency(CLI::App &app)
{
	add_sweep(app,
		  {"latency",
		   "Time of a message one way, by size",
		   {{"us", "one way, best", "us"},
		    {"us_median", "median", "us"},
		    {"us_stderr", "std. error", "us"}},
		   latency_of},
		  Choice(), std::make_shared<Plan>(Plan{1, 64 << 10, 2, 3, 5, 10}));
}

void add_bandwidth(CLI::App &app)
{
	auto plan = std::make_shared<Plan>(Plan{64, 4 << 20, 2, 0, 3, 15});
	CLI::App *command = add_sweep(app,
				      {"bandwidth",
				       "Bytes per second, by size of messages",
				       {{"MBps", "best", "MB/s"},
					{"MBps_median", "median", "MB/s"},
					{"MBps_stderr", "std. error", "MB/s"}},
				       bandwidth_of},
				      Choice(), plan);

	add_stream_options(command, *plan);
}

void add_cpu(CLI::App &app)
{
	auto plan = std::make_shared<Plan>(Plan{4, 1 << 20, 4, 0, 3, 200});
	Choice choice;

	choice.transfers = {Transfer::send};
	choice.waits = {Waiting::poll, Waiting::block, Waiting::spin};
	choice.sockets = {Kind::tcp};
	CLI::App *command = add_sweep(app,
				      {"cpu",
				       "Load of the processors, by size of messages",
				       {{"percent_client", "client", "% of a CPU"},
					{"percent_server", "server", "% of a CPU"},
					{"percent_system", "whole host", "% of a CPU"},
					{"us", "one way", "us"},
					{"MBps", "bandwidth", "MB/s"}},
				       load_of},
				      choice, plan);

	add_stream_options(command, *plan);
}
