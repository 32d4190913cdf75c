/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the questions of "vip_perf scale" share. Each question makes a report of its
 * own.
 */
#ifndef VIP_PERF_SCALE_H
#define VIP_PERF_SCALE_H

#include "match.h"
#include "report.h"

struct ScaleOptions {
	Waiting waiting = Waiting::poll;
	unsigned most_vis = 4096;
	unsigned opening_limit_s = 3;
};

Report scale_vis(const Side &side, const ScaleOptions &options);
Report scale_cq(const Side &side, const ScaleOptions &options);
Report scale_segments(const Side &side, const ScaleOptions &options);
Report scale_buffers(const Side &side, const ScaleOptions &options);
Report scale_mtu(const Side &side, const ScaleOptions &options);
Report scale_memory(const Side &side, const ScaleOptions &options);

/*
 * Adds points for 1, 2, 4, ... of what the series has, until `point_of` throws NoMore. It has to have `least`.
 */
void add_growing(Report &report, const std::string &series, const std::string &what, unsigned most, unsigned least,
		 const std::function<Json(unsigned number)> &point_of);

/*
 * Adds to the point the one-way time us, the median of some blocks of messages, with the least and
 * the standard error. `round` messages go before them. Each block has a multiple of `round`
 * messages, so that each VI has its turns.
 */
void add_time(Json &point, Match &match, size_t bytes, uint64_t round);

#endif
