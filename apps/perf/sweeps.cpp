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
#include <algorithm>
#include <fstream>
#include <set>
#include <unistd.h>

#include "match.h"
#include "run.h"

namespace
{
/*
 * The warm-up of each transport takes this many trials' time, or up to twice that; enough messages
 * end it, too.
 */
constexpr double warm_trials = 10;
/* The buffer space for the messages under way in one direction. It exceeds a CPU's own caches. */
constexpr size_t most_buffered = 16 << 20;

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

/* Ticks (some milliseconds each) of all CPUs of the client's host: of those with work, and of all. */
struct Ticks {
	double busy = 0, all = 0;
};

/* Returns those since boot. */
Ticks ticks()
{
	std::ifstream stat("/proc/stat");
	std::string word;
	double user = 0, nice = 0, system = 0, idle = 0;
	double iowait = 0, irq = 0, softirq = 0, steal = 0;

	stat >> word >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
	const double busy = user + nice + system + irq + softirq;

	return {busy, busy + idle + iowait + steal};
}

/* The results of a size's trials for one transport. */
struct Result {
	Shape shape;
	size_t bytes;
	Samples one_way_us = {}; /* of each trial. A read goes there and back and counts as one way */
	Block sum = {};		 /* of all trials */
	Ticks ticks = {};

