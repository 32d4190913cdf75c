// SPDX-License-Identifier: BSD-2-Clause
// Looks up what a test proves.
#include "requirements.h"

#include "library.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace requirements
{

static const std::vector<Function> functionTable = {
#define VIA_FUNCTION(name, level) {#name, Level::level},
#define VIA_REQUIREMENT(test, level, functions, sentence, chapter)
#include "requirements.inc"
#undef VIA_FUNCTION
#undef VIA_REQUIREMENT
};

static const std::vector<Requirement> requirementTable = {
#define VIA_FUNCTION(name, level)
#define VIA_REQUIREMENT(test, level, functions, sentence, chapter) \
	{test, Level::level, functions, sentence, chapter},
#include "requirements.inc"
#undef VIA_FUNCTION
#undef VIA_REQUIREMENT
};

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

const std::vector<Requirement> &all()
{
	return requirementTable;
}

// Splits "Prefix/Suite.Test/Parameter". Returns the name without its prefix and parameter, and the
// parameter.
static std::string split(const std::string &test, std::string *parameter)
{
	size_t dot = test.find('.'), begin = test.rfind('/', dot), end = test.find('/', dot);
	begin = begin == std::string::npos ? 0 : begin + 1;
	*parameter = end == std::string::npos ? "" : test.substr(end + 1);
	return test.substr(begin, end - begin);
}

const Requirement *find(const std::string &test)
{
	static const auto index = [] {
		std::map<std::string, const Requirement *> made;
		for (const Requirement &requirement : requirementTable)
			made[requirement.test] = &requirement;
		return made;
	}();
	std::string parameter;
	auto found = index.find(split(test, &parameter));
	return found == index.end() ? nullptr : found->second;
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
	std::string parameter;
	split(test, &parameter);
	std::istringstream words(requirement ? requirement->functions : "");
	std::set<std::string> found;
	for (std::string word; words >> word;)
		found.insert(word == "*" ? parameter : word);
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

} // namespace requirements
