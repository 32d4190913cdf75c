// SPDX-License-Identifier: BSD-2-Clause
// Looks up what a test proves, and lists the tests that this program has, in the order of the table.
#include "requirements.h"

#include "library.h"

#include <algorithm>
#include <cstdio>
#include <gtest/gtest.h>
#include <sstream>

namespace requirements
{

#include "requirements.inc" // functionTable and requirementTable

const char *name(Level level)
{
	static const char *const names[] = {"early adopter", "functional", "full",
					    "additions"};
	return names[static_cast<int>(level)];
}

const std::vector<Function> &functions()
{
	return functionTable;
}

// Splits "Prefix/Suite.Test/Parameter". Returns the name without its prefix and parameter, and the
// parameter.
static std::pair<std::string, std::string> split(const std::string &test)
{
	size_t dot = test.find('.'), begin = test.rfind('/', dot), end = test.find('/', dot);
	begin = begin == std::string::npos ? 0 : begin + 1;
	return {test.substr(begin, end - begin), end == std::string::npos ? "" : test.substr(end + 1)};
}

const Requirement *find(const std::string &test)
{
	const std::string name = split(test).first;
	for (const Requirement &requirement : requirementTable)
		if (name == requirement.test)
			return &requirement;
	return nullptr;
}

Level levelOf(const std::string &test)
{
	const Requirement *requirement = find(test);
	Level level = requirement ? requirement->level : Level::Full;
	// A test with a function as its parameter has the level of that function.
	const std::set<std::string> about = functionsOf(test);
	for (const Function &function : functionTable)
		if (about.count(function.name))
			level = std::max(level, function.level);
	return level;
}

std::set<std::string> functionsOf(const std::string &test)
{
	const Requirement *requirement = find(test);
	std::istringstream words(requirement ? requirement->functions : "");
	std::set<std::string> found;
	for (std::string word; words >> word;)
		found.insert(word == "*" ? split(test).second : word);
	return found;
}

std::string missingFor(const std::string &test)
{
	std::string missing;
	for (const std::string &function : functionsOf(test))
		if (!library::exports(function))
			missing += (missing.empty() ? "" : " ") + function;
	return missing;
}

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
	for (const Requirement &each : requirementTable) {
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
