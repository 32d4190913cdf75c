// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale - measures how times and memory grow with numbers and sizes: the questions of
 * VIBe, a suite for comparing implementations of VIA (Banikazemi et al., IPDPS 2001).
 *
 * All times except those of registering memory are one-way times of messages in a ping-pong.
 */
#include "scale.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "run.h"

namespace
{
constexpr unsigned blocks = 5;
constexpr double block_us = 20000;
constexpr unsigned most_segments = 128; /* the largest number that is tried */
constexpr unsigned most_buffers = 256;

const Column us_column = {"us", "one way", "us"};
const Column least_column = {"us_min", "least", "us"};
const Column error_column = {"us_stderr", "std. error", "us"};

/* The order is the order of the reports. */
const std::vector<Question<ScaleOptions>> questions = {
	{"vis", scale_vis},	    {"cq", scale_cq},	{"segments", scale_segments},
	{"buffers", scale_buffers}, {"mtu", scale_mtu}, {"memory", scale_memory}};

void add_figures(Json &point, const Samples &us)
{
	point["us"] = median(us);
	point["us_min"] = minimum(us);
	point["us_stderr"] = standard_error(us);
}

/* Measures messages of 4 and of 64 KiB by one of a shape's numbers. */
Report scale_number(const Side &side, const ScaleOptions &options, const char *key, unsigned Shape::*number,
		    unsigned most, Shape shape)
{
	Report report(std::string("scale-") + key, {{key, key, "count"}, us_column, least_column, error_column});

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
	return report;
}

/*
 * Measures the blocks by turns, because the cost of a CQ is less than the variation within a run.
 */
void compare_cq(Report &report, const std::string &how, size_t bytes, Match &without,
		Match &with)
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
} // namespace

void add_growing(Report &report, const std::string &series, const std::string &what, unsigned most, unsigned least,
		 const std::function<Json(unsigned number)> &point_of)
{
	for (unsigned n = 1; n <= most && !is_stopped(); n *= 2) {
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

Report scale_cq(const Side &side, const ScaleOptions &)
{
	static const size_t sizes[] = {4, 64, 1024, 4096, 16384};
	Report report("scale-cq", {{"bytes", "message size", "B"},
				   us_column,
				   least_column,
				   error_column,
				   {"more_us", "by the CQ", "us"},
				   {"more_us_stderr", "std. error", "us"}});

	for (const Waiting waiting : {Waiting::poll, Waiting::block}) {
		Shape shape;

		if (is_stopped())
			break;
		shape.waiting = waiting;
		shape.room = sizes[std::size(sizes) - 1];
		Match without(side, shape);
		shape.cqs = Cqs::one;
		Match with(side, shape);
		for (const size_t bytes : sizes)
			if (!is_stopped())
				compare_cq(report,
					   waiting == Waiting::poll ? "polling" : "blocking", bytes,
					   without, with);
	}
	return report;
}

Report scale_segments(const Side &side, const ScaleOptions &options)
{
	const auto most = static_cast<unsigned>(
		std::min<VIP_ULONG>(most_segments, side.nic.attributes().MaxSegmentsPerDesc));

	return scale_number(side, options, "segments", &Shape::segments, most, {});
}

/* The queues have the same length for any number of buffers, so that nothing else changes. */
Report scale_buffers(const Side &side, const ScaleOptions &options)
{
	Shape shape;

	shape.depth = most_buffers;
	return scale_number(side, options, "buffers", &Shape::buffers, most_buffers, shape);
}

Report scale_mtu(const Side &side, const ScaleOptions &options)
{
	const size_t mtu = side.nic.attributes().NativeMTU;
	Report report("scale-mtu",
		      {{"bytes", "message size", "B"}, us_column, least_column, error_column});
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

			if (is_stopped())
				return report;
			progress("MTU, " + std::to_string(bytes) + " bytes");
			add_time(point, match, bytes, 1);
			report.add(name + std::to_string(mtu), std::move(point));
		}
	return report;
}

namespace
{
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
} // namespace

/* The server has no part in it. */
Report scale_memory(const Side &side, const ScaleOptions &)
{
	Report report("scale-memory", {{"bytes", "memory", "B"},
				       {"register_us", "register", "us"},
				       {"register_us_stderr", "std. error", "us"},
				       {"deregister_us", "deregister", "us"},
				       {"deregister_us_stderr", "std. error", "us"}});
	const std::unique_ptr<void, decltype(&std::free)> memory(
		std::aligned_alloc(smallest, largest), &std::free);

	if (!memory)
		throw Failure("no memory for 64 MiB");
	std::memset(memory.get(), 1, largest);
	for (size_t bytes = smallest; bytes <= largest && !is_stopped(); bytes *= 4)
		try {
			progress("registering " + std::to_string(bytes) + " bytes");
			report.add("memory", registering(side.nic, memory.get(), bytes));
		} catch (const Failure &e) {
			if (bytes == smallest)
				throw;
			report.remark("no room for " + std::to_string(bytes) + " bytes: " + e.what());
			break;
		}
	return report;
}

void add_scale(CLI::App &app)
{
	auto options = std::make_shared<ScaleOptions>();
	auto asked = std::make_shared<Words>();
	CLI::App *command = add_measurement(
		app, "scale", "What grows with VIs, CQs, segments, buffers, sizes",
		[=](const Side &side) { return answer(questions, *asked, side, *options); });

	add_question_option(command, questions, *asked,
			    "vis: time and memory by the number of VIs; cq: what a completion "
			    "queue costs; segments, buffers: time by their number; mtu: time "
			    "around multiples of the NIC's unit; memory: registering by size");
	add_waiting_option(command, options->waiting);
	add_number(command, "--to", options->most_vis, 1, 65536, "VIs of the question \"vis\", at most");
	add_number(command, "--limit", options->opening_limit_s, 0, 3600,
		   "seconds that opening the VIs of one point may take");
}
