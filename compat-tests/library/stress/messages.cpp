// SPDX-License-Identifier: BSD-2-Clause
// Sends a link's messages, and receives and checks them.
#include "link.h"

#include <algorithm>
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

constexpr size_t kMargin = 64; // bytes beside a message that are checked, too

Way Link::inward() const
{
	return {home_.options.seed, peer, peerLife_, home_.rank, home_.life};
}

void Link::postReceive()
{
	uint32_t number = receivesPosted_++;
	VIP_DESCRIPTOR *descriptor = receiveDescriptor(number);
	memset(&descriptor->CS, 0, sizeof descriptor->CS);
	cut(descriptor, 0, receiveBuffer(number), isLarge(number) ? home_.largest : kSmall, room_.handle);
	must(VipPostRecv(vi, descriptor, room_.handle), "VipPostRecv");
}

bool Link::takeReceive(bool promised)
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	VIP_RETURN result = VipRecvDone(vi, &descriptor);
	if (descriptor) {
		receiveTaken(result, descriptor);
		return true;
	}
	uint32_t posted = receivesPosted_ - receivesTaken_;
	if (promised || result != (posted ? VIP_NOT_DONE : VIP_DESCRIPTOR_ERROR))
		fail("VipRecvDone: %s with %u receives posted to rank %u%s", result_name(result), posted, peer,
		     promised ? ", and one on the CQ" : "");
	return false;
}

void Link::waitReceive(unsigned ms)
{
	VIP_DESCRIPTOR *descriptor = nullptr;
	Time began = now();
	VIP_RETURN result = VipRecvWait(vi, ms, &descriptor);
	if (result == VIP_TIMEOUT)
		result = VipRecvDone(vi, &descriptor);
	if (!descriptor) {
		if (result != VIP_NOT_DONE)
			fail("VipRecvWait: %s", result_name(result));
		return;
	}
	checkSleep(began);
	receiveTaken(result, descriptor);
}

// Called after a wait from `began` on that has found a receive. Fails if the wait went on for too long after the sender had
// seen the completion.
void Link::checkSleep(Time began) const
{
	Time ended = now();
	if (peerEnd().count() <= received_)
		return;
	Time slept = ended - std::max(began, peerEnd().sentAt.load());
	if (slept > home_.options.bound * kMs)
		fail("slept for %.1f ms over a message of rank %u", inMs(slept), peer);
}

void Link::receiveTaken(VIP_RETURN result, VIP_DESCRIPTOR *descriptor)
{
	if (receivesTaken_ == receivesPosted_ || descriptor != receiveDescriptor(receivesTaken_))
		fail("a receive from rank %u is done that is not the oldest", peer);
	uint32_t number = receivesTaken_++;
	VIP_UINT32 status = descriptor->CS.Status, error = status & VIP_STATUS_ERROR_MASK;
	if (!(status & VIP_STATUS_DONE) || (result == VIP_SUCCESS) != (error == 0))
		fail("a receive from rank %u: %s, status %s", peer, result_name(result), status_names(status).c_str());
	if (error) {
		receivesFail_ = true;
		if (error != VIP_STATUS_DESC_FLUSHED_ERROR && error != VIP_STATUS_PARTIAL_ERROR &&
		    error != VIP_STATUS_TRANSPORT_ERROR)
			fail("a receive from rank %u: %s", peer, status_names(status).c_str());
		broken(status, "receive");
		return;
	}
	if (receivesFail_)
		fail("a receive from rank %u is done after one that failed", peer);
	received_++;
	if (status & VIP_STATUS_IMMEDIATE && descriptor->CS.ImmediateData & kCredit)
		takeCredit(descriptor);
	else
		takePlanned(number, descriptor);
	if (state == State::Up)
		postReceive();
}

void Link::takeCredit(const VIP_DESCRIPTOR *descriptor)
{
	uint32_t total = descriptor->CS.ImmediateData & ~kCredit;
	if (descriptor->CS.Length != 0 || (descriptor->CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_RECEIVE)
		fail("a credit message of rank %u: %u bytes, status %s", peer, descriptor->CS.Length,
		     status_names(descriptor->CS.Status).c_str());
	if (total <= granted_ || total > sent_ + kDepth)
		fail("rank %u grants %u receives after %u, and %u were sent", peer, total, granted_, sent_);
	granted_ = total;
}

void Link::takePlanned(uint32_t number, const VIP_DESCRIPTOR *descriptor)
{
	Element element = planned(inward(), number, home_.largest);
	checkArrived(number, element, descriptor);
	if (element.kind != Element::Kind::Message) {
		checkWindow(number, element);
		memset(window_.data + element.writeTo, kUntouched, element.writeLength);
		home_.board.count[kWrites]++;
	}
	uint32_t length = element.kind == Element::Kind::WriteImmediate ? 0 : element.length;
	checkContent("message", number, receiveBuffer(number), isLarge(number) ? home_.largest : kSmall, 0, length,
		     element.content);
	memset(receiveBuffer(number), kUntouched, length);
	home_.board.count[kMessages]++;
	home_.board.count[kBytes] += descriptor->CS.Length;
}

void Link::checkArrived(uint32_t number, const Element &element, const VIP_DESCRIPTOR *descriptor) const
{
	bool isWrite = element.kind == Element::Kind::WriteImmediate;
	VIP_UINT32 status = VIP_STATUS_DONE | (isWrite ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RECEIVE) |
			    (element.hasImmediate ? VIP_STATUS_IMMEDIATE : 0);
	uint32_t length = isWrite ? element.writeLength : element.length;
	if (descriptor->CS.Status != status || descriptor->CS.Length != length)
		fail("message %u of rank %u has status %s and %u bytes instead of %s and %u", number, peer,
		     status_names(descriptor->CS.Status).c_str(), descriptor->CS.Length, status_names(status).c_str(), length);
	if (element.hasImmediate && descriptor->CS.ImmediateData != element.immediate)
		fail("message %u of rank %u has the immediate data 0x%x instead of 0x%x", number, peer,
		     descriptor->CS.ImmediateData, element.immediate);
}

// Checks that the bytes have arrived and that the bytes beside them are untouched.
void Link::checkContent(const char *where, uint32_t number, const uint8_t *data, size_t room, size_t at, uint32_t length,
			size_t content) const
{
	const uint8_t *expected = home_.pattern.data + content;
	if (memcmp(data + at, expected, length) != 0) {
		auto wrong = std::mismatch(expected, expected + length, data + at);
		fail("%s %u of rank %u, %u bytes: byte %td is 0x%02x instead of 0x%02x", where, number, peer, length,
		     wrong.first - expected, *wrong.second, *wrong.first);
	}
	for (size_t i = at - std::min(at, kMargin); i < std::min(room, at + length + kMargin); i++)
		if ((i < at || i >= at + length) && data[i] != kUntouched)
			fail("%s %u of rank %u, %u bytes: the byte %zu of %zu was touched, too", where, number, peer, length, i,
			     room);
}

void Link::checkWindow(uint32_t number, const Element &element) const
{
	checkContent("RDMA write", number, window_.data, kWindow, element.writeTo, element.writeLength, element.writeContent);
}

} // namespace stress
