// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale - measures how times and memory grow with numbers and sizes: the questions of
 * VIBe, a suite for comparing implementations of VIA (Banikazemi et al., IPDPS 2001).
 *
 * All times except those of registering memory are one-way times of messages in a ping-pong.
 */
#include "scale.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "arithmetic.h"
#include "questions.h"
#include "run.h"
#include "series.h"

namespace
{
constexpr unsigned blocks = 5;
constexpr double block_us = 20000;
constexpr unsigned most_segments = 128; /* the largest number that is tried */
constexpr unsigned most_buffers = 256;

const Column us_column = {"us", "one way", "us"};
const Column least_column = {"us_min", "least", "us"};
const Column error_column = {"us_stderr", "std. error", "us"};

struct Question {
	std::string name;
	Report (*ask)(const Side &side, const ScaleOptions &options);
};

/* The order is the order of the reports. */
const std::vector<Question> questions = {
	{"vis", scale_vis},	    {"cq", scale_cq},	{"segments", scale_segments},
	{"buffers", scale_buffers}, {"mtu", scale_mtu}, {"memory", scale_memory}};

void add_figures(Json &point, const Samples &us)
{
	point["us"] = median(us);
	point["us_min"] = minimum(us);
	point["us_stderr"] = standard_error(us);
}

/* Measures a match for each number, until there is no room for more. */
void series_of_matches(const Side &side, Report &report, Shape shape, const char *key,
		       unsigned Shape::*number, unsigned most)
{
	const std::string series = std::to_string(shape.room) + " bytes";
	std::string why;

	for (unsigned n = 1; n <= most && !is_stopped(); n *= 2) {
		Json point = {{key, n}};

		progress(series + ", " + key + ": " + std::to_string(n));
		shape.*number = n;
		const std::unique_ptr<Match> match = match_if_room(side, shape, why);
		if (!match && n == 1)
			throw Failure(why);
		if (!match)
			return report.remark(series + ": none with " + std::to_string(n) + " " +
					     key + ": " + why);
		add_time(point, *match, shape.room, shape.buffers);
		report.add(series, std::move(point));
	}
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
	Report report("scale-segments",
		      {{"segments", "segments", "count"}, us_column, least_column, error_column});

	for (const size_t bytes : {4096, 65536}) {
		Shape shape;

		shape.waiting = options.waiting;
		shape.room = bytes;
		series_of_matches(side, report, shape, "segments", &Shape::segments, most);
	}
	return report;
}

/* The queues have the same length for any number of buffers, so that nothing else changes. */
Report scale_buffers(const Side &side, const ScaleOptions &options)
{
	Report report("scale-buffers",
		      {{"buffers", "buffers", "count"}, us_column, least_column, error_column});

	for (const size_t bytes : {4096, 65536}) {
		Shape shape;

		shape.waiting = options.waiting;
		shape.room = bytes;
		shape.depth = most_buffers;
		series_of_matches(side, report, shape, "buffers", &Shape::buffers, most_buffers);
	}
	return report;
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

void add_scale(CLI::App &app)
{
	auto options = std::make_shared<ScaleOptions>();
	auto asked = std::make_shared<QuestionNames>();
	CLI::App *command = add_measurement(
		app, "scale", "What grows with VIs, CQs, segments, buffers, sizes",
		[=](const Side &side) { return answer(questions, *asked, side, *options); });

	add_question_option(command, questions, *asked,
			    "vis: time and memory by the number of VIs; cq: what a completion "
			    "queue costs; segments, buffers: time by their number; mtu: time "
			    "around multiples of the NIC's unit; memory: registering by size");
	add_waiting_option(command, options->waiting);
	command->add_option("--to", options->most_vis, "VIs of the question \"vis\", at most")
		->check(CLI::Range(1, 65536))
		->capture_default_str();
	command->add_option("--limit", options->opening_limit_s,
			    "seconds that opening the VIs of one point may take")
		->check(CLI::Range(0, 3600))
		->capture_default_str();
}
