/* SPDX-License-Identifier: BSD-2-Clause */
/* What the questions of "vip_perf scale" share. Each makes a report of its own. */
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

/* In the report of scale_vis(): raw queue pairs on the same device; none where it has no verbs. */
void add_raw_queue_pairs(const Side &side, const ScaleOptions &options, Report &report);

/*
 * Adds to the point the time one way, us, the median of some blocks of messages, with the least and
 * the standard error. Before them go `round` messages, and each block is of a multiple of so many,
 * so that each VI has its turns.
 */
void add_time(Json &point, Match &match, size_t bytes, uint64_t round);

#endif
