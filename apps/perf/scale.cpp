// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale - measures how times and memory grow with numbers and sizes: the questions of
 * VIBe, a suite for comparing implementations of VIA (Banikazemi et al., IPDPS 2001).
 *
 * All times except those of registering memory are one-way times of messages in a ping-pong.
 *
 * By the number of VIs, which the messages use in turn, one at a time, it measures: the time of messages; the
 * time to open a VI (create, connect); the memory and the files of a VI; and the time of a look at an empty
 * queue. A process's memory is its resident memory, less this program's own buffers. Shared memory counts in
 * both processes. The kernel's memory is that of the whole machine, which other programs change, too; so it is
 * not reported for few VIs.
 *
 * Raw queue pairs of the same device are measured for comparison. Their queues are as long as those of a
 * VI, each with two CQs or one. Both ends are in this process, so a figure is the sum of both sides. They
 * carry no messages and have no channel to wait on.
 */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <set>
#include <sstream>

#include "match.h"
#include "overhead.h"
#include "run.h"

namespace
{
constexpr unsigned blocks = 5;
constexpr double block_us = 20000;
constexpr unsigned most_segments = 128; /* the largest number that is tried */
constexpr unsigned most_buffers = 256;

struct Options {
	Waiting waiting = Waiting::poll;
	unsigned most_vis = 4096;
	unsigned opening_limit_s = 3;
};

/* Returns the columns of a report with this first one: the one-way time, and more. */
std::vector<Column> columns_of(const Column &first, const std::vector<Column> &more = {})
{
	std::vector<Column> columns = {
		first, {"us", "one way", "us"}, {"us_min", "least", "us"}, {"us_stderr", "std. error", "us"}};

	columns.insert(columns.end(), more.begin(), more.end());
	return columns;
}

void add_figures(Json &point, const Samples &us)
{
	point["us"] = median(us);
	point["us_min"] = minimum(us);
	point["us_stderr"] = standard_error(us);
}

/*
 * Adds to the point the time of some blocks of messages. `round` messages go before them. Each block has a
 * multiple of `round` messages, so that each VI has its turns.
 */
void add_time(Json &point, Match &match, size_t bytes, uint64_t round)
{
	Samples samples;
	uint64_t count;

	match.one_way_us(bytes, round);
	count = (match.pings_for(block_us, bytes) + round - 1) / round * round;
	for (unsigned i = 0; i < blocks; ++i)
		samples.push_back(match.one_way_us(bytes, count));
	add_figures(point, samples);
}

/* Adds points for 1, 2, 4, ... of what the series has, until `point_of` throws NoMore. It has to have `least`. */
void add_growing(Report &report, const std::string &series, const std::string &what, unsigned most, unsigned least,
		 const std::function<Json(unsigned number)> &point_of)
{
	for (unsigned n = 1; n <= most; n *= 2) {
		const std::string these = std::to_string(n) + ' ' + what;

		progress(series + ", " + these);
		try {
			report.add(series, point_of(n));
		} catch (const NoMore &e) {
			if (n <= least)
				throw;
			return report.remark(series + ": none with " + these + ": " + e.what());
		}
	}
}

/* Returns the sum of these lines of a file like /proc/meminfo. */
double sum_of(const char *path, const std::set<std::string> &names)
{
	std::ifstream file(path);
	std::string line, name;
	double sum = 0, number;

	while (std::getline(file, line))
		if (std::istringstream(line) >> name >> number && names.count(name))
			sum += number;
	return sum;
}

/*
 * Returns memory and files of this process, and memory of the whole machine's kernel (slabs, page tables, vmalloc'ed
 * memory), and its shared memory, also what no process has touched; after the process has given freed memory back to the kernel. Their growth shows the cost of VIs. Memory of
 * the process is all that is resident; in "fair" memory what n others share counts 1 / (n + 1).
 */
Json usage_now()
{
	const auto files = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});

	malloc_trim(0);
	return {{"process_KiB", sum_of("/proc/self/smaps_rollup", {"Rss:"})},
		{"fair_KiB", sum_of("/proc/self/smaps_rollup", {"Pss:"})},
		{"files", files},
		{"shared_KiB", sum_of("/proc/meminfo", {"Shmem:"})},
		{"kernel_KiB", sum_of("/proc/meminfo", {"Slab:", "PageTables:", "VmallocUsed:", "Percpu:"})}};
}

