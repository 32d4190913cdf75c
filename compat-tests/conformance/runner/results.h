/* SPDX-License-Identifier: BSD-2-Clause */
// What became of each test. The tests run in a process that may crash or hang with the library under test;
// what is here is shared with the process that has started it.
#pragma once

#include <string>
#include <vector>

namespace results
{

enum class Outcome { Passed, Skipped, Failed, Crashed, TookTooLong, NotExported };

struct Result {
	std::string test; // as GoogleTest names it
	Outcome outcome;
	double ms = 0;
	bool twoHosts = false; // its peer was on another host
	std::string message = {};
};

void open(); // before the processes part
void begin(const std::string &test);
void add(const Result &result);
// Everything so far, in the order of running.
std::vector<Result> all();
// The test that was begun and has no result; "" if there is none.
std::string unfinished();

const char *name(Outcome outcome);
bool isFailure(Outcome outcome);

} // namespace results
