/* SPDX-License-Identifier: BSD-2-Clause */
// The result of each test. The tests run in a process that may crash or hang with the library under test.
// The results are shared with its parent process, which reports them: a summary for people, JUnit's XML for programs.
#pragma once

#include <string>
#include <vector>

namespace results
{

enum class Outcome { Passed, Skipped, Failed, Crashed, TookTooLong, NotExported };

struct Result {
	std::string test; // GoogleTest's name
	Outcome outcome;
	double ms = 0;
	bool twoHosts = false; // its peer was on another host
	std::string message = {};
};

void open(); // must be called before the processes fork
void begin(const std::string &test);
void add(const Result &result);
// Returns all results so far, in the order of running.
std::vector<Result> all();
// Returns the test that has begun and has no result; "" if there is none.
std::string unfinished();

// Summarises all tests that ran, also those of former processes, by level and by function. Returns
// whether a test ran, and none failed.
bool summarise(const std::string &nic, const std::string &peer);
// Throws std::runtime_error if the file cannot be written.
void writeJunit(const std::string &path);

} // namespace results
