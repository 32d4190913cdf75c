// SPDX-License-Identifier: BSD-2-Clause
#include "overhead_messages.h"

#include <cstring>
#include <string>

#include "failure.h"

namespace
{
/* No two messages share a cache line. */
size_t stride_of(const Traffic &traffic)
{
	return traffic.bytes ? (traffic.bytes + size_t(63)) / 64 * 64 : 64;
}

unsigned ends_of(const Traffic &traffic)
{
	return 2 * traffic.links;
}
} // namespace

size_t Messages::size(const Traffic &traffic)
{
	return 2 * ends_of(traffic) * traffic.window * stride_of(traffic);
}

Messages::Messages(const Traffic &traffic, uint8_t *memory)
    : traffic_(traffic), memory_(memory), stride_(stride_of(traffic)),
      received_(size_t(ends_of(traffic)) * traffic.window)
{
}

uint8_t *Messages::to_send(unsigned end, unsigned slot) const
{
	return memory_ + 2 * (size_t(end) * traffic_.window + slot) * stride_;
}

uint8_t *Messages::to_receive(unsigned end, unsigned slot) const
{
	return to_send(end, slot) + stride_;
}

/*
 * Returns a byte of a message that this end sends. The bytes differ between neighbouring places,
 * slots, ends, and rounds.
 */
uint8_t Messages::expected(unsigned end, unsigned slot, size_t at) const
{
	return static_cast<uint8_t>(at + (at >> 8) + 31 * end + (end >> 3) + 7 * slot +
				    101 * round_);
}

void Messages::prepare()
{
	round_++;
	for (unsigned end = 0; end < ends_of(traffic_); end++)
		for (unsigned slot = 0; slot < traffic_.window; slot++) {
			for (size_t at = 0; at < traffic_.bytes; at++)
				to_send(end, slot)[at] = expected(end, slot, at);
			/*
			 * Fill the receive buffer with bytes that all differ from the expected
			 * ones.
			 */
			for (size_t at = 0; at < traffic_.bytes; at++)
				to_receive(end, slot)[at] =
					static_cast<uint8_t>(~expected(end ^ 1, slot, at));
			received(end)[slot] = {~traffic_.bytes, 0};
		}
}

void Messages::check_one(unsigned end, unsigned slot) const
{
	const Received &received = received_[end * traffic_.window + slot];
	const uint8_t *bytes = to_receive(end, slot);

	if (received.length != traffic_.bytes)
		throw Failure("a message of " + std::to_string(traffic_.bytes) +
			      " bytes came as one of " + std::to_string(received.length));
	if (traffic_.writes && received.immediate != immediate_data)
		throw Failure("a message came with other immediate data than it was sent with");
	for (size_t at = 0; at < traffic_.bytes; at++)
		if (bytes[at] != expected(end ^ 1, slot, at))
			throw Failure("a message is not as it was sent, from byte " +
				      std::to_string(at) + " on");
}

void Messages::check(bool at_both) const
{
	for (unsigned end = 0; end < ends_of(traffic_); end++)
		if (at_both || end % 2)
			for (unsigned slot = 0; slot < traffic_.window; slot++)
				check_one(end, slot);
}
