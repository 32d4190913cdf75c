// SPDX-License-Identifier: BSD-2-Clause
#include "sizes.h"

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
