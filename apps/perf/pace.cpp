// SPDX-License-Identifier: BSD-2-Clause
#include "pace.h"

#include <algorithm>
#include <cmath>

uint64_t count_for(double us, uint64_t first, const Send &send)
{
	uint64_t count = std::clamp<uint64_t>(first, 1, most_messages);
	double taken;

	while (taken = send(count), taken < us / 8 && count < most_messages)
		count = std::min(count * 4, most_messages);
	return static_cast<uint64_t>(std::clamp(std::round(static_cast<double>(count) * us / taken),
						1.0, static_cast<double>(most_messages)));
}

void warm_up(double us, const Send &send)
{
	double taken = 0;
	uint64_t sent = 0;

	for (uint64_t count = 1; taken < us && sent < warm_messages; count *= 2) {
		count = std::min(count, warm_messages - sent);
		taken += send(count);
		sent += count;
	}
}
