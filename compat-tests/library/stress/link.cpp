// SPDX-License-Identifier: BSD-2-Clause
// The states of a link, and its checks when the peer is killed.
#include "link.h"

#include <algorithm>
#include <cstring>

namespace stress
{

// A link's room has descriptors, receive buffers (the last one is large) and send buffers.
constexpr size_t kDescriptorBytes = 256;
constexpr size_t kReceivesAt = kDescriptorBytes * 2 * kDepth;
constexpr size_t kReceiveBuffersAt = 8192;
constexpr size_t kSendBuffersAt = kReceiveBuffersAt + (kDepth - 1) * kSmall + kLarge;
constexpr size_t kRoom = kSendBuffersAt + kDepth * kSmall;
static_assert(kReceivesAt + kDepth * kDescriptorBytes <= kReceiveBuffersAt);

VIP_DESCRIPTOR *Link::sendDescriptor(uint32_t number, unsigned which) const
{
	size_t slot = number % kDepth * 2 + which;
	return reinterpret_cast<VIP_DESCRIPTOR *>(room_.data() + slot * kDescriptorBytes);
}

VIP_DESCRIPTOR *Link::receiveDescriptor(uint32_t number) const
{
	size_t at = kReceivesAt + number % kDepth * kDescriptorBytes;
	return reinterpret_cast<VIP_DESCRIPTOR *>(room_.data() + at);
}

uint8_t *Link::receiveBuffer(uint32_t number) const
{
	return room_.data() + kReceiveBuffersAt + number % kDepth * kSmall;
}

uint8_t *Link::sendBuffer(uint32_t number) const
{
	return room_.data() + kSendBuffersAt + number % kDepth * kSmall;
}

void cut(VIP_DESCRIPTOR *descriptor, unsigned first, unsigned most, uint8_t *data, size_t bytes,
	 VIP_MEM_HANDLE handle, Random &random)
{
	constexpr unsigned kPieces = 4;
	VIP_DESCRIPTOR_SEGMENT *segments = descriptor->DS;
	unsigned pieces = 0;
	if (bytes > 0)
		pieces = 1 + static_cast<unsigned>(random.below(std::min(kPieces, most - first)));
	size_t at = 0;
	for (unsigned i = 0; i < pieces; i++) {
		size_t length = i + 1 == pieces ? bytes - at : random.below(bytes - at + 1);
		segments[first + i].Local.Data.AddressBits = 0;
		segments[first + i].Local.Data.Address = data + at;
		segments[first + i].Local.Handle = handle;
		segments[first + i].Local.Length = static_cast<VIP_UINT32>(length);
		at += length;
	}
	descriptor->CS.SegCount = static_cast<VIP_UINT16>(first + pieces);
}

Link::Link(Home &home, Stock &stock, unsigned peer)
    : home_(home), stock_(stock), peer_(peer), room_(home.nic, kRoom),
      window_(home.nic, kWindow, VIP_TRUE)
{
	if (home.cq && (home.allOnCq || home.random.once(2)))
		sendCq_ = home.cq;
	if (home.cq && (home.allOnCq || home.random.once(2)))
		receiveCq_ = home.cq;
}

void Link::createVi()
{
	VIP_VI_ATTRIBUTES attributes{};
	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = home_.largest;
	attributes.EnableRdmaWrite = VIP_TRUE;
	must(VipCreateVi(home_.nic, &attributes, sendCq_, receiveCq_, &vi_), "VipCreateVi");
}

void Link::prepare()
{
	if (!vi_)
		createVi();
	memset(window_.data(), kUntouched, kWindow);
	memset(room_.data() + kReceiveBuffersAt, kUntouched, kSendBuffersAt - kReceiveBuffersAt);
	told_ = heard_ = sendsFail_ = receivesFail_ = false;
	sent_ = sendsDone_ = 0;
	receivesPosted_ = receivesTaken_ = early_ = received_ = 0;
	granted_ = announced_ = kDepth;
	for (uint32_t i = 0; i < kDepth; i++)
		postReceive();
	state_ = State::Ready;
}

void Link::connected(const Arrival &arrival)
{
	peerLife_ = std::max(arrival.peerLife, lostLife_ + 1);
	peerLifeAtMost_ = arrival.peerLifeAtMost;
	upSince_ = arrival.when;
	state_ = State::Up;
	home_.seat.up[peer_] = 1;
	home_.seat.connected++;
	for (; early_; early_--)
		takeReceive(true);
}

// The connection may be with one of several lives of the peer. This is the last of them that was killed.
uint32_t Link::deadLife() const
{
	uint32_t life = peerLifeAtMost_;
	while (life >= peerLife_ && !home_.board.killed(peer_, life))
		life--;
	return life >= peerLife_ ? life : 0;
}

// The peer was killed, and some of its threads have not ended yet. Its files stay open until they have.
bool Link::peerIsEnding() const
{
	uint32_t life = deadLife();
	return life && !home_.board.seat[peer_].goneAt[life];
}

// The kernel may take long to end a killed process. So the time counts from its end, not from the kill.
Time Link::lateness(Time when) const
{
	Time gone = home_.board.seat[peer_].goneAt[deadLife()];
	return gone ? when - std::max(gone, upSince_) : 0;
}

void Link::broken(VIP_UINT32 status, const char *queue)
{
	if (!deadLife() && !home_.closing())
		fail("a %s to or from rank %u, which lives: %s", queue, peer_,
		     status_names(status).c_str());
	if (state_ != State::Up)
		return;
	state_ = State::Broken;
	home_.seat.up[peer_] = 0;
	home_.seat.connected--;
	lostSince_ = now();
}

void Link::lost(const Loss &loss)
{
	uint32_t life = deadLife();
	if (!life)
		fail("asynchronous error %d about rank %u, which lives", loss.code, peer_);
	if (loss.code == VIP_ERROR_RDMAW_ABORT || loss.code == VIP_ERROR_RDMA_TRANSPORT)
		return; // the peer was killed during an RDMA write into our window
	if (loss.code != VIP_ERROR_CONN_LOST)
		fail("asynchronous error %d instead of CONN_LOST", loss.code);
	if (told_)
		fail("CONN_LOST told twice for one connection to rank %u", peer_);
	if (loss.state != VIP_STATE_ERROR)
		fail("the VI is in state %d when CONN_LOST is told", loss.state);
	Time late = lateness(loss.when);
	if (late > home_.options.bound * kMs)
		fail("CONN_LOST told %.1f ms after the process of rank %u had ended",
		     static_cast<double>(late) / kMs, peer_);
	Time took = loss.when - std::max(upSince_, home_.board.seat[peer_].killedAt[life].load());
	Tally &tally = home_.seat.tally;
	if (took > tally.slowest) { // no other thread sets it
		tally.slowest = took;
		tally.slowestPeer = peer_;
		tally.slowestLife = life;
	}
	tally.losses++;
	broken(VIP_STATUS_DONE, "connection");
	told_ = true;
}

void Link::checkOverdue() const
{
	bool certain = home_.board.killed(peer_, peerLifeAtMost_);
	if ((isUp() || isBroken()) && !told_ && certain) {
		Time late = lateness(now());
		if (late > home_.options.bound * kMs + kSecond) // its handler may wait for a CPU
			fail("the process of rank %u ended %.1f ms ago, and no CONN_LOST since",
			     peer_, static_cast<double>(late) / kMs);
	}
	if (sending() && !peerIsEnding() && now() - blameSince() > kPatience * kMs) {
		explain();
		fail("a send to rank %u hangs", peer_);
	}
}

// A send that is not done is the library's fault from this time on: the peer lives, or its process has ended.
Time Link::blameSince() const
{
	return std::max(oldestPosted_, home_.board.seat[peer_].goneAt[deadLife()].load());
}

void Link::checkState(VIP_VI_STATE expected, const char *when) const
{
	VIP_VI_STATE state;
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN sendsEmpty, receivesEmpty;
	must(VipQueryVi(vi_, &state, &attributes, &sendsEmpty, &receivesEmpty), "VipQueryVi");
	if (state != expected || !sendsEmpty || !receivesEmpty)
		fail("the VI to rank %u is in state %d %s, its queues %s and %s", peer_, state,
		     when, sendsEmpty ? "empty" : "not empty",
		     receivesEmpty ? "empty" : "not empty");
}

// Messages whose sends a killed peer saw completed must have arrived.
void Link::checkReceived() const
{
	for (uint32_t life = peerLife_; life <= peerLifeAtMost_; life++) {
		Sent sent = Sent::unpacked(home_.board.seat[peer_].sent[life][home_.rank]);
		if (peerLife_ != peerLifeAtMost_ && sent.receiverLife != home_.life)
			continue; // `sent` is about another connection
		if (sent.count > received_)
			fail("rank %u (life %u) had %u messages completed when it was killed, and "
			     "only %u are here",
			     peer_, life, sent.count, received_);
		if (sent.write && sent.count == received_ && heard_)
			checkLastWrite();
	}
}

bool Link::finish()
{
	if (!told_ || sending() || receivesTaken_ != receivesPosted_) {
		if (now() - lostSince_ > kPatience * kMs) {
			explain();
			fail("the queues of a lost connection are not flushed");
		}
		return false;
	}
	checkState(VIP_STATE_ERROR, "after CONN_LOST and the flushing");
	checkReceived();
	if (peerLife_ == peerLifeAtMost_)
		lostLife_ = peerLife_;
	must(VipDisconnect(vi_), "VipDisconnect");
	checkState(VIP_STATE_IDLE, "after VipDisconnect");
	window_.deregister();
	window_.registerAnew();
	if (home_.random.once(2)) {
		must(VipDestroyVi(vi_), "VipDestroyVi");
		vi_ = nullptr;
	}
	state_ = State::Down;
	return true;
}

bool Link::drained() const
{
	Sent sent = Sent::unpacked(home_.board.seat[peer_].sent[peerLife_][home_.rank]);
	if (received_ > sent.count)
		fail("%u messages from rank %u, which sent %u", received_, peer_, sent.count);
	return received_ == sent.count;
}

void Link::close()
{
	uint32_t received = received_;
	must(VipDisconnect(vi_), "VipDisconnect");
	while (takeReceive())
		;
	if (takeSend() || receivesTaken_ != receivesPosted_ || received_ != received)
		fail("VipDisconnect from rank %u: %u messages in vain, %u of %u receives flushed",
		     peer_, received_ - received, receivesTaken_ - received_,
		     receivesPosted_ - received);
	checkState(VIP_STATE_IDLE, "after VipDisconnect");
	must(VipDestroyVi(vi_), "VipDestroyVi");
	window_.deregister();
	room_.deregister();
}

void Link::explain() const
{
	static const char *const states[] = {"down", "ready", "up", "broken"};
	Sent sent = Sent::unpacked(home_.board.seat[peer_].sent[peerLife_][home_.rank]);
	say("rank %u: %s%s; sent %u, completed %u (%zu posted), credit for %u; received %u, of %u "
	    "that it saw completed; %u of %u receives taken",
	    peer_, states[static_cast<int>(state_)], told_ ? ", CONN_LOST told" : "", sent_,
	    sendsDone_, posted_.size(), granted_, received_, sent.count, receivesTaken_,
	    receivesPosted_);
}

} // namespace stress
