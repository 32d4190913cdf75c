// SPDX-License-Identifier: BSD-2-Clause
// Lists the tests that this program has, in the order of the table.
#include "requirements.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <set>

namespace requirements
{

std::vector<std::string> tests()
{
	const testing::UnitTest &unit = *testing::UnitTest::GetInstance();
	std::vector<std::string> names;
	for (int i = 0; i < unit.total_test_suite_count(); i++) {
		const testing::TestSuite &suite = *unit.GetTestSuite(i);
		for (int j = 0; j < suite.total_test_count(); j++)
			names.push_back(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
	}
	return names;
}

int print(Level level)
{
	std::set<const Requirement *> here;
	for (const std::string &test : tests())
		here.insert(find(test));
	std::string chapter;
	for (const Requirement &each : all()) {
		if (!here.count(&each) || each.level > level)
			continue;
		if (chapter != each.chapter)
			printf("%s== %s\n\n", chapter.empty() ? "" : "\n", each.chapter);
		chapter = each.chapter;
		printf("%s\n\tlevel: %s\n", each.test, name(each.level));
		if (*each.functions)
			printf("\tof: %s\n", *each.functions == '*' ? "each function" : each.functions);
		printf("\t%s\n", each.sentence);
	}
	return fflush(stdout) ? 2 : 0;
}

} // namespace requirements
