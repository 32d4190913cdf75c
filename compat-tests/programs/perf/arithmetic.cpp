// SPDX-License-Identifier: BSD-2-Clause
/* Tests the arithmetic of vip_perf's measurements. */
#include "arithmetic.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace
{
/* Computed by hand: the mean is 5, squared differences are 9, 1, 1, 9; sqrt(20 / (3 * 4)). */
TEST(Statistics, StandardErrorOfTheMean)
{
	EXPECT_DOUBLE_EQ(standard_error({2, 4, 6, 8}), std::sqrt(20.0 / 12));
	EXPECT_DOUBLE_EQ(standard_error({3, 3, 3}), 0);
	EXPECT_TRUE(std::isnan(standard_error({3})));
}

TEST(Statistics, TheMedianIsInTheMiddleOrBetweenTheTwoThatAre)
{
	EXPECT_DOUBLE_EQ(median({9, 1, 3}), 3);
	EXPECT_DOUBLE_EQ(median({9, 2, 4, 1}), 3);
}

TEST(Paired, ComparesWithinThePairs)
{
	EXPECT_EQ(ratios({{1, 2, 8}, {4, 4, 8}}), Samples({4, 2, 1}));
	EXPECT_EQ(differences({{10, 40, 20}, {11, 38, 20}}), Samples({1, -2, 0}));
}

TEST(Paired, TheOrderChangesFromPairToPairAfterAPairThatDoesNotCount)
{
	std::string order;
	double figure = 0;
	const auto block = [&](char name) {
		return [&, name] {
			order += name;
			return ++figure;
		};
	};
	const Pairs pairs = measure_pairs(3, block('a'), block('b'));

	EXPECT_EQ(order, "abab" "baab");
	EXPECT_EQ(pairs.first, Samples({3, 6, 7}));
	EXPECT_EQ(pairs.second, Samples({4, 5, 8}));
}

/* A simulated transport: each message takes the same time, and each call has an additional time. */
struct Way {
	double each_us, start_us = 0;
	std::vector<uint64_t> counts = {};

	Send sending()
	{
		return [this](uint64_t count) {
			counts.push_back(count);
			return start_us + each_us * static_cast<double>(count);
		};
	}
};

TEST(PaceCount, FillsTheTimeByTheFirstTryThatTakesAnEighthOfIt)
{
	static const struct {
		double us;
		uint64_t first;
		double each_us, start_us;
		uint64_t count;
		std::vector<uint64_t> tries;
	} cases[] = {
		{8000, 2, 10, 0, 800, {2, 8, 32, 128}},
		{8000, 1, 10, 1000, 8, {1}},
		{1000, 0, 1e6, 0, 1, {1}},
		{1e6, 300000, 1e-6, 0, most_messages, {300000, most_messages}},
	};

	for (const auto &one : cases) {
		Way way = {one.each_us, one.start_us};

		EXPECT_EQ(count_for(one.us, one.first, way.sending()), one.count);
		EXPECT_EQ(way.counts, one.tries);
	}
}

TEST(PaceWarmUp, EndsWhenTheTimeIsOverOrThereWereEnough)
{
	Way way = {10}, slow = {1e6}, fast = {0.1};
	uint64_t sent = 0;

	warm_up(60, way.sending());
	EXPECT_EQ(way.counts, (std::vector<uint64_t>{1, 2, 4}));
	warm_up(150000, slow.sending());
	EXPECT_EQ(slow.counts, std::vector<uint64_t>{1});
	warm_up(1e9, fast.sending());
	for (uint64_t count : fast.counts)
		sent += count;
	EXPECT_EQ(sent, warm_messages);
}

TEST(NetpipeSizes, GrowByTheFactorWithNeighboursFromWhereTheseAreFarEnough)
{
	const size_t top = ~(~size_t{0} >> 1); /* the next one would be 0 */

	EXPECT_EQ(netpipe_sizes(4, 300, 4, 0), (std::vector<SizeGroup>{{4}, {16}, {64}, {256}}));
	EXPECT_EQ(netpipe_sizes(4, 40, 2, 3), (std::vector<SizeGroup>{{4}, {8}, {13, 16, 19}, {29, 32, 35}}));
	EXPECT_EQ(netpipe_sizes(64, 127, 2, 3), (std::vector<SizeGroup>{{61, 64, 67}}));
	EXPECT_EQ(netpipe_sizes(top, ~size_t{0}, 2, 0), (std::vector<SizeGroup>{{top}}));
	EXPECT_TRUE(netpipe_sizes(65, 64, 2, 3).empty());
	EXPECT_TRUE(netpipe_sizes(0, 64, 2, 3).empty());
}

/* No size is zero or negative (which would be huge), and no size occurs twice. */
TEST(NetpipeSizes, GrowStrictlyWhateverThePerturbation)
{
	for (size_t from = 1; from <= 40; ++from)
		for (size_t factor = 2; factor <= 5; ++factor)
			for (size_t perturb = 0; perturb <= 200; ++perturb) {
				size_t last = 0;

				for (const SizeGroup &group : netpipe_sizes(from, 1 << 20, factor, perturb))
					for (size_t size : group) {
						ASSERT_GT(size, last) << from << ' ' << factor << ' ' << perturb;
						ASSERT_LE(size, (1 << 20) + perturb);
						last = size;
					}
				ASSERT_GT(last * factor + perturb, size_t{1 << 20});
			}
}
} // namespace