double growth(const Json &before, const Json &now, const char *what)
{
	return now.at(what).get<double>() - before.at(what).get<double>();
}

/* The usage of both sides. */
struct State {
	Json client, server;
};

State state_of(const Side &side)
{
	const Json own = usage_now();

	side.control.write({{"do", "usage"}});
	return {own, side.control.read()};
}

constexpr size_t vis_bytes = 8, vis_room = 64;
constexpr unsigned fewest_for_machine = 64;
/* Messages by each VI, each way, before "used" memory is measured. */
constexpr unsigned few_messages = 4;
constexpr uint64_t looks = 16384; /* in each block, at least */

/* Each block looks at all VIs in turn. The first block, with cold caches, does not count. */
void add_look(Json &point, Match &match, unsigned vis)
{
	const uint64_t times = (looks + vis - 1) / vis;
	Samples ns;

	match.look_us(times);
	for (unsigned i = 0; i < blocks; ++i)
		ns.push_back(match.look_us(times) * 1000);
	point["look_ns"] = median(ns);
	point["look_ns_min"] = minimum(ns);
}

Json point_of_vis(const Side &side, const Shape &shape, const State &before, double &opening_us)
{
	const double own_KiB = static_cast<double>(memory_of(shape)) / 1024, start = now_us();
	const std::unique_ptr<Match> match = match_if_room(side, shape);
	opening_us = now_us() - start;
	const State opened = state_of(side);
	Json point = {{"vis", shape.vis},
		      {"open_us", opening_us / shape.vis},
		      {"client_KiB", (growth(before.client, opened.client, "process_KiB") - own_KiB) / shape.vis},
		      {"server_KiB", (growth(before.server, opened.server, "process_KiB") - own_KiB) / shape.vis},
		      {"client_files", growth(before.client, opened.client, "files") / shape.vis},
		      {"server_files", growth(before.server, opened.server, "files") / shape.vis}};

	if (shape.vis >= fewest_for_machine) {
		point["kernel_KiB"] = growth(before.client, opened.client, "kernel_KiB") / shape.vis;
		point["shared_KiB"] = growth(before.client, opened.client, "shared_KiB") / shape.vis;
	}
	match->ping(vis_bytes, uint64_t{few_messages} * shape.vis);
	const State used = state_of(side);
	if (shape.vis >= fewest_for_machine)
		point["used_KiB"] = growth(before.client, used.client, "shared_KiB") / shape.vis;
	point["pair_KiB"] = (growth(before.client, used.client, "fair_KiB") +
			     growth(before.server, used.server, "fair_KiB") - 2 * own_KiB) /
			    shape.vis;
	add_time(point, *match, vis_bytes, shape.vis);
	add_look(point, *match, shape.vis);
	return point;
}

Json point_of_raw(const Nic &nic, const Traffic &traffic, const Json &before, double &opening_us)
try {
	const double start = now_us();
	const std::unique_ptr<Path> path = make_raw_path(nic, traffic);
	opening_us = now_us() - start;
	const Json now = usage_now();
	const double own_KiB = static_cast<double>(Messages::size(traffic)) / 1024;
	const double files = growth(before, now, "files") / traffic.links / 2;
	Json point = {{"vis", traffic.links},
		      {"open_us", opening_us / traffic.links},
		      {"pair_KiB", (growth(before, now, "fair_KiB") - own_KiB) / traffic.links},
		      {"client_files", files},
		      {"server_files", files}};

	if (traffic.links >= fewest_for_machine)
		point["kernel_KiB"] = growth(before, now, "kernel_KiB") / traffic.links;
	return point;
} catch (const Failure &e) {
	throw NoMore(e.what());
}

/* Opening twice as many will take twice as long. */
void expect_time(double opening_us, const Options &options)
{
	if (2 * opening_us > options.opening_limit_s * 1e6)
		throw NoMore("opening them would take longer than --limit allows");
}

