// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf cpu - measures how busy messages keep the processors, by message size.
 *
 * For a ping-pong or a stream it reports the processor time of each side's process, user and
 * kernel, in percent of one CPU, with the time one way and the bytes per second. The kernel does
 * some work for a process in interrupts, such as most of soft-RoCE and of TCP's receiving. That
 * time is not in the process's time, or is charged to the process that is interrupted. So the
 * report also has the load of the client's whole host, other programs included, in percent of one
 * CPU.
 */
#include <memory>

#include "netpipe.h"
#include "run.h"
#include "series.h"

namespace
{
Report measure(const Side &side, const Choice &choice, const Plan &plan)
{
	Report report(plan.is_stream ? "cpu of a stream" : "cpu",
		      {{"bytes", "message size", "B"},
		       {"percent_client", "client", "% of a CPU"},
		       {"percent_server", "server", "% of a CPU"},
		       {"percent_system", "whole host", "% of a CPU"},
		       {"us", plan.is_stream ? "each message" : "one way", "us"},
		       {"MBps", "bandwidth", "MB/s"}});

	measure_by_turns(
		side, shapes_of(choice, side, report), plan, report, [&](const Result &result) {
			report.add(name_of(result.shape),
				   {{"bytes", result.bytes},
				    {"percent_client",
				     result.percent(&Block::client_us, &Block::us)},
				    {"percent_server",
				     result.percent(&Block::server_us, &Block::server_took_us)},
				    {"percent_system", result.host_percent()},
				    {"us", median(result.one_way_us())},
				    {"MBps", median(result.MBps())}});
		});
	return report;
}
} // namespace

void add_cpu(CLI::App &app)
{
	auto choice = std::make_shared<Choice>();
	auto plan = std::make_shared<Plan>(Plan{4, 1 << 20, 4, 0, 3, 200});
	CLI::App *command =
		add_measurement(app, "cpu", "Load of the processors, by size of messages",
				[=](const Side &side) { return measure(side, *choice, *plan); });

	choice->transfers = {Transfer::send};
	choice->waits = {Waiting::poll, Waiting::block, Waiting::spin};
	choice->sockets = {Kind::tcp};
	add_choice_options(command, *choice);
	add_plan_options(command, *plan);
	add_stream_options(command, *plan);
}
