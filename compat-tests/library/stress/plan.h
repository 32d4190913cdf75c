/* SPDX-License-Identifier: BSD-2-Clause */
// The traffic that a run's seed asks for. The messages of a connection are numbered, in each
// direction from 0, and sender and receiver both know from sender, receiver and number what a
// message is. So nothing in it has to say so, and messages without a byte can be checked, too.
//
// Number 0 is the hello. Any later one may be a credit message instead, at the sender's choice:
// "so many receives have I posted for you up to now".
#pragma once

#include "stress.h"

#include <cstddef>

namespace stress
{

// Receives posted for each peer, at all times. Message n goes into buffer n mod kDepth; the last of
// them is large, the others are small.
constexpr uint32_t kDepth = 8;
constexpr size_t kSmall = 16 << 10;
constexpr size_t kLarge = 1 << 20;
constexpr size_t kWindow = 64 << 10; // what a peer may write into

inline bool isLarge(uint32_t number)
{
	return number % kDepth == kDepth - 1;
}

// Immediate data of a credit message: this bit, and the number modulo 2^31.
constexpr VIP_UINT32 kCredit = 1U << 31;

// From whom to whom.
struct Way {
	uint64_t seed;
	unsigned from;
	uint32_t fromLife;
	unsigned to;
	uint32_t toLife;
};

struct Element {
	enum class Kind {
		Message,
		WriteAndMessage, // an RDMA write, and the message tells of it
		WriteImmediate,  // an RDMA write with immediate data, which is the message
	};
	Kind kind = Kind::Message;
	uint32_t length = 0; // of the message
	size_t content = 0;  // where in the pattern
	bool hasImmediate = false;
	VIP_UINT32 immediate = 0;
	uint32_t writeLength = 0;
	size_t writeTo = 0; // where in the window
	size_t writeContent = 0;
};

// Number n of this way, if no message may have more than so many bytes. RDMA writes are at least
// kDepth apart, so the credit for the second one says that the first one has been looked at.
Element planned(const Way &way, uint32_t number, size_t most);

// Random bytes that all contents are cut from.
constexpr size_t kPatternBytes = 2 * kLarge;
void fillPattern(uint64_t seed, uint8_t *pattern);

struct Hello {
	uint64_t seed;
	uint32_t rank, life;           // who is speaking
	uint32_t toRank, windowHandle; // to whom
	uint64_t window;
};

} // namespace stress