void scale_vis(const Side &side, const Options &options, Reports &reports)
{
	Report &report = reports.add("scale-vis", columns_of({"vis", "VIs", "count"},
							     {{"open_us", "open one", "us"},
							      {"client_KiB", "client, each", "KiB"},
							      {"server_KiB", "server, each", "KiB"},
							      {"pair_KiB", "a pair, used", "KiB"},
							      {"kernel_KiB", "kernel, each", "KiB"},
							      {"shared_KiB", "shared, each", "KiB"},
							      {"used_KiB", "shared, used", "KiB"},
							      {"client_files", "client, each", "count"},
							      {"server_files", "server, each", "count"},
							      {"look_ns", "empty look", "ns"},
							      {"look_ns_min", "least", "ns"}}));
	const std::pair<const char *, Cqs> ways[] = {
		{"own queues", Cqs::none}, {"one CQ", Cqs::one}, {"a CQ each", Cqs::each}};
	const std::pair<const char *, bool> raw_ways[] = {{"raw queue pairs, own CQs", false},
							  {"raw queue pairs, a CQ each", true}};

	for (const auto &[series, cqs] : ways) {
		const State before = state_of(side);
		double opening_us = 0;
		Shape shape;

		shape.waiting = options.waiting;
		shape.cqs = cqs;
		shape.room = vis_room;
		shape.depth = 2;
		add_growing(report, series, "VIs", options.most_vis, 1, [&](unsigned vis) {
			expect_time(opening_us, options);
			shape.vis = vis;
			return point_of_vis(side, shape, before, opening_us);
		});
	}
	for (const auto &[series, has_one_cq] : raw_ways) {
		const Json before = usage_now();
		double opening_us = 0;
		Traffic traffic;

		if (side.nic.is_loopback())
			return;
		traffic.is_deep = true;
		traffic.has_one_cq = has_one_cq;
		add_growing(report, series, "pairs", options.most_vis, 0, [&](unsigned links) {
			expect_time(opening_us, options);
			traffic.links = links;
			return point_of_raw(side.nic, traffic, before, opening_us);
		});
	}
}

/* Measures the blocks by turns, because the cost of a CQ is less than the variation within a run. */
void compare_cq(Report &report, const std::string &how, size_t bytes, Match &without, Match &with)
{
	const auto blocks_of = [bytes](Match &match) {
		const uint64_t count = match.pings_for(block_us, bytes);

		return [&match, bytes, count] { return match.one_way_us(bytes, count); };
	};
	Json queues = {{"bytes", bytes}}, cq = queues;

	progress("CQ, " + how + ", " + std::to_string(bytes) + " bytes");
	const Pairs pairs = measure_pairs(blocks, blocks_of(without), blocks_of(with));
	const Samples more = differences(pairs);

	add_figures(queues, pairs.first);
	add_figures(cq, pairs.second);
	cq["more_us"] = median(more);
	cq["more_us_stderr"] = standard_error(more);
	report.add("own queues, " + how, std::move(queues));
	report.add("a CQ, " + how, std::move(cq));
}

void scale_cq(const Side &side, const Options &, Reports &reports)
{
	static const size_t sizes[] = {4, 64, 1024, 4096, 16384};
	Report &report = reports.add(
		"scale-cq", columns_of({"bytes", "message size", "B"},
				       {{"more_us", "by the CQ", "us"}, {"more_us_stderr", "std. error", "us"}}));

	for (const Waiting waiting : {Waiting::poll, Waiting::block}) {
		Shape shape;

		shape.waiting = waiting;
		shape.room = sizes[std::size(sizes) - 1];
		Match without(side, shape);
		shape.cqs = Cqs::one;
		Match with(side, shape);
		for (const size_t bytes : sizes)
			compare_cq(report, waiting == Waiting::poll ? "polling" : "blocking", bytes, without, with);
	}
}

/* Measures messages of 4 and of 64 KiB by one of a shape's numbers. */
void scale_number(const Side &side, const Options &options, Reports &reports, const char *key, unsigned Shape::*number,
		  unsigned most, Shape shape)
{
	Report &report = reports.add(std::string("scale-") + key, columns_of({key, key, "count"}));

	shape.waiting = options.waiting;
	for (const size_t bytes : {4096, 65536}) {
		shape.room = bytes;
		add_growing(report, std::to_string(bytes) + " bytes", key, most, 1, [&](unsigned n) {
			Json point = {{key, n}};

			shape.*number = n;
			add_time(point, *match_if_room(side, shape), bytes, shape.buffers);
			return point;
		});
	}
}

void scale_segments(const Side &side, const Options &options, Reports &reports)
{
	const auto most = static_cast<unsigned>(
		std::min<VIP_ULONG>(most_segments, side.nic.attributes().MaxSegmentsPerDesc));

	scale_number(side, options, reports, "segments", &Shape::segments, most, {});
}

/* The queues have the same length for any number of buffers, so that nothing else changes. */
void scale_buffers(const Side &side, const Options &options, Reports &reports)
{
	Shape shape;

	shape.depth = most_buffers;
	scale_number(side, options, reports, "buffers", &Shape::buffers, most_buffers, shape);
}

