// SPDX-License-Identifier: BSD-2-Clause
#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

double now_us()
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double minimum(const Samples &samples)
{
	return *std::min_element(samples.begin(), samples.end());
}

double maximum(const Samples &samples)
{
	return *std::max_element(samples.begin(), samples.end());
}

double mean(const Samples &samples)
{
	return std::accumulate(samples.begin(), samples.end(), 0.0) /
	       static_cast<double>(samples.size());
}

double median(Samples samples)
{
	const size_t half = samples.size() / 2;

	std::sort(samples.begin(), samples.end());
	return samples.size() % 2 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

double standard_error(const Samples &samples)
{
	const double n = static_cast<double>(samples.size()), average = mean(samples);
	double squares = 0;

	if (samples.size() < 2)
		return std::nan(""); /* a single sample has no error */
	for (double sample : samples)
		squares += (sample - average) * (sample - average);
	return std::sqrt(squares / ((n - 1) * n));
}

double rate_error(double amount, double time, double time_error)
{
	return amount / (time * time) * time_error;
}
