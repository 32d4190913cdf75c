/* SPDX-License-Identifier: BSD-2-Clause */
/* NetPIPE's message sizes. */
#ifndef VIP_PERF_SIZES_H
#define VIP_PERF_SIZES_H

#include <cstddef>
#include <vector>

/* A size, with a size a little below and one a little above it, in ascending order. */
using SizeGroup = std::vector<size_t>;

/*
 * The sizes are `from`, multiplied by `factor` until they exceed `to`. Each has neighbours that are
 * `perturb` bytes shorter and longer. They show which messages just fit into a buffer. A size has
 * no neighbours if these would meet those of another size. No size occurs twice.
 */
std::vector<SizeGroup> netpipe_sizes(size_t from, size_t to, size_t factor, size_t perturb);

#endif
