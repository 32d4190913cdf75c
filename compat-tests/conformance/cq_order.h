/* SPDX-License-Identifier: BSD-2-Clause */
// Declarations that the tests of a completion queue's order share.
#pragma once

#include "harness.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

// Counts rounds of a test that a race may put out of order. There are $VIPL_TEST_ROUNDS rounds, or by default
// 1000, or as many as a slow host can do in some seconds. Tests with long rounds do one of `oneOf` rounds.
class OrderRounds
{
      public:
	explicit OrderRounds(unsigned oneOf = 1)
	{
		const char *rounds = getenv("VIPL_TEST_ROUNDS");
		most_ = std::max(1U, (rounds ? static_cast<unsigned>(std::stoul(rounds)) : 1000) / oneOf);
		limited_ = !rounds;
	}
	bool next()
	{
		if (count_ == most_ || (limited_ && count_ && Clock::now() > end_))
			return false;
		harness::beginTimeLimit();
		count_++;
		return true;
	}
	// The number of this round, from 0.
	unsigned number() const
	{
		return count_ - 1;
	}

      private:
	using Clock = std::chrono::steady_clock;
	const Clock::time_point end_ = Clock::now() + std::chrono::seconds(5);
	unsigned most_ = 0, count_ = 0;
	bool limited_ = false;
};
