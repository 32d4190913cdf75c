// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale --question vis - measures by the number of VIs: the time of messages that use the
 * VIs in turn, one at a time; the time to open a VI (create, connect); the memory and the files of
 * a VI; and the time of a look at an empty queue.
 *
 * A process's memory is its resident memory, less this program's own buffers. Shared memory counts
 * in both processes. The kernel's memory is that of the whole machine, which other programs change,
 * too; so it is not reported for few VIs.
 */
#include <vector>

#include "scale.h"
#include "arithmetic.h"
#include "stop.h"

namespace
{
constexpr size_t bytes = 8, room = 64;
constexpr unsigned fewest_for_kernel = 64;
/* Messages by each VI, each way, before "used" memory is measured. */
constexpr unsigned few_messages = 4;
constexpr unsigned look_blocks = 5;
constexpr uint64_t looks = 16384; /* in each block, at least */

struct State {
	Usage client, server;
};

Shape shape_of(const ScaleOptions &options, Cqs cqs)
{
	Shape shape;

	shape.waiting = options.waiting;
	shape.cqs = cqs;
	shape.room = room;
	shape.depth = 2;
	return shape;
}

/* Adds the growth of memory per VI in KiB. */
void add_memory(Json &point, const State &before, const State &now, const Shape &shape)
{
	const double buffers = static_cast<double>(memory_of(shape)) / 1024;
	const auto per_vi = [&](double was, double is, double ours) {
		return (is - was - ours) / shape.vis;
	};

	point["client_KiB"] = per_vi(before.client.process_KiB, now.client.process_KiB, buffers);
	point["server_KiB"] = per_vi(before.server.process_KiB, now.server.process_KiB, buffers);
	if (shape.vis >= fewest_for_kernel)
		point["kernel_KiB"] = per_vi(before.client.kernel_KiB, now.client.kernel_KiB, 0);
}

void add_files(Json &point, const State &before, const State &now, unsigned vis)
{
	point["client_files"] = (now.client.files - before.client.files) / vis;
	point["server_files"] = (now.server.files - before.server.files) / vis;
}

/*
 * Returns the growth of both sides together for each pair of connected VIs. Shared memory counts
 * once.
 */
double pair_KiB(const State &before, const State &now, const Shape &shape)
{
	const double more = now.client.fair_KiB + now.server.fair_KiB - before.client.fair_KiB -
			    before.server.fair_KiB;

	return more / shape.vis - 2 * static_cast<double>(memory_of(shape)) / 1024 / shape.vis;
}

/* Each block looks at all VIs in turn. The first block, with cold caches, does not count. */
void add_look(Json &point, Match &match, unsigned vis)
{
	const uint64_t times = (looks + vis - 1) / vis;
	Samples ns;

	match.look_us(times);
	for (unsigned i = 0; i < look_blocks; ++i)
		ns.push_back(match.look_us(times) * 1000);
	point["look_ns"] = median(ns);
	point["look_ns_min"] = minimum(ns);
}

/* Adds the points of a series, until opening takes too long or there is no room. */
void measure_series(const Side &side, const ScaleOptions &options, Report &report,
		    const std::string &series, Cqs cqs)
{
	const State before = {usage_now(), usage_of_server(side.control)};
	Shape shape = shape_of(options, cqs);
	double opening_us = 0;
	std::string why;

	for (shape.vis = 1; shape.vis <= options.most_vis && !is_stopped(); shape.vis *= 2) {
		Json point = {{"vis", shape.vis}};
		const double start = now_us();

		progress(series + ", " + std::to_string(shape.vis) + " VIs");
		if (2 * opening_us > options.opening_limit_s * 1e6)
			return report.remark(series + ": opening " + std::to_string(shape.vis) +
					     " VIs would take longer than --limit allows");
		const std::unique_ptr<Match> match = match_if_room(side, shape, why);
		if (!match && shape.vis == 1)
			throw Failure(why);
		if (!match)
			return report.remark(series + ": no room for " + std::to_string(shape.vis) +
					     " VIs: " + why);
		opening_us = now_us() - start;
		point["open_us"] = opening_us / shape.vis;
		const State opened = {usage_now(), match->server_usage()};
		add_memory(point, before, opened, shape);
		add_files(point, before, opened, shape.vis);
		match->ping(bytes, uint64_t{few_messages} * shape.vis);
		point["pair_KiB"] = pair_KiB(before, {usage_now(), match->server_usage()}, shape);
		add_time(point, *match, bytes, shape.vis);
		add_look(point, *match, shape.vis);
		report.add(series, std::move(point));
	}
}
} // namespace

Report scale_vis(const Side &side, const ScaleOptions &options)
{
	Report report("scale-vis", {{"vis", "VIs", "count"},
				    {"us", "one way", "us"},
				    {"us_min", "least", "us"},
				    {"us_stderr", "std. error", "us"},
				    {"open_us", "open one", "us"},
				    {"client_KiB", "client, each", "KiB"},
				    {"server_KiB", "server, each", "KiB"},
				    {"pair_KiB", "a pair, used", "KiB"},
				    {"kernel_KiB", "kernel, each", "KiB"},
				    {"client_files", "client, each", "count"},
				    {"server_files", "server, each", "count"},
				    {"look_ns", "empty look", "ns"},
				    {"look_ns_min", "least", "ns"}});

	measure_series(side, options, report, "own queues", Cqs::none);
	measure_series(side, options, report, "one CQ", Cqs::one);
	measure_series(side, options, report, "a CQ each", Cqs::each);
	add_raw_queue_pairs(side, options, report);
	return report;
}