	Samples MBps() const
	{
		Samples samples;

		for (double us : one_way_us)
			samples.push_back(static_cast<double>(bytes) / us);
		return samples;
	}
};

/*
 * The transports of a run: all transfers at all levels, and all sockets, each with all ways of waiting. A
 * bare copy always polls.
 */
struct Choice {
	std::vector<Transfer> transfers = {Transfer::send, Transfer::write, Transfer::read};
	std::vector<Level> levels = {Level::delivery};
	std::vector<Waiting> waits = {Waiting::poll, Waiting::block};
	std::vector<Kind> sockets = {Kind::tcp, Kind::unix_socket};
	bool no_sockets = false, bare = false, verbs = false;
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

/* Returns the host's load in percent of one CPU. */
double percent_of_host(const Ticks &ticks)
{
	return ticks.all > 0 ? ticks.busy / ticks.all * 100 * double(sysconf(_SC_NPROCESSORS_ONLN)) : 0;
}

Json load_of(const Result &result)
{
	return {{"percent_client", percent_of(result.sum.client)},
		{"percent_server", percent_of(result.sum.server)},
		{"percent_system", percent_of_host(result.ticks)},
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

	for (Transfer transfer : choice.transfers)
		for (Level level : choice.levels)
			for (Waiting waiting : choice.waits)
				all.push_back({Kind::vipl, transfer, level, waiting});
	if (!choice.no_sockets)
		for (Kind kind : choice.sockets)
			for (Waiting waiting : choice.waits)
				all.push_back({kind, Transfer::send, Level::delivery, waiting});
	if (choice.bare)
		all.push_back({Kind::bare});
	if (choice.verbs)
		all.push_back({Kind::verbs});
	return all;
}

/* Returns the reason why this shape cannot be measured here, or "". */
std::string obstacle(const Shape &shape, const Side &side)
{
	const VIP_NIC_ATTRIBUTES &nic = side.nic.attributes();

	if ((shape.kind == Kind::unix_socket || shape.kind == Kind::bare) && !side.control.is_one_host())
		return "the two sides are on two hosts";
	if (shape.kind == Kind::verbs && side.nic.is_loopback())
		return "the NIC is no RDMA device";
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

/* A transport that takes its turns. */
class Contestant
{
public:
	Contestant(const Side &side, const Shape &shape, bool is_stream)
	    : shape_(shape), is_stream_(is_stream), match_(side, shape)
	{
		run(shape.room, shape.buffers); /* uses each buffer once, because the first use of memory is slow */
	}

	/* Returns a result without trials. Finds the number of messages for a trial, which warms up the way, too. */
	Result prepare(size_t bytes, double trial_us, bool is_warm)
	{
		const size_t times = bytes_ ? bytes / bytes_ : 1; /* keeps the duration */
		const Send send = [this, bytes](uint64_t count) { return run(bytes, count).client.us; };

		if (!is_warm)
			warm_up(warm_trials * trial_us, send);
		count_ = count_for(trial_us, count_ / 4 / std::max<size_t>(times, 1), send);
		bytes_ = bytes;
		return {shape_, bytes};
	}
	void add_trial(Result &result)
	{
		const Ticks before = ticks();
		const Block block = run(bytes_, count_);
		const Ticks after = ticks();

		result.ticks.busy += after.busy - before.busy;
		result.ticks.all += after.all - before.all;
		result.one_way_us.push_back(block.client.us / static_cast<double>(count_) /
					    (is_stream_ ? 1 : ways_of_ping(shape_)));
		result.sum.client += block.client;
		result.sum.server += block.server;
	}

private:
	Block run(size_t bytes, uint64_t count)
	{
		return is_stream_ ? match_.stream(bytes, count) : match_.ping(bytes, count);
	}

	const Shape shape_;
	const bool is_stream_;
	Match match_;
	uint64_t count_ = 8; /* messages of a trial of the last size; first a guess */
	size_t bytes_ = 0; /* of the last size */
};

Shape fitted(Shape shape, const Plan &plan, size_t room)
{
	shape.room = std::max(room, sizeof(uint64_t));
	shape.depth = plan.depth;
	if (plan.is_stream)
		shape.buffers = plan.buffers ? plan.buffers
					     : static_cast<unsigned>(std::clamp(most_buffered / shape.room, size_t{1},
										size_t{plan.depth}));
	return shape;
}

/*
 * NetPIPE's method, for several transports in one run: messages of growing sizes, and some trials for each size. In
 * each trial every transport has its turn. A machine's speed changes within a run, so the changes affect all
 * transports.
 */
class Tournament
{
public:
	/* Leaves out what this NIC or this plan cannot have. Fails before anything is measured. */
	Tournament(const Side &side, const Sweep &sweep, Report &report)
	    : side_(side), plan_(sweep.plan), shapes_(shapes_of(sweep.choice, side, report)),
	      most_(side.nic.attributes().MaxTransferSize),
	      groups_(netpipe_sizes(plan_.from, std::min<size_t>(plan_.to, most_), plan_.factor, plan_.perturb))
	{
		if (groups_.empty())
			throw Failure("no size from " + std::to_string(plan_.from) + " to " + std::to_string(plan_.to) +
				      " bytes that this NIC takes");
		if (plan_.to > most_)
			report.remark("left out: messages over " + std::to_string(most_) +
				      " bytes, the longest of this NIC");
		for (const Shape &shape : shapes_)
			expect_room(fitted(shape, plan_, longest_of(groups_.back())));
	}
	/* The buffers of a stream are adjacent. Otherwise they would compete for the same cache lines. */
	void measure(const std::function<void(const Result &)> &found)
	{
		for (const SizeGroup &group : groups_) {
			if (plan_.is_stream || contestants_.empty())
				open(longest_of(plan_.is_stream ? group : groups_.back()));
			for (size_t bytes : group)
				if (bytes <= most_)
					for (const Result &result : results_of(bytes))
						found(result);
		}
	}

private:
	size_t longest_of(const SizeGroup &group) const
	{
		return std::min(group.back(), most_);
	}
	/* Makes all transports, for messages of up to `room` bytes. */
	void open(size_t room)
	{
		contestants_.clear();
		for (const Shape &shape : shapes_) {
			progress("opening " + name_of(shape));
			contestants_.push_back(
				std::make_unique<Contestant>(side_, fitted(shape, plan_, room), plan_.is_stream));
		}
	}
	std::vector<Result> results_of(size_t bytes)
	{
		std::vector<Result> results;

		for (const auto &contestant : contestants_)
			results.push_back(contestant->prepare(bytes, plan_.trial_ms * 1e3, is_warm_));
		is_warm_ = true; /* remains so when the transports are made anew */
		for (unsigned trial = 1; trial <= plan_.trials; ++trial) {
			progress(std::to_string(bytes) + " bytes, trial " + std::to_string(trial));
			for (size_t i = 0; i < results.size(); ++i)
				contestants_[i]->add_trial(results[i]);
		}
		return results;
	}

	const Side &side_;
	const Plan &plan_;
	const std::vector<Shape> shapes_;
	const size_t most_;
	const std::vector<SizeGroup> groups_;
	std::vector<std::unique_ptr<Contestant>> contestants_;
	bool is_warm_ = false;
};

void measure(const Side &side, const Sweep &sweep, Reports &reports)
{
	const Plan &plan = sweep.plan;
	std::vector<Column> columns = {{"bytes", "message size", "B"}};

	columns.insert(columns.end(), sweep.columns.begin(), sweep.columns.end());
	for (Column &column : columns)
		if (plan.is_stream && column.title == "one way")
			column.title = "each message";
	Report &report = reports.add(sweep.name + (plan.is_stream ? " of a stream" : ""), columns);

	stop_on_interrupt();
	report.note("trials", plan.trials);
	report.note("trial_ms", plan.trial_ms);
	if (plan.is_stream)
		report.note("depth", plan.depth);
	Tournament(side, sweep, report).measure([&](const Result &result) {
		Json point = {{"bytes", result.bytes}};

		point.update(sweep.figures(result));
		report.add(name_of(result.shape), std::move(point));
	});
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
	command->add_flag("--verbs", choice.verbs, "also bare queue pairs of the same devices, polling");
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
		CLI::App *command =
			add_measurement(app, sweep->name, sweep->about,
					[=](const Side &side, Reports &reports) { measure(side, *sweep, reports); });

		add_choice_options(command, sweep->choice);
		add_plan_options(command, sweep->plan);
		if (sweep->may_stream)
			add_stream_options(command, sweep->plan);
	}
}
