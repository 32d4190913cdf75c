// SPDX-License-Identifier: BSD-2-Clause
// Computes each message from the seed.
#include "plan.h"

#include <algorithm>
#include <cstring>

namespace stress
{

// Each power of two is as likely as any other to be the bound, so short lengths dominate. Some lengths are 0, and some the
// most.
static uint32_t length(Random &random, size_t most)
{
	unsigned bits = 0;
	while (size_t{1} << bits < most)
		bits++;
	uint64_t bound = uint64_t{1} << random.below(bits + 1);
	return static_cast<uint32_t>(random.once(64) ? most : std::min<uint64_t>(most, random.below(bound)));
}

static void planWrite(Random &random, Element &element)
{
	element.kind = random.once(2) ? Element::Kind::WriteImmediate : Element::Kind::WriteAndMessage;
	element.writeLength = length(random, kWindow);
	element.writeTo = random.below(kWindow - element.writeLength + 1);
	element.writeContent = random.below(kPatternBytes - kWindow);
	element.hasImmediate |= element.kind == Element::Kind::WriteImmediate;
}

Element planned(const Way &way, uint32_t number, size_t most)
{
	Random random{way.seed, way.from, way.fromLife, way.to, way.toLife, number};
	Element element;
	element.length = length(random, std::min(most, isLarge(number) ? kLarge : kSmall));
	element.content = random.below(kPatternBytes - kLarge);
	element.hasImmediate = random.once(3);
	element.immediate = static_cast<VIP_UINT32>(random.next()) & ~kCredit;
	if (number % kDepth == 1 && random.once(3))
		planWrite(random, element);
	return element;
}

void fillPattern(uint64_t seed, uint8_t *pattern)
{
	Random random{seed};
	for (size_t at = 0; at < kPatternBytes; at += sizeof(uint64_t)) {
		uint64_t word = random.next();
		memcpy(pattern + at, &word, sizeof word);
	}
}

} // namespace stress
