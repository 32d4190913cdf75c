/* SPDX-License-Identifier: BSD-2-Clause */
// The traffic of a run, which follows from its seed. The messages of a connection are numbered, in each direction from 0.
// Sender and receiver both compute a message from sender, receiver and number. So a message need not describe itself, and
// messages of no bytes can be checked, too.
//
// Instead of any message the sender may send a credit message, which tells the number of receives that it has posted for
// the receiver up to now.
#pragma once

#include "stress.h"

#include <cstddef>

namespace stress
{

// The number of receives that are posted for each peer, at all times. Message n goes from and into buffers n mod kDepth.
// The last buffer is large, the others are small.
constexpr uint32_t kDepth = 8;
constexpr size_t kSmall = 16 << 10;
constexpr size_t kLarge = 512 << 10;
constexpr size_t kWindow = 64 << 10; // the memory that a peer may write into

inline bool isLarge(uint32_t number)
{
	return number % kDepth == kDepth - 1;
}

// Immediate data of a credit message: this bit, and the number of receives modulo 2^31.
constexpr VIP_UINT32 kCredit = 1U << 31;

// A sender and a receiver.
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
		WriteAndMessage, // an RDMA write, and a message after it
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

// Message `number` of this way, of at most `most` bytes. RDMA writes are at least kDepth messages apart. So the credit for
// the second one says that the receiver has checked the first one.
Element planned(const Way &way, uint32_t number, size_t most);

// Random bytes. The contents of all messages are cut from them.
constexpr size_t kPatternBytes = 2 * kLarge;
void fillPattern(uint64_t seed, uint8_t *pattern);

} // namespace stress
