// SPDX-License-Identifier: BSD-2-Clause
/* Tests the ratios of pairs, and the order in which pairs are measured. */
#include "paired.h"

#include <gtest/gtest.h>

namespace
{
TEST(Paired, TheRatioIsTheMedianOfThePairsRatios)
{
	/* The medians are 2 and 4, and the pairs' ratios are 4, 2, 1. */
	const Comparison result = compare({{1, 2, 8}, {4, 4, 8}});

	EXPECT_DOUBLE_EQ(result.ratio, 2);
	EXPECT_DOUBLE_EQ(result.first, 2);
	EXPECT_DOUBLE_EQ(result.second, 4);
}

TEST(Paired, ADriftThatBothShareIsNotInTheRatio)
{
	/*
	 * The pairs become slower, and the second value is a tenth above the first in each. The
	 * ratio of the medians would compare values of different pairs.
	 */
	const Comparison result = compare({{10, 40, 20, 80}, {11, 44, 22, 88}});

	EXPECT_DOUBLE_EQ(result.ratio, 1.1);
	EXPECT_DOUBLE_EQ(result.first, 30);
	EXPECT_DOUBLE_EQ(result.second, 33);
}

TEST(Paired, AnOutlierOfOnePairDoesNotCount)
{
	EXPECT_DOUBLE_EQ(compare({{10, 10, 10}, {12, 900, 12}}).ratio, 1.2);
}

TEST(Paired, OfAnEvenNumberTheTwoInTheMiddleCount)
{
	EXPECT_DOUBLE_EQ(compare({{1, 1, 1, 1}, {9, 2, 4, 1}}).ratio, 3);
}

TEST(Paired, DifferencesAreThoseWithinThePairs)
{
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
} // namespace
