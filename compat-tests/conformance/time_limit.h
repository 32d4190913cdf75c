/* SPDX-License-Identifier: BSD-2-Clause */
// The time limit of a test, and of its other end. The process ends after it.
#pragma once

#include <unistd.h>

namespace harness
{

constexpr unsigned kSecondsPerTest = 90;

// A test of many rounds calls this at each round.
inline void beginTimeLimit()
{
	alarm(kSecondsPerTest);
}

} // namespace harness
