/* SPDX-License-Identifier: BSD-2-Clause */
// What each test proves: requirements.txt, compiled into the program.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace requirements
{

// VIA's three levels of conformance. Each includes those before it. What is not VIA's, but of one of its
// makers, is an addition and belongs to none of them.
enum class Level { EarlyAdopter, Functional, Full, Addition };
inline constexpr Level kLevels[] = {Level::EarlyAdopter, Level::Functional, Level::Full};
const char *name(Level level); // as in "early adopter"

struct Function {
	const char *name;
	Level level; // the first at which a library has to have it
};

struct Requirement {
	const char *test; // "Suite.Test"
	Level level;
	const char *functions; // those it is about, each followed by a blank; "*" if its parameter is one
	const char *sentence;
};

const std::vector<Function> &functions();
// Of a test as GoogleTest names it ("Prefix/Suite.Test/Parameter"); NULL if the table has it not.
const Requirement *find(const std::string &test);
// A test that the table does not have belongs to full conformance.
Level levelOf(const std::string &test);
std::set<std::string> functionsOf(const std::string &test);
// Those of them that the library under test does not have, with blanks between them.
std::string missingFor(const std::string &test);

} // namespace requirements
