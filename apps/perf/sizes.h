/* SPDX-License-Identifier: BSD-2-Clause */
/* The sizes of messages by which NetPIPE goes. */
#ifndef VIP_PERF_SIZES_H
#define VIP_PERF_SIZES_H

#include <cstddef>
#include <vector>

/* A size, and those a little shorter and longer; ascending. */
using SizeGroup = std::vector<size_t>;

/*
 * From `from`, times `factor` until it is more than `to`: each one, one `perturb` bytes shorter and
 * one as much longer, which show what just fits into some buffer and what does not. Sizes so small
 * that these would meet their neighbours' are alone. No size occurs twice.
 */
std::vector<SizeGroup> netpipe_sizes(size_t from, size_t to, size_t factor, size_t perturb);

#endif
