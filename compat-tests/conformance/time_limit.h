/* SPDX-License-Identifier: BSD-2-Clause */
// The time limit of a test, and of its other end. The process ends after it. It begins anew whenever the test has come a step
// further, as a busy machine may need long for all steps together.
#pragma once

#include <unistd.h>

namespace harness
{

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

} // namespace harness
