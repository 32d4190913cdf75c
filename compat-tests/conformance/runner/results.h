// What became of each test. A library under test may crash or hang; main.cpp then starts the program
// anew, and what is here outlives that.
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

// Whether the program was started anew, and this goes on with what there is.
bool open();
void add(const Result &result);
// Everything so far, in the order of running.
std::vector<Result> all();

// The same as add() for a test that will not return, in two steps: the first before it runs, the
// second from a signal handler.
void prepare(const std::string &test);
void addUnreturned(Outcome outcome);

const char *name(Outcome outcome);
bool isFailure(Outcome outcome);

} // namespace results
