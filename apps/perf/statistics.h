/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics of samples. Each needs at least one sample. */
#ifndef VIP_PERF_STATISTICS_H
#define VIP_PERF_STATISTICS_H

#include <vector>

double now_us(); /* by the monotonic clock */

using Samples = std::vector<double>;

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
 * The error of the rate amount / time, from an error of the time: |d(amount / time) / d time| *
 * error.
 */
double rate_error(double amount, double time, double time_error);

#endif
