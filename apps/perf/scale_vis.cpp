// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf scale --question vis - measures by the number of VIs: the time of messages that use the
 * VIs in turn, one at a time; the time to open a VI (create, connect); the memory and the files of
 * a VI; and the time of a look at an empty queue.
 *
 * A process's memory is its resident memory, less this program's own buffers. Shared memory counts
 * in both processes. The kernel's memory is that of the whole machine, which other programs change,
 * too; so it is not reported for few VIs.
 *
 * Raw queue pairs of the same device are measured for comparison. Their queues are as long as those of a
 * VI, each with two CQs or one. Both ends are in this process, so a figure is the sum of both sides. They
 * carry no messages and have no channel to wait on.
 */
#include "overhead.h"
#include "scale.h"

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

State state_of(const Side &side)
{
	return {usage_now(), usage_of_server(side.control)};
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

Json point_of_vis(const Side &side, const Shape &shape, const State &before, double &opening_us)
{
	const double own_KiB = static_cast<double>(memory_of(shape)) / 1024, start = now_us();
	const std::unique_ptr<Match> match = match_if_room(side, shape);
	opening_us = now_us() - start;
	const auto growth = [&](const State &now, Usage State::*end, double Usage::*what, double own = 0) {
		return (now.*end.*what - before.*end.*what - own) / shape.vis;
	};
	const State opened = state_of(side);
	Json point = {{"vis", shape.vis},
		      {"open_us", opening_us / shape.vis},
		      {"client_KiB", growth(opened, &State::client, &Usage::process_KiB, own_KiB)},
		      {"server_KiB", growth(opened, &State::server, &Usage::process_KiB, own_KiB)},
		      {"client_files", growth(opened, &State::client, &Usage::files)},
		      {"server_files", growth(opened, &State::server, &Usage::files)}};

	if (shape.vis >= fewest_for_kernel)
		point["kernel_KiB"] = growth(opened, &State::client, &Usage::kernel_KiB);
	match->ping(bytes, uint64_t{few_messages} * shape.vis);
	const State used = state_of(side);
	point["pair_KiB"] = growth(used, &State::client, &Usage::fair_KiB, own_KiB) +
			    growth(used, &State::server, &Usage::fair_KiB, own_KiB);
	add_time(point, *match, bytes, shape.vis);
	add_look(point, *match, shape.vis);
	return point;
}

Json point_of_raw(const Nic &nic, const Traffic &traffic, const Usage &before, double &opening_us)
try {
	const double start = now_us();
	const std::unique_ptr<Path> path = make_raw_path(nic, traffic);
	opening_us = now_us() - start;
	const Usage now = usage_now();
	const double own_KiB = static_cast<double>(Messages::size(traffic)) / 1024;
	const double files = (now.files - before.files) / traffic.links / 2;
	Json point = {{"vis", traffic.links},
		      {"open_us", opening_us / traffic.links},
		      {"pair_KiB", (now.fair_KiB - before.fair_KiB - own_KiB) / traffic.links},
		      {"client_files", files},
		      {"server_files", files}};

	if (traffic.links >= fewest_for_kernel)
		point["kernel_KiB"] = (now.kernel_KiB - before.kernel_KiB) / traffic.links;
	return point;
} catch (const Failure &e) {
	throw NoMore(e.what());
}

/* Opening twice as many will take twice as long. */
void expect_time(double opening_us, const ScaleOptions &options)
{
	if (2 * opening_us > options.opening_limit_s * 1e6)
		throw NoMore("opening them would take longer than --limit allows");
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
		shape.room = room;
		shape.depth = 2;
		add_growing(report, series, "VIs", options.most_vis, 1, [&](unsigned vis) {
			expect_time(opening_us, options);
			shape.vis = vis;
			return point_of_vis(side, shape, before, opening_us);
		});
	}
	for (const auto &[series, has_one_cq] : raw_ways) {
		const Usage before = usage_now();
		double opening_us = 0;
		Traffic traffic;

		if (side.nic.is_loopback())
			break;
		traffic.is_deep = true;
		traffic.has_one_cq = has_one_cq;
		add_growing(report, series, "pairs", options.most_vis, 0, [&](unsigned links) {
			expect_time(opening_us, options);
			traffic.links = links;
			return point_of_raw(side.nic, traffic, before, opening_us);
		});
	}
	return report;
}
