// SPDX-License-Identifier: BSD-2-Clause
// Time, messages to the user, and the messages of the traffic, which are computed from the seed.
#include "stress.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace stress
{

static std::string name = "vip_stress";
static std::atomic<bool> *failed;

Time now()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * kSecond + time.tv_nsec;
}

double inMs(Time time)
{
	return static_cast<double>(time) / kMs;
}

void callMe(const std::string &newName, std::atomic<bool> *newFailed)
{
	name = newName;
	failed = newFailed;
}

__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list arguments)
{
	char text[1024];
	vsnprintf(text, sizeof text, format, arguments);
	std::string line = name + ": " + text + "\n";
	if (write(STDERR_FILENO, line.data(), line.size()) < 0)
		return; // the message is lost
}

void say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print(format, arguments);
	va_end(arguments);
}

void fail(const char *format, ...)
{
	if (!failed || !failed->exchange(true)) {
		va_list arguments;
		va_start(arguments, format);
		print(format, arguments);
		va_end(arguments);
	}
	_exit(1); // ends all threads; the kernel takes back their files and memory
}

void must(VIP_RETURN result, const char *call)
{
	if (result != VIP_SUCCESS)
		fail("%s: %s", call, result_name(result));
}

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
