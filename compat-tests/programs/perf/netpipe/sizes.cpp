// SPDX-License-Identifier: BSD-2-Clause
/* Tests NetPIPE's message sizes. */
#include "sizes.h"

#include <gtest/gtest.h>

namespace
{
std::vector<size_t> flat(const std::vector<SizeGroup> &groups)
{
	std::vector<size_t> sizes;

	for (const SizeGroup &group : groups)
		sizes.insert(sizes.end(), group.begin(), group.end());
	return sizes;
}

TEST(NetpipeSizes, DoubleWithoutPerturbation)
{
	EXPECT_EQ(flat(netpipe_sizes(1, 16, 2, 0)), (std::vector<size_t>{1, 2, 4, 8, 16}));
}

TEST(NetpipeSizes, ArePerturbedFromWhereNeighboursAreFarEnough)
{
	EXPECT_EQ(flat(netpipe_sizes(1, 40, 2, 3)),
		  (std::vector<size_t>{1, 2, 4, 8, 13, 16, 19, 29, 32, 35}));
}

TEST(NetpipeSizes, OfOneSizeAreOneGroup)
{
	EXPECT_EQ(netpipe_sizes(64, 127, 2, 3), (std::vector<SizeGroup>{{61, 64, 67}}));
}

TEST(NetpipeSizes, GrowByTheFactor)
{
	EXPECT_EQ(flat(netpipe_sizes(4, 300, 4, 0)), (std::vector<size_t>{4, 16, 64, 256}));
}

TEST(NetpipeSizes, AreNoneWhenTheFirstIsTooLongOrZero)
{
	EXPECT_TRUE(netpipe_sizes(65, 64, 2, 3).empty());
	EXPECT_TRUE(netpipe_sizes(0, 64, 2, 3).empty());
}

TEST(NetpipeSizes, EndWhereNumbersDo)
{
	const size_t top = ~(~size_t{0} >> 1);

	EXPECT_EQ(flat(netpipe_sizes(top, ~size_t{0}, 2, 0)), (std::vector<size_t>{top}));
}

/* No size is zero or negative (which would be huge), and no size occurs twice. */
TEST(NetpipeSizes, GrowStrictlyWhateverThePerturbation)
{
	for (size_t from = 1; from <= 40; ++from)
		for (size_t factor = 2; factor <= 5; ++factor)
			for (size_t perturb = 0; perturb <= 200; ++perturb) {
				const size_t to = 1 << 20;
				size_t last = 0;

				for (size_t size : flat(netpipe_sizes(from, to, factor, perturb))) {
					ASSERT_GT(size, last)
						<< from << ' ' << factor << ' ' << perturb;
					ASSERT_LE(size, to + perturb);
					last = size;
				}
				ASSERT_GT(last * factor + perturb, to);
			}
}
} // namespace
