/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the number of messages for a measurement of a given duration. */
#ifndef VIP_PERF_PACE_H
#define VIP_PERF_PACE_H

#include <cstdint>
#include <functional>

constexpr uint64_t most_messages = 1000000; /* in one order */

/* Sends `count` messages and returns the microseconds that they took. */
using Send = std::function<double(uint64_t count)>;

/*
 * Returns a number of messages, at least 1, that takes about that long. It tries `first` messages,
 * and then more.
 */
uint64_t count_for(double us, uint64_t first, const Send &send);

/*
 * The first messages of a run are slow, on an emulated machine for a while. warm_up() sends one,
 * two, four, ... messages, until they take `us` or until warm_messages have gone, which are enough
 * on any machine.
 */
constexpr uint64_t warm_messages = 10000;
void warm_up(double us, const Send &send);

#endif