void scale_mtu(const Side &side, const Options &options, Reports &reports)
{
	const size_t mtu = side.nic.attributes().NativeMTU;
	Report &report = reports.add("scale-mtu", columns_of({"bytes", "message size", "B"}));
	/*
	 * Each has a series: in one figure the curves of the three sizes would lie on each other.
	 */
	const std::pair<int, const char *> around[] = {
		{-1, "1 byte less than units of "},
		{0, "units of "},
		{1, "1 byte more than units of "}};
	Shape shape;

	shape.waiting = options.waiting;
	shape.room = 4 * mtu + 1;
	Match match(side, shape);
	for (const size_t times : {1, 2, 4})
		for (const auto &[by, name] : around) {
			const size_t bytes = times * mtu + static_cast<size_t>(by);
			Json point = {{"bytes", bytes}};

			progress("MTU, " + std::to_string(bytes) + " bytes");
			add_time(point, match, bytes, 1);
			report.add(name + std::to_string(mtu), std::move(point));
		}
}

constexpr size_t smallest = 4096, largest = size_t{64} << 20;
constexpr double enough_us = 100000;
constexpr size_t fewest = 5, most = 1000;

/* The memory is the same each time and was written before. */
Json registering(const Nic &nic, void *memory, size_t bytes)
{
	VIP_MEM_ATTRIBUTES attributes = {nic.ptag(), VIP_FALSE, VIP_FALSE};
	const double begin = now_us();
	Samples to_register, to_deregister;

	while (to_register.size() < fewest || (to_register.size() < most && now_us() - begin < enough_us)) {
		VIP_MEM_HANDLE handle;
		const double start = now_us();

		check(VipRegisterMem(nic.handle(), memory, bytes, &attributes, &handle), "register memory");
		const double middle = now_us();
		check(VipDeregisterMem(nic.handle(), memory, handle), "deregister memory");
		to_register.push_back(middle - start);
		to_deregister.push_back(now_us() - middle);
	}
	return {{"bytes", bytes},
		{"register_us", median(to_register)},
		{"register_us_stderr", standard_error(to_register)},
		{"deregister_us", median(to_deregister)},
		{"deregister_us_stderr", standard_error(to_deregister)}};
}
/* The server has no part in it. */
void scale_memory(const Side &side, const Options &, Reports &reports)
{
	Report &report = reports.add("scale-memory", {{"bytes", "memory", "B"},
						      {"register_us", "register", "us"},
						      {"register_us_stderr", "std. error", "us"},
						      {"deregister_us", "deregister", "us"},
						      {"deregister_us_stderr", "std. error", "us"}});
	const std::unique_ptr<void, decltype(&std::free)> memory(
		std::aligned_alloc(smallest, largest), &std::free);

	if (!memory)
		throw Failure("no memory for 64 MiB");
	std::memset(memory.get(), 1, largest);
	for (size_t bytes = smallest; bytes <= largest; bytes *= 4)
		try {
			progress("registering " + std::to_string(bytes) + " bytes");
			report.add("memory", registering(side.nic, memory.get(), bytes));
		} catch (const Failure &e) {
			if (bytes == smallest)
				throw;
			report.remark("no room for " + std::to_string(bytes) + " bytes: " + e.what());
			break;
		}
}

/* The order is the order of the reports. */
const std::vector<Question<Options>> questions = {
	{"vis", scale_vis},	    {"cq", scale_cq},	{"segments", scale_segments},
	{"buffers", scale_buffers}, {"mtu", scale_mtu}, {"memory", scale_memory}};
} // namespace

void serve_usage(const Side &side, const Json &)
{
	side.control.write(usage_now());
}

void add_scale(CLI::App &app)
{
	auto options = std::make_shared<Options>();
	CLI::App *command = add_questions(
		app, "scale", "What grows with VIs, CQs, segments, buffers, sizes", questions,
		"vis: time and memory by the number of VIs; cq: what a completion queue costs; segments, buffers: time by "
		"their number; mtu: time around multiples of the NIC's unit; memory: registering by size",
		options);

	add_waiting_option(command, options->waiting);
	add_number(command, "--to", options->most_vis, 1, 65536, "VIs of the question \"vis\", at most");
	add_number(command, "--limit", options->opening_limit_s, 0, 3600,
		   "seconds that opening the VIs of one point may take");
}
