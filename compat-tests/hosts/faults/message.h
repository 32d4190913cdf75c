/* SPDX-License-Identifier: BSD-2-Clause */
// A message: a header that says what it is, and a body whose every byte follows from the seed, the
// direction, the connection and the message's number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace faults
{

enum class Kind : uint32_t {
	Data, // numbered; by RDMA read the header alone is sent, and the receiver fetches the body
	Note  // about the connection: not numbered
};
enum Flag : uint32_t {
	kEnded = 1,  // the sender sends no more data
	kBye = 2,    // and has all of the receiver's: it may disconnect
	kAnswer = 4, // the receiver is to send a note, too
};

// In the machine's own byte order: both sides are the same program.
struct Header {
	uint64_t sum; // of all that follows
	uint32_t kind;
	uint32_t connection; // the sender's name of it: nothing of another one may come here
	uint32_t yours;      // the receiver's name of it, 0 if the sender has not heard yet
	uint32_t flags;
	uint64_t number; // of this data, or of the last before this note
	uint64_t seen;   // of the receiver's messages: up to here all have come or are lost
	uint64_t window; // RDMA: what the receiver may write to, or read from
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
// Where the first wrong byte is; `length` if there is none.
size_t mismatch(const uint8_t *body, size_t length, const Way &way, uint64_t number);
// Sizes of all kinds, among them those around what devices and networks cut.
uint32_t lengthOf(uint64_t number, const Way &way, uint32_t largest);

} // namespace faults
