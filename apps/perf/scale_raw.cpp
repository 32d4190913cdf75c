// SPDX-License-Identifier: BSD-2-Clause
/*
 * The comparison series of vip_perf scale --question vis: connected queue pairs of raw verbs, with
 * queues as long as those of a VI, each with two CQs or one. Both ends are in this process, so a
 * figure is the sum of both sides. They carry no messages and have no channel to wait on.
 */
#include "overhead_path.h"
#include "scale.h"
#include "arithmetic.h"
#include "stop.h"

namespace
{
constexpr unsigned fewest_for_kernel = 64;

Json point_of(const Nic &nic, const Traffic &traffic, const Usage &before, double &opening_us)
{
	const double start = now_us();
	const std::unique_ptr<Path> path = make_raw_path(nic, traffic);
	opening_us = now_us() - start;
	const Usage now = usage_now();
	const double own_KiB = static_cast<double>(Messages::size(traffic)) / 1024;
	Json point = {{"vis", traffic.links},
		      {"open_us", opening_us / traffic.links},
		      {"pair_KiB", (now.fair_KiB - before.fair_KiB - own_KiB) / traffic.links},
		      {"client_files", (now.files - before.files) / traffic.links / 2},
		      {"server_files", (now.files - before.files) / traffic.links / 2}};

	if (traffic.links >= fewest_for_kernel)
		point["kernel_KiB"] = (now.kernel_KiB - before.kernel_KiB) / traffic.links;
	return point;
}

void add_series(const Side &side, const ScaleOptions &options, Report &report,
		const std::string &series, bool has_one_cq)
{
	const Usage before = usage_now();
	double opening_us = 0;
	Traffic traffic;

	traffic.is_deep = true;
	traffic.has_one_cq = has_one_cq;
	for (traffic.links = 1; traffic.links <= options.most_vis && !is_stopped();
	     traffic.links *= 2) {
		progress(series + ", " + std::to_string(traffic.links));
		if (2 * opening_us > options.opening_limit_s * 1e6)
			return report.remark(series + ": making " + std::to_string(traffic.links) +
					     " would take longer than --limit allows");
		try {
			report.add(series, point_of(side.nic, traffic, before, opening_us));
		} catch (const Failure &e) {
			return report.remark(series + ": no room for " +
					     std::to_string(traffic.links) + ": " + e.what());
		}
	}
}
} // namespace

void add_raw_queue_pairs(const Side &side, const ScaleOptions &options, Report &report)
{
	if (is_loopback(side.nic))
		return;
	add_series(side, options, report, "raw queue pairs, own CQs", false);
	add_series(side, options, report, "raw queue pairs, a CQ each", true);
}
