/* SPDX-License-Identifier: BSD-2-Clause */
// A message has a header that describes it, and a body. Every byte of the body follows from the
// seed, the direction, the connection and the message's number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace faults
{

enum class Kind : uint32_t {
	Data, // numbered; with RDMA reads only the header is sent, and the receiver reads the body
	Note  // about the connection; without a number
};
enum Flag : uint32_t {
	kEnded = 1,  // the sender sends no more data
	kBye = 2,    // also has all of the receiver's data: it may disconnect
	kAnswer = 4, // the receiver is to send a note, too
};

// It is in the machine's byte order, because both sides are the same program.
struct Header {
	uint64_t sum; // checksum of the rest
	uint32_t kind;
	// The sender's number of it; a message of another connection must not come here.
	uint32_t connection;
	uint32_t yours;      // the receiver's number of it, 0 if the sender does not know it yet
	uint32_t flags;
	uint64_t number; // of this data, or of the last data before this note
	uint64_t seen;   // of the receiver's messages: up to this number all have come or are lost
	uint64_t window; // RDMA: the memory that the receiver may write to, or read from
	uint32_t windowHandle;
	uint32_t length; // of the body
};
static_assert(sizeof(Header) == 56);

// One direction of one connection.
struct Way {
	uint64_t seed;
	unsigned side;
	uint32_t connection;
};

void seal(Header &header, const Way &way);
bool sealed(const Header &header, const Way &way);
void paint(uint8_t *body, size_t length, const Way &way, uint64_t number);
// Returns the place of the first wrong byte, or `length` if all are right.
size_t mismatch(const uint8_t *body, size_t length, const Way &way, uint64_t number);
// Returns sizes of all kinds, also some near the limits where devices and networks cut messages.
uint32_t lengthOf(uint64_t number, const Way &way, uint32_t largest);

} // namespace faults
