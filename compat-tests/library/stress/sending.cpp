// SPDX-License-Identifier: BSD-2-Clause
// Sends a link's messages.
#include "link.h"

#include <algorithm>
#include <cstring>

namespace stress
{

constexpr uint8_t kUsed = 0xEE; // overwrites the buffer of a send that is done

// A side sends a credit message when it owes kOwed receives. It always leaves one receive of the
// peer for a credit message. kOwed is more than 1: of two sides that have used up all their
// receives and whose credits cross, one has receives again.
constexpr uint32_t kOwed = kDepth / 2;

Way Link::outward() const
{
	return {home_.options.seed, home_.rank, home_.life, peer_, peerLife_};
}

bool Link::step()
{
	if (!isUp() || sent_ - sendsDone_ >= kDepth || sent_ == granted_)
		return false;
	bool first = sent_ == 0;
	bool owes = receivesPosted_ - announced_ >= kOwed;
	if (!first && !owes && (!heard_ || granted_ - sent_ <= 1))
		return false;
	if (first)
		sendHello();
	else if (owes)
		sendCredit();
	else
		sendPlanned();
	sent_++;
	if (!sendsOnCq() && home_.random.once(16))
		waitSends();
	return true;
}

void Link::post(const Posted &posted)
{
	if (posted_.empty())
		oldestPosted_ = now();
	posted_.push_back(posted);
	posted.descriptor->CS.Status = 0;
	must(VipPostSend(vi_, posted.descriptor, room_.handle()), "VipPostSend");
}

static void start(VIP_DESCRIPTOR *descriptor, VIP_UINT16 control, VIP_UINT32 immediate)
{
	memset(&descriptor->CS, 0, sizeof descriptor->CS);
	descriptor->CS.Control = control;
	descriptor->CS.ImmediateData = immediate;
}

void Link::sendHello()
{
	Hello hello{home_.options.seed, home_.rank,
		    home_.life,         peer_,
		    window_.handle(),   reinterpret_cast<uintptr_t>(window_.data())};
	VIP_DESCRIPTOR *descriptor = sendDescriptor(sent_, 0);
	memcpy(sendBuffer(sent_), &hello, sizeof hello);
	start(descriptor, VIP_CONTROL_OP_SENDRECV, 0);
	cut(descriptor, 0, 1, sendBuffer(sent_), sizeof hello, room_.handle(), home_.random);
	post({descriptor, VIP_STATUS_OP_SEND, true, sendBuffer(sent_), sizeof hello, false});
}

void Link::sendCredit()
{
	announced_ = receivesPosted_;
	VIP_DESCRIPTOR *descriptor = sendDescriptor(sent_, 0);
	start(descriptor, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE, kCredit | announced_);
	post({descriptor, VIP_STATUS_OP_SEND, true, nullptr, 0, false});
}

void Link::sendPlanned()
{
	Element element = planned(outward(), sent_, home_.largest);
	if (element.kind != Element::Kind::Message)
		sendWrite(element);
	if (element.kind != Element::Kind::WriteImmediate)
		sendMessage(element);
}

// Sends from a buffer that is overwritten when the send is done, or straight from the pattern.
void Link::sendMessage(const Element &element)
{
	uint8_t *from = stock_.pattern.data() + element.content, *buffer = nullptr;
	VIP_MEM_HANDLE handle = stock_.pattern.handle();
	bool large = element.length > kSmall;
	if (!home_.random.once(4))
		buffer = large ? stock_.large.take() : sendBuffer(sent_);
	if (buffer) {
		memcpy(buffer, from, element.length);
		from = buffer;
		handle = large ? stock_.large.region.handle() : room_.handle();
	}
	VIP_DESCRIPTOR *descriptor = sendDescriptor(sent_, 0);
	auto control = static_cast<VIP_UINT16>(element.hasImmediate ? VIP_CONTROL_IMMEDIATE : 0);
	start(descriptor, VIP_CONTROL_OP_SENDRECV | control, element.immediate);
	cut(descriptor, 0, static_cast<unsigned>(home_.attributes.MaxSegmentsPerDesc), from,
	    element.length, handle, home_.random);
	post({descriptor, VIP_STATUS_OP_SEND, true, buffer, element.length, large && buffer});
}

void Link::sendWrite(const Element &element)
{
	bool last = element.kind == Element::Kind::WriteImmediate;
	VIP_DESCRIPTOR *descriptor = sendDescriptor(sent_, 1);
	auto control = static_cast<VIP_UINT16>(last ? VIP_CONTROL_IMMEDIATE : 0);
	start(descriptor, VIP_CONTROL_OP_RDMAWRITE | control, element.immediate);
	descriptor->DS[0].Remote.Data.AddressBits = peerWindow_ + element.writeTo;
	descriptor->DS[0].Remote.Handle = peerWindowHandle_;
	descriptor->DS[0].Remote.Reserved = 0;
	cut(descriptor, 1, static_cast<unsigned>(home_.attributes.MaxSegmentsPerDesc),
	    stock_.pattern.data() + element.writeContent, element.writeLength,
	    stock_.pattern.handle(), home_.random);
	post({descriptor, VIP_STATUS_OP_RDMA_WRITE, last, nullptr, 0, false});
}

void Link::publish(bool write)
{
	std::atomic<uint64_t> &board = home_.seat.sent[home_.life][peer_];
	home_.seat.sentAt[peer_] = now(); // before the count itself
	board = Sent{Sent::unpacked(board).receiverLife, sendsDone_, write}.packed();
}

void Link::sendTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor)
{
	if (posted_.empty() || posted_.front().descriptor != descriptor)
		fail("a send to rank %u is done that is not the oldest", peer_);
	Posted posted = posted_.front();
	posted_.pop_front();
	oldestPosted_ = now();
	VIP_UINT32 status = descriptor->CS.Status, error = status & VIP_STATUS_ERROR_MASK;
	if (!(status & VIP_STATUS_DONE) || (status & VIP_STATUS_OP_MASK) != posted.operation ||
	    (result == VIP_SUCCESS) != (error == 0))
		fail("a send to rank %u: %s, status %s", peer_, text(result),
		     status_names(status).c_str());
	if (posted.buffer)
		memset(posted.buffer, kUsed, posted.length);
	if (posted.large)
		stock_.large.give(posted.buffer);
	if (!error && sendsFail_)
		fail("a send to rank %u is done after one that failed", peer_);
	if (!error) {
		sendsDone_ += posted.last;
		publish(!posted.last);
		return;
	}
	sendsFail_ = true;
	if (error &
	    (VIP_STATUS_FORMAT_ERROR | VIP_STATUS_PROTECTION_ERROR | VIP_STATUS_LENGTH_ERROR))
		fail("a send to rank %u: %s", peer_, status_names(status).c_str());
	broken(status, "send");
}

bool Link::takeSend(bool promised)
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_RETURN result = VipSendDone(vi_, &descriptor);
	if (descriptor) {
		sendTaken(result, descriptor);
		return true;
	}
	if (promised || (result != VIP_NOT_DONE && result != VIP_DESCRIPTOR_ERROR) ||
	    (result == VIP_NOT_DONE) != sending())
		fail("VipSendDone: %s with %zu sends posted to rank %u%s", text(result),
		     posted_.size(), peer_, promised ? ", and one on the CQ" : "");
	return false;
}

void Link::waitSends()
{
	while (sending()) {
		Watched watched(home_.watch(), "VipSendWait", 2 * kPatience, peer_);
		VIP_DESCRIPTOR *descriptor = nullptr;
		VIP_RETURN result = VipSendWait(vi_, kPatience, &descriptor);
		if (!descriptor && peerIsEnding())
			continue;
		if (!descriptor) {
			explain();
			fail("VipSendWait: %s", text(result));
		}
		sendTaken(result, descriptor);
	}
}

} // namespace stress
