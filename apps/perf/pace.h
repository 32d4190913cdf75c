/* SPDX-License-Identifier: BSD-2-Clause */
/* How many messages to send for a figure, when nothing is known but for how long it may take. */
#ifndef VIP_PERF_PACE_H
#define VIP_PERF_PACE_H

#include <cstdint>
#include <functional>

constexpr uint64_t most_messages = 1000000; /* at once */

/* Sends so many, and returns the microseconds that they took. */
using Send = std::function<double(uint64_t count)>;

/* A number that takes about so long, from 1 on: found by trying, `first` of them and then more. */
uint64_t count_for(double us, uint64_t first, const Send &send);

/*
 * The first messages of all are slow, on an emulated machine for a while: sends one, two, four, ...
 * until they took so long, or until there were as many as are enough on any machine.
 */
constexpr uint64_t warm_messages = 10000;
void warm_up(double us, const Send &send);

#endif
