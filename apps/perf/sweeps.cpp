// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf latency, bandwidth and cpu - NetPIPE's sweeps over message sizes, as Farrell and Ong used them for
 * VIA: a ping-pong over sizes that grow exponentially, with neighbours a little shorter and longer.
 *
 * latency	half of the round trip. The best of several trials counts, because disturbances only ever slow a
 *		message.
 * bandwidth	the size divided by that time, as Farrell and Ong and Park et al. give it. With --stream the time
 *		ends when the last message arrives. The best trial counts.
 * cpu		the processor time of each side's process. The kernel does some work for a process in
 *		interrupts, such as most of soft-RoCE and of TCP's receiving. That time is not in the process's
 *		time, or is charged to the process that is interrupted. So the report also has the load of the
 *		client's whole host, other programs included.
 */
#include <set>

#include "netpipe.h"
#include "run.h"

namespace
{
/*
 * The transports of a run: all transfers at all levels, and all sockets, each with all ways of waiting. A
 * bare copy always polls.
 */
struct Choice {
	std::vector<Transfer> transfers = {Transfer::send, Transfer::write, Transfer::read};
	std::vector<Level> levels = {Level::delivery};
	std::vector<Waiting> waits = {Waiting::poll, Waiting::block};
	std::vector<Kind> sockets = {Kind::tcp, Kind::unix_socket};
	bool no_sockets = false, bare = false;
};

struct Sweep {
	std::string name, about;
	std::vector<Column> columns; /* after the size */
	Json (*figures)(const Result &result);
	bool may_stream;
	Plan plan;
	Choice choice;
};

Json latency_of(const Result &result)
{
	const Samples &us = result.one_way_us;

	return {{"us", minimum(us)}, {"us_median", median(us)}, {"us_stderr", standard_error(us)}};
}

Json bandwidth_of(const Result &result)
{
	const Samples rates = result.MBps();

	return {{"MBps", maximum(rates)},
		{"MBps_median", median(rates)},
		{"MBps_stderr", standard_error(rates)}};
}

double percent_of(const Took &took)
{
	return took.processor_us / took.us * 100;
}

Json load_of(const Result &result)
{
	return {{"percent_client", percent_of(result.sum.client)},
		{"percent_server", percent_of(result.sum.server)},
		{"percent_system", result.host_percent()},
		{"us", median(result.one_way_us)},
		{"MBps", median(result.MBps())}};
}

const Sweep latency = {"latency",
		       "Time of a message one way, by size",
		       {{"us", "one way, best", "us"}, {"us_median", "median", "us"}, {"us_stderr", "std. error", "us"}},
		       latency_of,
		       false,
		       {1, 64 << 10, 2, 3, 5, 10},
		       {}};
const Sweep bandwidth = {
	"bandwidth",
	"Bytes per second, by size of messages",
	{{"MBps", "best", "MB/s"}, {"MBps_median", "median", "MB/s"}, {"MBps_stderr", "std. error", "MB/s"}},
	bandwidth_of,
	true,
	{64, 4 << 20, 2, 0, 3, 15},
	{}};
const Sweep cpu = {"cpu",
		   "Load of the processors, by size of messages",
		   {{"percent_client", "client", "% of a CPU"},
		    {"percent_server", "server", "% of a CPU"},
		    {"percent_system", "whole host", "% of a CPU"},
		    {"us", "one way", "us"},
		    {"MBps", "bandwidth", "MB/s"}},
		   load_of,
		   true,
		   {4, 1 << 20, 4, 0, 3, 200},
		   {{Transfer::send}, {Level::delivery}, {Waiting::poll, Waiting::block, Waiting::spin}, {Kind::tcp}}};

std::vector<Shape> all_shapes(const Choice &choice)
{
	std::vector<Shape> all;
	Shape shape;

	for (Transfer transfer : choice.transfers)
		for (Level level : choice.levels)
			for (Waiting waiting : choice.waits) {
				shape.transfer = transfer;
				shape.level = level;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	shape = Shape();
	if (!choice.no_sockets)
		for (Kind kind : choice.sockets)
			for (Waiting waiting : choice.waits) {
				shape.kind = kind;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	if (choice.bare) {
		shape.kind = Kind::bare;
		shape.waiting = Waiting::poll;
		all.push_back(shape);
	}
	return all;
}

/* Returns the reason why this shape cannot be measured here, or "". */
std::string obstacle(const Shape &shape, const Side &side)
{
	const VIP_NIC_ATTRIBUTES &nic = side.nic.attributes();

	if ((shape.kind == Kind::unix_socket || shape.kind == Kind::bare) && !side.control.is_one_host())
		return "the two sides are on two hosts";
	if (shape.kind != Kind::vipl)
		return "";
	if (!(nic.ReliabilityLevelSupport & level_of(shape.level)))
		return "the NIC does not offer this level";
	if (shape.transfer == Transfer::read && !(nic.RDMAReadSupport & level_of(shape.level)))
		return "the NIC has no RDMA read at this level";
	return "";
}

/* Returns the chosen shapes that are possible here. Leaves out the others, with a remark. */
std::vector<Shape> shapes_of(const Choice &choice, const Side &side, Report &report)
{
	std::vector<Shape> possible;
	std::set<std::string> names;

	for (const Shape &wanted : all_shapes(choice)) {
		const std::string name = name_of(wanted), why = obstacle(wanted, side);

		if (!names.insert(name).second)
			continue; /* the shape was given twice */
		if (why.empty())
			possible.push_back(wanted);
		else
			report.remark("left out: " + name + ": " + why);
	}
	if (possible.empty())
		throw Failure("nothing of what is to be measured can be had here");
	return possible;
}

Report measure(const Side &side, const Sweep &sweep)
{
	const Plan &plan = sweep.plan;
	std::vector<Column> columns = {{"bytes", "message size", "B"}};

	columns.insert(columns.end(), sweep.columns.begin(), sweep.columns.end());
	for (Column &column : columns)
		if (plan.is_stream && column.title == "one way")
			column.title = "each message";
	Report report(sweep.name + (plan.is_stream ? " of a stream" : ""), columns);

	measure_by_turns(side, shapes_of(sweep.choice, side, report), plan, report, [&](const Result &result) {
		Json point = {{"bytes", result.bytes}};

		point.update(sweep.figures(result));
		report.add(name_of(result.shape), std::move(point));
	});
	return report;
}

template <typename Value>
CLI::Option *add_choice(CLI::App *command, const std::string &name, std::vector<Value> &values,
			const std::vector<Value> &all, const std::string &more = "")
{
	return add_list(command, name, values, all, words_of(all) + more)->default_str(words_of(values, ","));
}

void add_choice_options(CLI::App *command, Choice &choice)
{
	add_choice(command, "--transfer", choice.transfers, {Transfer::send, Transfer::write, Transfer::read});
	add_choice(command, "--level", choice.levels, {Level::unreliable, Level::delivery, Level::reception});
	add_choice(command, "--wait", choice.waits, {Waiting::poll, Waiting::block, Waiting::spin},
		   " (polls for a while, then blocks)");
	CLI::Option *some = add_choice(command, "--sockets", choice.sockets, {Kind::tcp, Kind::unix_socket});
	command->add_flag("--no-sockets", choice.no_sockets, "no sockets")->excludes(some);
	command->add_flag("--bare", choice.bare,
			  "also what the machine does between two processes with nothing around\n"
			  "it, polling: a word in shared memory (up to 8 bytes); longer messages,\n"
			  "and those of a stream, by process_vm_writev");
}

void add_plan_options(CLI::App *command, Plan &plan)
{
	const auto add_bytes = [&](const char *name, uint64_t &bytes, const char *about) {
		command->add_option(name, bytes, about)
			->transform(CLI::AsSizeValue(false).description(""))
			->check(CLI::Range(1, 1 << 30).description(""))
			->type_name("BYTES")
			->capture_default_str();
	};

	add_bytes("--from", plan.from, "shortest message, such as 64 or 4k");
	add_bytes("--to", plan.to, "longest one");
	add_number(command, "--factor", plan.factor, 2, 1024, "each size is so many times the one before");
	add_number(command, "--perturb", plan.perturb, 0, 1 << 20, "each size so many bytes shorter and longer, too");
	add_number(command, "--trials", plan.trials, 1, 1000, "for each size, by turns");
	add_number(command, "--trial-ms", plan.trial_ms, 1, 10000, "about how long one takes, in milliseconds");
	command->parse_complete_callback([&plan] {
		if (plan.from > plan.to)
			throw CLI::ValidationError("--from is more than --to");
		if (plan.buffers > plan.depth)
			throw CLI::ValidationError("--buffers is more than --depth");
	});
}

void add_stream_options(CLI::App *command, Plan &plan)
{
	CLI::Option *stream = command->add_flag("--stream", plan.is_stream,
						"messages one way, several under way at a time");

	add_number(command, "--depth", plan.depth, 2, 512, "how many, by VIPL")->needs(stream);
	command->add_option("--buffers", plan.buffers,
			    "that they use by turns, at most --depth; 1: messages stay in the cache "
			    "(default: one for each that is under way, up to 16 MiB of them)")
		->needs(stream)
		->check(CLI::Range(1, 512));
}
} // namespace

void add_sweeps(CLI::App &app)
{
	for (const Sweep &defaults : {latency, bandwidth, cpu}) {
		auto sweep = std::make_shared<Sweep>(defaults);
		CLI::App *command = add_measurement(app, sweep->name, sweep->about,
						    [=](const Side &side) { return measure(side, *sweep); });

		add_choice_options(command, sweep->choice);
		add_plan_options(command, sweep->plan);
		if (sweep->may_stream)
			add_stream_options(command, sweep->plan);
	}
}
