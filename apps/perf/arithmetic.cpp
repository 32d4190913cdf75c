// SPDX-License-Identifier: BSD-2-Clause
#include "arithmetic.h"

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
	return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
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

Pairs measure_pairs(unsigned count, const std::function<double()> &first, const std::function<double()> &second)
{
	Pairs pairs;

	first();
	second();
	for (unsigned i = 0; i < count; i++) {
		const bool in_order = i % 2 == 0;

		if (in_order)
			pairs.first.push_back(first());
		pairs.second.push_back(second());
		if (!in_order)
			pairs.first.push_back(first());
	}
	return pairs;
}

namespace
{
template <typename Combine> Samples combined(const Pairs &pairs, Combine combine)
{
	Samples all(pairs.first.size());

	std::transform(pairs.second.begin(), pairs.second.end(), pairs.first.begin(), all.begin(), combine);
	return all;
}
} // namespace

Samples differences(const Pairs &pairs)
{
	return combined(pairs, std::minus<>());
}

Samples ratios(const Pairs &pairs)
{
	return combined(pairs, std::divides<>());
}

uint64_t count_for(double us, uint64_t first, const Send &send)
{
	uint64_t count = std::clamp<uint64_t>(first, 1, most_messages);
	double taken;

	while (taken = send(count), taken < us / 8 && count < most_messages)
		count = std::min(count * 4, most_messages);
	return static_cast<uint64_t>(std::clamp(std::round(static_cast<double>(count) * us / taken), 1.0,
						static_cast<double>(most_messages)));
}

void warm_up(double us, const Send &send)
{
	double taken = 0;
	uint64_t sent = 0;

	for (uint64_t count = 1; taken < us && sent < warm_messages; count *= 2) {
		count = std::min(count, warm_messages - sent);
		taken += send(count);
		sent += count;
	}
}

std::vector<SizeGroup> netpipe_sizes(size_t from, size_t to, size_t factor, size_t perturb)
{
	std::vector<SizeGroup> groups;

	for (size_t size = from; size && size <= to; size *= factor) {
		if (perturb && size / 2 > perturb + 1)
			groups.push_back({size - perturb, size, size + perturb});
		else
			groups.push_back({size});
	}
	return groups;
}
