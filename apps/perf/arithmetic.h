/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic of measurements: samples, pairs of blocks, and how many messages of which sizes. */
#ifndef VIP_PERF_ARITHMETIC_H
#define VIP_PERF_ARITHMETIC_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

double now_us(); /* by the monotonic clock */

using Samples = std::vector<double>; /* each function needs at least one */

double minimum(const Samples &samples);
double maximum(const Samples &samples);
double mean(const Samples &samples);
double median(Samples samples);
/*
 * The standard error of the mean: sqrt(sum of squared differences from it / ((n - 1) n)); NaN of a
 * single sample.
 */
double standard_error(const Samples &samples);

/*
 * Two things that were measured by turns. Runs of identical code differ more than the difference in
 * question (other CPUs, another frequency, other neighbours). Runs that follow each other differ less,
 * so only differences within pairs count.
 */
struct Pairs {
	Samples first, second;
};

/*
 * Measures each once without counting it, and then `count` pairs. The order changes from pair to
 * pair, so that a drift favours neither.
 */
Pairs measure_pairs(unsigned count, const std::function<double()> &first, const std::function<double()> &second);
/* Returns second - first, or second / first, of each pair. */
Samples differences(const Pairs &pairs);
Samples ratios(const Pairs &pairs);

/* Sends `count` messages and returns the microseconds that they took. */
using Send = std::function<double(uint64_t count)>;

constexpr uint64_t most_messages = 1000000; /* in one order */
/*
 * Returns a number of messages, at least 1, that takes about that long. It tries `first` messages,
 * and then more.
 */
uint64_t count_for(double us, uint64_t first, const Send &send);

constexpr uint64_t warm_messages = 10000;
/*
 * The first messages of a run are slow, on an emulated machine for a while. warm_up() sends one,
 * two, four, ... messages, until they take `us` or until warm_messages have gone, which are enough
 * on any machine.
 */
void warm_up(double us, const Send &send);

/* A size, with a size a little below and one a little above it, in ascending order. */
using SizeGroup = std::vector<size_t>;

/*
 * NetPIPE's sizes are `from`, multiplied by `factor` until they exceed `to`. Each has neighbours that are
 * `perturb` bytes shorter and longer. They show which messages just fit into a buffer. A size has
 * no neighbours if these would meet those of another size. No size occurs twice.
 */
std::vector<SizeGroup> netpipe_sizes(size_t from, size_t to, size_t factor, size_t perturb);

#endif
