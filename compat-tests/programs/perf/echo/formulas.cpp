// SPDX-License-Identifier: BSD-2-Clause
/* The formulas by which vip_perf echo, connect and logp compute figures from times. */
#include <cmath>

#include <gtest/gtest.h>

#include "logp_model.h"
#include "statistics.h"

/* Computed by hand: the mean is 5, squared differences are 9, 1, 1, 9; sqrt(20 / (3 * 4)). */
TEST(Statistics, StandardErrorOfTheMean)
{
	EXPECT_DOUBLE_EQ(standard_error({2, 4, 6, 8}), std::sqrt(20.0 / 12));
}

TEST(Statistics, StandardErrorOfEqualSamplesIsNone)
{
	EXPECT_DOUBLE_EQ(standard_error({3, 3, 3}), 0);
}

TEST(Statistics, StandardErrorOfOneSampleIsUnknown)
{
	EXPECT_TRUE(std::isnan(standard_error({3})));
}

/*
 * With twice the samples of the same spread the error is smaller by sqrt((n - 1) / (2 n - 1)), here
 * sqrt(3 / 7).
 */
TEST(Statistics, StandardErrorShrinksWithTheNumberOfSamples)
{
	EXPECT_NEAR(standard_error({2, 4, 6, 8, 2, 4, 6, 8}),
		    standard_error({2, 4, 6, 8}) * std::sqrt(3.0 / 7), 1e-12);
}

/*
 * The example of TR 00-023's appendix: 1 MB in 0.041374 +- 0.001866 s. Its rate is 24.17 MB/s, as
 * the paper says. Its error by the paper's formula is 1.090, though the paper prints 1.044.
 */
TEST(Statistics, RateErrorOfThePapersExample)
{
	EXPECT_NEAR(1 / 0.041374, 24.17, 0.005);
	EXPECT_NEAR(rate_error(1, 0.041374, 0.001866), 1.0901, 0.00005);
}

/* A relative error of the time is the same relative error of the rate. */
TEST(Statistics, RateErrorIsRelative)
{
	EXPECT_DOUBLE_EQ(rate_error(4096, 8, 0.4) / (4096 / 8.0), 0.4 / 8);
}

/*
 * The times are made from o_s = 2, o_r = 3, L = 5, g = 7 and a clock of 0.5. The model has to find
 * these values.
 */
TEST(LogpModel, FindsTheParametersThatTimesWereMadeOf)
{
	LogpTimes times = {};

	times.clock = 0.5;
	times.short_messages = 8;
	times.short_burst = 8 * 2 + 0.5;
	times.long_messages = 256;
	times.long_burst = 11 + 256 * 7;
	times.longer_messages = 1024;
	times.longer_burst = 11 + 1024 * 7;
	times.delayed_send = 2.5; /* delayed sends have colder caches */
	times.saturated = 2.5 + 3;
	times.round_trip = 2 * (2 + 5 + 3);
	const Logp logp = logp_of(times);

	EXPECT_DOUBLE_EQ(logp.send_overhead, 2);
	EXPECT_DOUBLE_EQ(logp.receive_overhead, 3);
	EXPECT_DOUBLE_EQ(logp.latency, 5);
	EXPECT_DOUBLE_EQ(logp.gap, 7);
}
