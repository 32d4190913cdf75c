// SPDX-License-Identifier: BSD-2-Clause
#include "usage.h"

#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <set>
#include <sstream>

namespace
{
/* Returns the sum of these lines of a file like /proc/meminfo. */
double sum_of(const char *path, const std::set<std::string> &names)
{
	std::ifstream file(path);
	std::string line, name;
	double sum = 0, number;

	while (std::getline(file, line))
		if (std::istringstream(line) >> name >> number && names.count(name))
			sum += number;
	return sum;
}
} // namespace

Usage usage_now()
{
	const auto files = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});

	malloc_trim(0);
	return {sum_of("/proc/self/smaps_rollup", {"Rss:"}), sum_of("/proc/self/smaps_rollup", {"Pss:"}), double(files),
		sum_of("/proc/meminfo", {"Slab:", "PageTables:", "VmallocUsed:", "Percpu:"})};
}

Usage usage_of_server(Control &control)
{
	control.write({{"do", "usage"}});
	return control.read().get<Usage>();
}
