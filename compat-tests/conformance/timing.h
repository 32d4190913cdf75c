/* SPDX-License-Identifier: BSD-2-Clause */
// Time in the conformance tests: the limits of their waits and of tests, how long a call takes, threads that are
// joined, and conditions that no call waits for. A part of harness.h.
#pragma once

#include <gtest/gtest.h>
#include <vipl.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <unistd.h>

namespace harness
{

// The limit, in ms, of every wait that is expected to succeed. It is generous, because the device may be
// emulated.
constexpr VIP_ULONG kPatience = 80000;
// The time, in ms, in which something must not come.
constexpr VIP_ULONG kQuiet = 150;

// The time limit of a test, and of its other end. The process ends after it. It begins anew whenever the test has come a step
// further, as a busy machine may need long for all steps together.
constexpr unsigned kSecondsPerTest = 180; // more than two waits take that are in vain: the test tells of them first

// A test of many rounds calls this at each round.
inline void beginTimeLimit()
{
	alarm(kSecondsPerTest);
}

// The other process has said something, or another one begins. Who has no time limit gets none.
inline void renewTimeLimit()
{
	if (!alarm(kSecondsPerTest))
		alarm(0);
}

using Clock = std::chrono::steady_clock;
class Stopwatch
{
      public:
	double ms() const
	{
		return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
	}

      private:
	Clock::time_point start_ = Clock::now();
};
// A call may take this many ms more on a busy machine. A wait that ignores its timeout takes longer.
constexpr double kBusy = 20000;
// `timed` returns the ms that it took. Each try takes at least `least`. One of several tries takes at most
// `most`, because a busy machine delays the others.
testing::AssertionResult takesBetween(double least, double most,
				      const std::function<double()> &timed);
// The time is not below `asked` (except 1 ms for a coarse clock) and not much above it. `timed` returns its
// time; `call` is timed here.
testing::AssertionResult tellsAbout(double asked, const std::function<double()> &timed);
testing::AssertionResult takesAbout(double asked, const std::function<void()> &call);
// Lets time pass where a test needs that. It never replaces synchronisation.
void letTimePass(int ms);
// A thread that is joined at the end of its scope, so that a fatal failure before the join ends only the
// test.
struct Thread : std::thread {
	using std::thread::thread;
	~Thread()
	{
		if (joinable())
			join();
	}
};
// Makes the call in a thread of its own. The future has the result, and its end joins the thread.
template <typename Call> auto inThread(Call call)
{
	return std::async(std::launch::async, call);
}
// Whether the condition becomes true within the limit; for conditions that no call waits for.
bool eventually(const std::function<bool()> &condition, VIP_ULONG ms = kPatience);

} // namespace harness
