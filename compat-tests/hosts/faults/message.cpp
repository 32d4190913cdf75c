// SPDX-License-Identifier: BSD-2-Clause
// The contents of messages.
#include "message.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

namespace faults
{

static uint64_t mixed(uint64_t z) // as splitmix64 does
{
	z += 0x9E3779B97F4A7C15U;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
	return z ^ (z >> 31);
}

static uint64_t start(const Way &way, uint64_t number)
{
	return mixed(mixed(way.side) + way.connection) + number * 0x100000000U;
}

uint64_t sumOf(const Header &header, const Way &way)
{
	uint64_t words[sizeof(Header) / 8];
	memcpy(words, &header, sizeof words);
	uint64_t sum = mixed(way.side);
	for (size_t i = 1; i < std::size(words); i++)
		sum = mixed(sum ^ words[i]);
	return sum;
}

void paint(uint8_t *body, size_t length, const Way &way, uint64_t number)
{
	uint64_t from = start(way, number);
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = mixed(from + at);
		memcpy(body + at, &word, std::min<size_t>(8, length - at));
	}
}

size_t mismatch(const uint8_t *body, size_t length, const Way &way, uint64_t number)
{
	std::vector<uint8_t> wanted(length);
	paint(wanted.data(), length, way, number);
	return static_cast<size_t>(std::mismatch(wanted.begin(), wanted.end(), body).first - wanted.begin());
}

uint32_t lengthOf(uint64_t number, const Way &way, uint32_t largest)
{
	static constexpr uint32_t kEdges[] = {1, 8, 448, 449, 959, 960, 961, 1024, 4031, 4032, 4033, 8128, 8129};
	uint64_t random = mixed(start(way, number) ^ 0x5A5A5A5A);
	uint64_t choice = random >> 32;
	uint32_t length;
	if (random % 4 == 0)
		length = kEdges[choice % std::size(kEdges)];
	else
		length = static_cast<uint32_t>(1 + choice % (random % 4 == 1 ? largest : 256));
	return std::min(length, largest);
}

} // namespace faults
