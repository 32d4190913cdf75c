/* SPDX-License-Identifier: BSD-2-Clause */
// A message has a header that describes it, and a body. Every byte of the body follows from the
// direction, the connection and the message's number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace faults
{

enum Flag : uint32_t {
	kData = 1,   // it has a number of its own; with RDMA reads the receiver reads the body. Without: a note
	kEnded = 2,  // the sender sends no more data
	kBye = 4,    // and knows that the receiver sends none, and has all of it
	kAnswer = 8, // the receiver is to send a note, too
};

// It is in the machine's byte order, because both sides are the same program.
struct Header {
	uint64_t sum; // checksum of the rest
	uint32_t flags;
	// The sender's number of it; a message of another connection must not come here.
	uint32_t connection;
	uint32_t yours;  // the receiver's number of it, 0 if the sender does not know it yet
	uint32_t length; // of the body
	uint64_t number; // of this data, or of the last data before this note
	uint64_t rounds; // that the sender has ended
	uint64_t window; // RDMA: the memory that the receiver may write to, or read from
	uint64_t windowHandle;
};
static_assert(sizeof(Header) == 56);

// One direction of one connection.
struct Way {
	unsigned side;
	uint32_t connection;
};

uint64_t sumOf(const Header &header, const Way &way);
void paint(uint8_t *body, size_t length, const Way &way, uint64_t number);
// Returns the place of the first wrong byte, or `length` if all are right.
size_t mismatch(const uint8_t *body, size_t length, const Way &way, uint64_t number);
// Returns sizes of all kinds, also some near the limits where devices and networks cut messages.
uint32_t lengthOf(uint64_t number, const Way &way, uint32_t largest);

} // namespace faults
