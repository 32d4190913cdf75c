// SPDX-License-Identifier: BSD-2-Clause
// Sends data, as much as the window allows, and notes.
#include "traffic.h"

#include <cinttypes>
#include <cstring>

namespace faults
{

constexpr double kAskAgain = 200;               // ms, at the unreliable level
constexpr uint64_t kSpoilt = 5;                 // the message with the fault
constexpr uint64_t kTellAt = Room::kWindow / 2; // after this many the peer must learn of them

Header Traffic::header(Kind kind, uint64_t number, uint32_t length) const
{
	const uint8_t *window = isRead() ? room_.buffer(Room::kSend) : room_.buffer(Room::kInbox);
	Header header{};
	header.kind = static_cast<uint32_t>(kind);
	header.connection = out_.connection;
	header.yours = in_.connection;
	header.flags = ended_ ? static_cast<uint32_t>(kEnded) : 0;
	header.number = number;
	header.seen = seen_;
	header.window = reinterpret_cast<uintptr_t>(window);
	header.windowHandle = room_.handle();
	header.length = length;
	return header;
}

void Traffic::post(VIP_DESCRIPTOR *descriptor, Posted::What what, uint64_t number)
{
	posted_.push_back({descriptor, what, number});
	side_.postSend(descriptor);
}

bool Traffic::spoils(Spoil how) const
{
	return sent_ == kSpoilt && side_.options.spoil == how;
}

void Traffic::sendData()
{
	uint64_t slot = sent_++ % Room::kWindow;
	uint8_t *message = room_.buffer(Room::kSend + static_cast<unsigned>(slot));
	VIP_DESCRIPTOR *descriptor = room_.descriptor(Room::kSend + static_cast<unsigned>(slot));
	if (spoils(Spoil::Missing))
		skew_ = 1;
	if (spoils(Spoil::Twice))
		skew_ = UINT64_MAX; // -1: the number is that of the message before
	uint64_t number = sent_ + skew_;
	uint32_t length = lengthOf(number, out_, side_.largest);
	Header head = header(Kind::Data, number, length);
	seal(head, out_);
	memcpy(message, &head, sizeof head);
	paint(message + sizeof head, length, out_, number);
	if (spoils(Spoil::Byte))
		message[sizeof head] ^= 1;
	uint32_t bytes = static_cast<uint32_t>(sizeof head) + (isRead() ? 0 : length);
	if (isWrite()) {
		Remote target = {peerWindow_.address + slot * room_.slotBytes(),
				 peerWindow_.handle};
		describe(descriptor, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, message,
			 bytes, room_.handle(), &target);
		descriptor->CS.ImmediateData = static_cast<VIP_UINT32>(slot);
	} else {
		describe(descriptor, VIP_CONTROL_OP_SENDRECV, message, bytes, room_.handle());
	}
	seenTold_ = seen_;
	post(descriptor, Posted::Data, sent_);
}

void Traffic::sendNote(uint32_t flags)
{
	unsigned slot = Room::kWindow + nextNote_++ % Room::kNotes;
	Header head = header(Kind::Note, sent_ + skew_, 0);
	head.flags |= flags;
	seal(head, out_);
	memcpy(room_.buffer(Room::kSend + slot), &head, sizeof head);
	describe(room_.descriptor(Room::kSend + slot), VIP_CONTROL_OP_SENDRECV, room_.buffer(Room::kSend + slot), sizeof head,
		 room_.handle());
	notesOut_++;
	noteAt_ = now();
	seenTold_ = seen_;
	answerDue_ = false;
	endTold_ = ended_;
	post(room_.descriptor(Room::kSend + slot), Posted::Note, 0);
}

bool Traffic::mayEnd()
{
	const Options &options = side_.options;
	return sent_ >= options.messages || now() >= endsAt_ || side_.signal.rung();
}

bool Traffic::noteIsDue()
{
	if (answerDue_ || ended_ != endTold_)
		return true;
	if (seen_ - seenTold_ >= kTellAt || (hasAllOfPeer() && seenTold_ != seen_))
		return true;
	// A note that may have been lost is requested again.
	return isUnreliable() && now() - noteAt_ > kAskAgain &&
	       (!heardBack_ || acked_ != sent_ || !peerEnded_ || !peerBye_);
}

void Traffic::sendWhatMay()
{
	if (!ended_ && heardBack_ && mayEnd())
		ended_ = true;
	// The slot of a send may be used again when the send is done and the peer has seen its
	// data.
	double due = (now() - began_) / 1e3 * side_.options.rate;
	while (!ended_ && heardBack_ && sent_ - acked_ < Room::kWindow &&
	       sent_ - done_ < Room::kWindow && sent_ < side_.options.messages &&
	       static_cast<double>(sent_) < due)
		sendData();
	if (notesOut_ == Room::kNotes)
		return;
	bool isBye = hasAll() && heardBack_;
	if (isBye && (!byeSent_ || (isUnreliable() && noteIsDue()))) {
		if (!byeSent_)
			byeAt_ = now();
		byeSent_ = true;
		sendNote(peerBye_ ? kBye : kBye | kAnswer);
	} else if (!byeSent_ && noteIsDue()) {
		bool isQuestion = isUnreliable() && now() - noteAt_ > kAskAgain;
		sendNote(isQuestion ? static_cast<uint32_t>(kAnswer) : 0);
	}
}

void Traffic::sendTaken(const VIP_DESCRIPTOR *descriptor)
{
	constexpr VIP_UINT32 kBroken = VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR;
	if (posted_.empty() || posted_.front().descriptor != descriptor)
		wrong("a send is done before one that was posted earlier");
	Posted posted = posted_.front();
	posted_.pop_front();
	VIP_UINT32 error = descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
	if (posted.what == Posted::Note)
		notesOut_--;
	if (error) {
		if (error & ~kBroken)
			wrong("a send ends with status %s",
			      status_names(descriptor->CS.Status).c_str());
		side_.tellFlushed("send", descriptor);
		broken_ = sendsFail_ = true;
		return;
	}
	if (sendsFail_)
		wrong("a send succeeds after one that failed");
	if (posted.what == Posted::Data)
		done_ = posted.number;
	if (posted.what == Posted::Pull) {
		Pulled pulled = pulls_.front();
		pulls_.pop_front();
		takeBody(room_.buffer(Room::kPull + static_cast<unsigned>(pulled.number % Room::kWindow)),
			 pulled.number, pulled.length);
	}
}

} // namespace faults
