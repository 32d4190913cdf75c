// SPDX-License-Identifier: BSD-2-Clause
// Receives messages and compares them with what was sent.
#include "traffic.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

namespace faults
{

void Traffic::receiveTaken(VIP_DESCRIPTOR *descriptor)
{
	VIP_UINT32 error = descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
	unsigned slot = side_.receiveSlot(descriptor);
	if (error == VIP_STATUS_DESC_FLUSHED_ERROR) {
		side_.tellFlushed("receive", descriptor);
		broken_ = receivesFail_ = true;
		return;
	}
	if (receivesFail_)
		wrong("a message comes after a receive that was flushed");
	// A part of an unreliable message may be lost.
	if (error && (!isUnreliable() || error & ~(VIP_STATUS_PARTIAL_ERROR | VIP_STATUS_LENGTH_ERROR)))
		wrong("a receive ends with status %s", status_names(descriptor->CS.Status).c_str());
	if (!error)
		takeMessage(descriptor->CS.Status & VIP_STATUS_IMMEDIATE ? writtenTo(descriptor) : room_.buffer(slot),
			    descriptor->CS.Length);
	side_.postReceive(slot);
}

const uint8_t *Traffic::writtenTo(const VIP_DESCRIPTOR *descriptor) const
{
	VIP_UINT32 operation = descriptor->CS.Status & VIP_STATUS_OP_MASK;
	VIP_UINT32 slot = descriptor->CS.ImmediateData;
	if (operation != VIP_STATUS_OP_REMOTE_RDMA_WRITE || slot >= Room::kTwoRounds)
		wrong("immediate data %u with operation %x", slot, operation);
	return room_.buffer(Room::kInbox + slot);
}

void Traffic::takeMessage(const uint8_t *message, size_t length)
{
	Header header;
	memcpy(&header, message, sizeof header);
	bool isData = header.flags & kData;
	if (length < sizeof header || header.sum != sumOf(header, in_))
		wrong("a header is wrong after number %" PRIu64 ", in %zu bytes", announced_, length);
	if (length != sizeof header + (isData && !isRead() ? header.length : 0) || header.length > side_.options.largest)
		wrong("number %" PRIu64 " has %zu bytes for %u", header.number, length, header.length);
	bool hadEnded = peerFlags_ & kEnded;
	takeHeader(header);
	bool isNew = isNext(header);
	if (!isData)
		return;
	if (!isNew)
		checkBody(message + sizeof header, header.number, header.length);
	else if (hadEnded)
		wrong("number %" PRIu64 " comes after the end", header.number);
	else if (isRead())
		pull(header);
	else
		takeBody(message + sizeof header, header.number, header.length);
}

// Reads what does not depend on the order of messages.
void Traffic::takeHeader(const Header &header)
{
	if (!in_.connection) {
		in_.connection = header.connection;
		peerWindow_ = {header.window, static_cast<VIP_MEM_HANDLE>(header.windowHandle)};
	}
	if (header.connection != in_.connection || (header.yours && header.yours != out_.connection))
		wrong("a message of another connection: %u to %u in that of %u and %u", header.connection, header.yours,
		      in_.connection, out_.connection);
	if (header.rounds > rounds_ + 1)
		wrong("the peer has ended %" PRIu64 " rounds, and this side %" PRIu64, header.rounds, rounds_);
	peerRounds_ = std::max(peerRounds_, header.rounds);
	peerFlags_ |= header.flags & (kEnded | kBye);
	answerDue_ |= (header.flags & kAnswer) != 0;
}

// Messages come in the order of their numbers, and a note has the number of the data before it. Returns false if this
// one came before or was counted as lost.
bool Traffic::isNext(const Header &header)
{
	uint64_t next = announced_ + (header.flags & kData ? 1 : 0);
	if (header.number < next) {
		if (!side_.options.unordered)
			wrong("number %" PRIu64 " comes after number %" PRIu64, header.number, announced_);
		return false;
	}
	if (header.number > next && !isUnreliable())
		wrong("number %" PRIu64 " comes next to number %" PRIu64, header.number, announced_);
	missing_ += header.number - next;
	announced_ = header.number;
	return true;
}

void Traffic::pull(const Header &header)
{
	unsigned slot = Room::kPull + header.number % Room::kTwoRounds;
	Remote source = {peerWindow_.address + (header.number - 1) % Room::kTwoRounds * room_.slotBytes + sizeof header,
			 peerWindow_.handle};
	memset(room_.buffer(slot), 0, header.length);
	describe(room_.descriptor(slot), VIP_CONTROL_OP_RDMAREAD, room_.buffer(slot), header.length, room_.handle, &source);
	post({room_.descriptor(slot), 0, header.number, header.length});
}

void Traffic::checkBody(const uint8_t *body, uint64_t number, uint32_t length) const
{
	size_t at = mismatch(body, length, in_, number);
	if (at != length)
		wrong("byte %zu of %u of number %" PRIu64 " is wrong", at, length, number);
}

void Traffic::takeBody(const uint8_t *body, uint64_t number, uint32_t length)
{
	checkBody(body, number, length);
	received_++;
}

uint64_t Traffic::stored() const
{
	uint64_t last = 0;
	for (unsigned slot = 0; slot < Room::kTwoRounds; slot++) {
		Header header;
		memcpy(&header, room_.buffer(Room::kInbox + slot), sizeof header);
		const uint8_t *body = room_.buffer(Room::kInbox + slot) + sizeof header;
		if (header.connection == in_.connection && in_.connection && header.sum == sumOf(header, in_) &&
		    mismatch(body, header.length, in_, header.number) == header.length)
			last = std::max(last, header.number);
	}
	return last;
}

} // namespace faults
