// SPDX-License-Identifier: BSD-2-Clause
#include "paired.h"

Pairs measure_pairs(unsigned count, const std::function<double()> &first,
		    const std::function<double()> &second)
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

Comparison compare(const Pairs &pairs)
{
	Samples ratios;

	for (size_t i = 0; i < pairs.first.size(); i++)
		ratios.push_back(pairs.second[i] / pairs.first[i]);
	return {median(ratios), median(pairs.first), median(pairs.second)};
}

Samples differences(const Pairs &pairs)
{
	Samples more;

	for (size_t i = 0; i < pairs.first.size(); i++)
		more.push_back(pairs.second[i] - pairs.first[i]);
	return more;
}
