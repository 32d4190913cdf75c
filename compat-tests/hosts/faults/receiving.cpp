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
	if (error == VIP_STATUS_DESC_FLUSHED_ERROR) {
		side_.tellFlushed("receive", descriptor);
		broken_ = receivesFail_ = true;
		return;
	}
	if (receivesFail_)
		wrong("a message comes after a receive that was flushed");
	if (error) { // a part of an unreliable message was lost
		if (!isUnreliable() ||
		    error & ~(VIP_STATUS_PARTIAL_ERROR | VIP_STATUS_LENGTH_ERROR))
			wrong("a receive ends with status %s",
			      status_names(descriptor->CS.Status).c_str());
		damaged_++;
	} else if (descriptor->CS.Status & VIP_STATUS_IMMEDIATE) {
		takeMessage(descriptor, writtenTo(descriptor));
	} else {
		takeMessage(descriptor, room_.buffer(side_.receiveSlot(descriptor)));
	}
	side_.postReceive(side_.receiveSlot(descriptor));
}

const uint8_t *Traffic::writtenTo(const VIP_DESCRIPTOR *descriptor) const
{
	VIP_UINT32 operation = descriptor->CS.Status & VIP_STATUS_OP_MASK;
	VIP_UINT32 slot = descriptor->CS.ImmediateData;
	if (operation != VIP_STATUS_OP_REMOTE_RDMA_WRITE || slot >= Room::kWindow)
		wrong("immediate data %u with operation %x", slot, operation);
	return room_.buffer(Room::kInbox + slot);
}

void Traffic::takeMessage(const VIP_DESCRIPTOR *descriptor, const uint8_t *message)
{
	Header header;
	size_t length = descriptor->CS.Length;
	if (length < sizeof header)
		wrong("a message of %zu bytes", length);
	memcpy(&header, message, sizeof header);
	if (!sealed(header, in_))
		wrong("a header is wrong after number %" PRIu64, announced_);
	bool isData = header.kind == static_cast<uint32_t>(Kind::Data);
	size_t body = isData && !isRead() ? header.length : 0;
	if (length != sizeof header + body)
		wrong("number %" PRIu64 " has %zu bytes instead of %zu", header.number, length,
		      sizeof header + body);
	takeHeader(header);
	if (isData)
		takeData(header, message + sizeof header);
	else
		takeNote(header);
}

// Reads the fields that every message has.
void Traffic::takeHeader(const Header &header)
{
	if (!in_.connection) {
		in_.connection = header.connection;
		peerWindow_ = {header.window, header.windowHandle};
	}
	if (header.connection != in_.connection ||
	    (header.yours && header.yours != out_.connection))
		wrong("a message of another connection: %u to %u in that of %u and %u",
		      header.connection, header.yours, in_.connection, out_.connection);
	if (header.yours)
		heardBack_ = true;
	bool isLate = header.seen < acked_ && side_.options.unordered;
	if ((header.seen < acked_ && !isLate) || header.seen > sent_ + skew_)
		wrong("the peer has seen %" PRIu64 " after %" PRIu64 ", of %" PRIu64, header.seen,
		      acked_, sent_);
	acked_ = std::max(acked_, header.seen);
	if (header.flags & kAnswer)
		answerDue_ = true;
	if (header.flags & kBye)
		peerBye_ = true;
}

// Data comes in the order of its numbers. Returns false if this data came before or was counted as
// lost.
bool Traffic::isNext(const Header &header)
{
	if (header.number <= announced_) {
		if (!side_.options.unordered)
			wrong("number %" PRIu64 " comes after number %" PRIu64, header.number,
			      announced_);
		late_++;
		return false;
	}
	uint64_t lost = header.number - announced_ - 1;
	if (lost && !isUnreliable())
		wrong("number %" PRIu64 " comes next to number %" PRIu64, header.number,
		      announced_);
	missing_ += lost;
	announced_ = header.number;
	return true;
}

void Traffic::takeData(const Header &header, const uint8_t *body)
{
	if (header.length > side_.largest && header.length > side_.options.largest)
		wrong("number %" PRIu64 " has %u bytes", header.number, header.length);
	if (!isNext(header))
		checkBody(body, header.number, header.length);
	else if (peerEnded_)
		wrong("number %" PRIu64 " comes after the end", header.number);
	else if (isRead())
		pull(header);
	else
		takeBody(body, header.number, header.length);
}

void Traffic::takeNote(const Header &header)
{
	if (header.number < announced_ && !side_.options.unordered)
		wrong("a note after number %" PRIu64 " comes after number %" PRIu64, header.number,
		      announced_);
	if (header.number > announced_) {
		if (!isUnreliable())
			wrong("number %" PRIu64 " is lost", announced_ + 1);
		missing_ += header.number - announced_;
		announced_ = seen_ = header.number;
	}
	if (header.flags & kEnded) {
		peerEnded_ = true;
		peerLast_ = header.number;
	}
}

void Traffic::pull(const Header &header)
{
	unsigned slot = static_cast<unsigned>(header.number % Room::kWindow);
	Remote source = {peerWindow_.address +
				 (header.number - 1) % Room::kWindow * room_.slotBytes() +
				 sizeof header,
			 peerWindow_.handle};
	memset(room_.buffer(Room::kPull + slot), 0, header.length);
	describe(room_.descriptor(Room::kPull + slot), VIP_CONTROL_OP_RDMAREAD, room_.buffer(Room::kPull + slot), header.length,
		 room_.handle(), &source);
	pulls_.push_back({header.number, header.length});
	post(room_.descriptor(Room::kPull + slot), Posted::Pull, header.number);
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
	bytes_ += length;
	seen_ = number;
}

uint64_t Traffic::stored() const
{
	uint64_t last = 0;
	for (unsigned slot = 0; slot < Room::kWindow; slot++) {
		Header header;
		memcpy(&header, room_.buffer(Room::kInbox + slot), sizeof header);
		const uint8_t *body = room_.buffer(Room::kInbox + slot) + sizeof header;
		if (header.connection == in_.connection && in_.connection && sealed(header, in_) &&
		    mismatch(body, header.length, in_, header.number) == header.length)
			last = std::max(last, header.number);
	}
	return last;
}

} // namespace faults
