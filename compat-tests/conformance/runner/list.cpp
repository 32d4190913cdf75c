// SPDX-License-Identifier: BSD-2-Clause
// Lists the tests that this program has, in the order of the table.
#include "list.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <set>
#include <string>

namespace list
{

using requirements::Requirement;

static std::set<const Requirement *> present()
{
	std::set<const Requirement *> found;
	const testing::UnitTest &unit = *testing::UnitTest::GetInstance();
	for (int i = 0; i < unit.total_test_suite_count(); i++) {
		const testing::TestSuite &suite = *unit.GetTestSuite(i);
		for (int j = 0; j < suite.total_test_count(); j++)
			found.insert(requirements::find(std::string(suite.name()) + "." +
							suite.GetTestInfo(j)->name()));
	}
	return found;
}

int print(requirements::Level level)
{
	const std::set<const Requirement *> here = present();
	std::string chapter;
	for (const Requirement &each : requirements::all()) {
		if (!here.count(&each) || each.level > level)
			continue;
		if (chapter != each.chapter)
			printf("%s== %s\n\n", chapter.empty() ? "" : "\n", each.chapter);
		chapter = each.chapter;
		printf("%s\n\tlevel: %s\n", each.test, requirements::name(each.level));
		if (*each.functions)
			printf("\tof: %s\n", *each.functions == '*' ? "each function" : each.functions);
		printf("\t%s\n", each.sentence);
	}
	return fflush(stdout) ? 2 : 0;
}

} // namespace list
