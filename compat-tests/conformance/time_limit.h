/* SPDX-License-Identifier: BSD-2-Clause */
// How long a test, or its other end, may take: then its process is ended.
#pragma once

#include <unistd.h>

namespace harness
{

constexpr unsigned kSecondsPerTest = 90;

// Also by a test of many rounds, at each of them.
inline void beginTimeLimit()
{
	alarm(kSecondsPerTest);
}

} // namespace harness
