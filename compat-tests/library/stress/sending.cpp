// SPDX-License-Identifier: BSD-2-Clause
// Sends a link's messages.
#include "link.h"

#include <cstring>

namespace stress
{

constexpr uint8_t kUsed = 0xEE; // overwrites the buffer of a send that is done

// A side sends a credit message when it owes kOwed receives. It always leaves one receive of the peer for a credit message.
// kOwed is more than 1: of two sides that have used up all their receives and whose credits cross, one has receives again.
constexpr uint32_t kOwed = kDepth / 2;

Way Link::outward() const
{
	return {home_.options.seed, home_.rank, home_.life, peer, peerLife_};
}

bool Link::step()
{
	if (state != State::Up || sent_ - sendsDone_ >= kDepth || sent_ == granted_)
		return false;
	bool owes = receivesPosted_ - announced_ >= kOwed;
	if (!owes && granted_ - sent_ <= 1)
		return false;
	if (owes)
		sendCredit();
	else
		sendPlanned();
	sent_++;
	if (!sendCq && home_.random.once(16))
		waitSends();
	return true;
}

void Link::post(const Posted &posted)
{
	if (posted_.empty())
		oldestPosted_ = now();
	posted_.push_back(posted);
	must(VipPostSend(vi, posted.descriptor, room_.handle), "VipPostSend");
}

static void start(VIP_DESCRIPTOR *descriptor, int control, bool hasImmediate, VIP_UINT32 immediate)
{
	memset(&descriptor->CS, 0, sizeof descriptor->CS);
	descriptor->CS.Control = static_cast<VIP_UINT16>(control | (hasImmediate ? VIP_CONTROL_IMMEDIATE : 0));
	descriptor->CS.ImmediateData = immediate;
}

void Link::sendCredit()
{
	announced_ = receivesPosted_;
	start(descriptor(sent_, 0), VIP_CONTROL_OP_SENDRECV, true, kCredit | announced_);
	post({descriptor(sent_, 0), false, true, nullptr, 0});
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
	uint8_t *from = home_.pattern.data + element.content;
	uint8_t *buffer = home_.random.once(4) ? nullptr : sendBuffer(sent_);
	if (buffer)
		memcpy(buffer, from, element.length);
	start(descriptor(sent_, 0), VIP_CONTROL_OP_SENDRECV, element.hasImmediate, element.immediate);
	cut(descriptor(sent_, 0), 0, buffer ? buffer : from, element.length,
	    buffer ? room_.handle : home_.pattern.handle);
	post({descriptor(sent_, 0), false, true, buffer, element.length});
}

void Link::sendWrite(const Element &element)
{
	bool last = element.kind == Element::Kind::WriteImmediate;
	VIP_DESCRIPTOR *write = descriptor(sent_, 1);
	start(write, VIP_CONTROL_OP_RDMAWRITE, last, element.immediate);
	write->DS[0].Remote.Data.AddressBits = peerEnd().window + element.writeTo;
	write->DS[0].Remote.Handle = peerEnd().handle;
	write->DS[0].Remote.Reserved = 0;
	cut(write, 1, home_.pattern.data + element.writeContent, element.writeLength, home_.pattern.handle);
	post({write, true, last, nullptr, 0});
}

void Link::sendTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor)
{
	if (posted_.empty() || posted_.front().descriptor != descriptor)
		fail("a send to rank %u is done that is not the oldest", peer);
	Posted posted = posted_.front();
	posted_.pop_front();
	oldestPosted_ = now();
	VIP_UINT32 status = descriptor->CS.Status, error = status & VIP_STATUS_ERROR_MASK;
	VIP_UINT32 operation = posted.isWrite ? VIP_STATUS_OP_RDMA_WRITE : VIP_STATUS_OP_SEND;
	if (!(status & VIP_STATUS_DONE) || (status & VIP_STATUS_OP_MASK) != operation ||
	    (result == VIP_SUCCESS) != (error == 0))
		fail("a send to rank %u: %s, status %s", peer, result_name(result), status_names(status).c_str());
	if (posted.buffer)
		memset(posted.buffer, kUsed, posted.length);
	if (!error && sendsFail_)
		fail("a send to rank %u is done after one that failed", peer);
	if (!error) {
		sendsDone_ += posted.last;
		home_.end(peer).publish(sendsDone_, !posted.last);
		return;
	}
	sendsFail_ = true;
	if (error & (VIP_STATUS_FORMAT_ERROR | VIP_STATUS_PROTECTION_ERROR | VIP_STATUS_LENGTH_ERROR))
		fail("a send to rank %u: %s", peer, status_names(status).c_str());
	broken(status, "send");
}

bool Link::takeSend(bool promised)
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_RETURN result = VipSendDone(vi, &descriptor);
	if (descriptor) {
		sendTaken(result, descriptor);
		return true;
	}
	if (promised || result != (sending() ? VIP_NOT_DONE : VIP_DESCRIPTOR_ERROR))
		fail("VipSendDone: %s with %zu sends posted to rank %u%s", result_name(result), posted_.size(), peer,
		     promised ? ", and one on the CQ" : "");
	return false;
}

// Waits until all sends are completed.
void Link::waitSends()
{
	while (sending()) {
		VIP_DESCRIPTOR *descriptor = nullptr;
		VIP_RETURN result = VipSendWait(vi, kPatience, &descriptor);
		if (!descriptor && peerIsEnding())
			continue;
		if (!descriptor) {
			explain();
			fail("VipSendWait: %s", result_name(result));
		}
		sendTaken(result, descriptor);
	}
}

} // namespace stress
