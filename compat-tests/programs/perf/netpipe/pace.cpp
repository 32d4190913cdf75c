// SPDX-License-Identifier: BSD-2-Clause
/* Tests the choice of the number of messages for a figure. */
#include "pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace
{
/* A simulated transport: each message takes the same time, and each call has an additional time. */
class Way
{
public:
	explicit Way(double each_us, double start_us = 0) : each_us_(each_us), start_us_(start_us)
	{
	}
	double operator()(uint64_t count)
	{
		counts.push_back(count);
		return start_us_ + each_us_ * static_cast<double>(count);
	}

	std::vector<uint64_t> counts;

private:
	double each_us_, start_us_;
};

using Counts = std::vector<uint64_t>;

TEST(PaceCount, FillsTheTime)
{
	Way way(10);

	EXPECT_EQ(count_for(8000, 2, std::ref(way)), 800U);
	EXPECT_EQ(way.counts, (Counts{2, 8, 32, 128}));
}

TEST(PaceCount, GoesByTheFirstTryThatTakesAnEighthOfTheTime)
{
	Way way(10, 1000);

	EXPECT_EQ(count_for(8000, 1, std::ref(way)), 8U);
	EXPECT_EQ(way.counts, Counts{1});
}

TEST(PaceCount, IsOneOfMessagesThatTakeLonger)
{
	Way way(1e6);

	EXPECT_EQ(count_for(1000, 0, std::ref(way)), 1U);
	EXPECT_EQ(way.counts, Counts{1});
}

TEST(PaceCount, NeverSendsMoreThanTheMost)
{
	Way way(1e-6);

	EXPECT_EQ(count_for(1e6, 300000, std::ref(way)), most_messages);
	EXPECT_EQ(way.counts, (Counts{300000, most_messages}));
}

TEST(PaceWarmUp, EndsWhenTheTimeIsOver)
{
	Way way(10);

	warm_up(60, std::ref(way));
	EXPECT_EQ(way.counts, (Counts{1, 2, 4}));
}

TEST(PaceWarmUp, IsOneOfMessagesThatTakeLonger)
{
	Way way(1e6);

	warm_up(150000, std::ref(way));
	EXPECT_EQ(way.counts, Counts{1});
}

TEST(PaceWarmUp, EndsWhenThereWereEnough)
{
	Way way(0.1);
	uint64_t sent = 0;

	warm_up(1e9, std::ref(way));
	for (uint64_t count : way.counts)
		sent += count;
	EXPECT_EQ(sent, warm_messages);
}
} // namespace
