/* SPDX-License-Identifier: BSD-2-Clause */
// The declarations that all parts of the stress test share: options, time, random numbers, failures.
#pragma once

#include "../../result_names.h"

#include <vipl.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace stress
{

struct Options {
	unsigned processes = 16;
	unsigned seconds = 10;
	double killsPerSecond = 2;
	unsigned bound = 1000; // ms, from the end of a killed process until CONN_LOST
	uint64_t seed = 0;
	std::string nic;
};

using Time = int64_t; // ns, the same clock in all processes
constexpr Time kMs = 1000000;
constexpr Time kSecond = 1000 * kMs;
Time now();
double inMs(Time time);

// The bound, in ms, of events whose time is specified nowhere. The machine may be slow.
constexpr unsigned kPatience = 30000;

class Random
{
      public:
	// The numbers together are the seed: equal numbers give equal sequences.
	Random(std::initializer_list<uint64_t> from)
	{
		for (uint64_t number : from)
			state_ = (state_ ^ number) * 0xD1342543DE82EF95U, state_ = next();
	}
	uint64_t next() // splitmix64
	{
		uint64_t z = state_ += 0x9E3779B97F4A7C15U;
		z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
		z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
		return z ^ (z >> 31);
	}
	uint64_t below(uint64_t limit)
	{
		return next() % limit;
	}
	bool once(unsigned in) // true once in `in` times, on average
	{
		return below(in) == 0;
	}

      private:
	uint64_t state_ = 0;
};

// Sets the name of this process in its messages. Of the processes that share `failed`, only the first one that fails
// prints the reason: its end makes others fail.
void callMe(const std::string &name, std::atomic<bool> *failed);
// Prints one line to standard error, by one write(), so that lines of several processes do not mix.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Prints the reason and ends this process. That ends the test.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(VIP_RETURN result, const char *call); // fails unless VIP_SUCCESS

// Starts the processes of a run, kills and replaces some, watches all, and prints the result. False if anything went wrong.
bool coordinate(const Options &options);

} // namespace stress
