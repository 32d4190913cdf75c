/*
 * vip_perf scale --question vis - by the number of VIs: the time of messages that go by each in
 * turn, one at a time, the time to open one (creating, connecting), and the memory that one takes.
 *
 * Memory of a process is what is resident, less this program's own buffers: with memory that is
 * shared, which counts in both. That of the kernel is of the whole machine, where others grow and
 * shrink, too; so it is not told of few VIs.
 */
#include <vector>

#include "scale.h"
#include "statistics.h"
#include "stop.h"

namespace
{
constexpr size_t bytes = 8, room = 64;
constexpr unsigned fewest_for_kernel = 64;

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

/* All memory of a VI, in KiB, that has grown since. */
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

/* Its points, until opening takes too long or there is no room. */
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
		add_memory(point, before, {usage_now(), match->server_usage()}, shape);
		add_time(point, *match, bytes, shape.vis);
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
				    {"kernel_KiB", "kernel, each", "KiB"}});

	measure_series(side, options, report, "own queues", Cqs::none);
	measure_series(side, options, report, "one CQ", Cqs::one);
	measure_series(side, options, report, "a CQ each", Cqs::each);
	return report;
}
