/* SPDX-License-Identifier: BSD-2-Clause */
// The sentence about each test: what requirements.py finds in the tests, compiled into the program.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace requirements
{

// VIA's three levels of conformance. Each includes the levels before it. An addition is a function of one
// of VIA's makers that VIA does not have. It belongs to no level.
enum class Level { Early, Functional, Full, Addition };
inline constexpr Level kLevels[] = {Level::Early, Level::Functional, Level::Full};
const char *name(Level level); // as in "early adopter"

struct Function {
	const char *name;
	Level level; // the first level that requires it
};

struct Requirement {
	const char *test; // "Suite.Test"
	Level level;
	// The functions under test, each followed by a blank; "*": the parameter is a function.
	const char *functions;
	const char *sentence;
	const char *chapter;
};

const std::vector<Function> &functions();
// Finds a test by GoogleTest's name ("Prefix/Suite.Test/Parameter"). Returns NULL if it is not in the
// table.
const Requirement *find(const std::string &test);
// A test that is not in the table belongs to full conformance.
Level levelOf(const std::string &test);
std::set<std::string> functionsOf(const std::string &test);
// Returns the test's functions that the library under test lacks, with blanks between them.
std::string missingFor(const std::string &test);
// GoogleTest's names of all tests of this program.
std::vector<std::string> tests();
// Prints the tests of the level and those before, with chapter, level, functions and sentence. A broken output is an
// error: the result is an exit status.
int print(Level level);

} // namespace requirements
