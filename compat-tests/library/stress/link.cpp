// SPDX-License-Identifier: BSD-2-Clause
// Opens the NIC and registers memory; the states of a link, and its checks when the peer is killed.
#include "link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace stress
{

Region::Region(VIP_NIC_HANDLE nic, size_t bytes, VIP_BOOLEAN rdmaWrite) : nic_(nic), bytes_(bytes), rdmaWrite_(rdmaWrite)
{
	void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("no memory for %zu bytes: %s", bytes, strerror(errno));
	data = static_cast<uint8_t *>(memory);
	registerAnew();
}

void Region::registerAnew()
{
	VIP_MEM_ATTRIBUTES attributes{nullptr, rdmaWrite_, VIP_FALSE};
	must(VipRegisterMem(nic_, data, bytes_, &attributes, &handle), "VipRegisterMem");
	if (handle == 0 || handle == 0xFFFFFFFF)
		fail("VipRegisterMem gave the handle 0x%x", handle);
}

void Region::deregister()
{
	must(VipDeregisterMem(nic_, data, handle), "VipDeregisterMem");
}

Region::~Region()
{
	munmap(data, bytes_);
}

static VIP_NIC_HANDLE opened(const Options &options)
{
	VIP_NIC_HANDLE nic;
	must(VipOpenNic(options.nic.c_str(), &nic), "VipOpenNic");
	return nic;
}

Home::Home(const Options &someOptions, Board &someBoard, unsigned aRank, VIP_ERROR_HANDLER handler, void *context)
    : options(someOptions), board(someBoard), rank(aRank), seat(board.seat[rank]), life(seat.life),
      random{options.seed, rank, life}, nic(opened(options)), pattern(nic, kPatternBytes)
{
	unsigned peers = options.processes - 1;
	must(VipErrorCallback(nic, context, handler), "VipErrorCallback");
	must(VipQueryNic(nic, &attributes), "VipQueryNic");
	if (!(attributes.ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY))
		fail("the NIC %s has no Reliable Delivery", attributes.Name);
	if (attributes.MaxVI < peers)
		fail("the NIC %s has only %lu VIs", attributes.Name, attributes.MaxVI);
	largest = std::min<size_t>(kLarge, attributes.MaxTransferSize);
	fillPattern(options.seed, pattern.data);
	if (!random.once(4)) // a quarter of all processes has no CQ
		must(VipCreateCQ(nic, VIP_ULONG{4} * kDepth * peers, &cq), "VipCreateCQ");
}

// A link's room has descriptors, receive buffers and send buffers. The last one of the buffers is large.
constexpr size_t kDescriptorBytes = 256;
constexpr size_t kReceivesAt = kDescriptorBytes * 2 * kDepth;
constexpr size_t kBufferBytes = (kDepth - 1) * kSmall + kLarge;
constexpr size_t kReceiveBuffersAt = 8192;
constexpr size_t kSendBuffersAt = kReceiveBuffersAt + kBufferBytes;
constexpr size_t kRoom = kSendBuffersAt + kBufferBytes;
static_assert(kReceivesAt + kDepth * kDescriptorBytes <= kReceiveBuffersAt);

// Of a send: a message takes two at most.
VIP_DESCRIPTOR *Link::descriptor(uint32_t number, unsigned which) const
{
	size_t slot = number % kDepth * 2 + which;
	return reinterpret_cast<VIP_DESCRIPTOR *>(room_.data + slot * kDescriptorBytes);
}

VIP_DESCRIPTOR *Link::receiveDescriptor(uint32_t number) const
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(room_.data + kReceivesAt + number % kDepth * kDescriptorBytes);
}

uint8_t *Link::receiveBuffer(uint32_t number) const
{
	return room_.data + kReceiveBuffersAt + number % kDepth * kSmall;
}

uint8_t *Link::sendBuffer(uint32_t number) const
{
	return room_.data + kSendBuffersAt + number % kDepth * kSmall;
}

// Cuts the bytes into random pieces. These become the descriptor's data segments from `first` on.
void Link::cut(VIP_DESCRIPTOR *descriptor, unsigned first, uint8_t *data, size_t bytes, VIP_MEM_HANDLE handle)
{
	unsigned most = std::min(4U, static_cast<unsigned>(home_.attributes.MaxSegmentsPerDesc) - first);
	unsigned pieces = bytes > 0 ? 1 + static_cast<unsigned>(home_.random.below(most)) : 0;
	size_t at = 0;
	for (unsigned i = 0; i < pieces; i++) {
		size_t length = i + 1 == pieces ? bytes - at : home_.random.below(bytes - at + 1);
		descriptor->DS[first + i].Local.Data.AddressBits = 0;
		descriptor->DS[first + i].Local.Data.Address = data + at;
		descriptor->DS[first + i].Local.Handle = handle;
		descriptor->DS[first + i].Local.Length = static_cast<VIP_UINT32>(length);
		at += length;
	}
	descriptor->CS.SegCount = static_cast<VIP_UINT16>(first + pieces);
}

Link::Link(Home &home, unsigned aPeer)
    : peer(aPeer), sendCq(home.maybeOnCq()), receiveCq(home.maybeOnCq()), home_(home), room_(home.nic, kRoom),
      window_(home.nic, kWindow, VIP_TRUE)
{
}

void Link::prepare()
{
	VIP_VI_ATTRIBUTES attributes{};
	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = home_.largest;
	attributes.EnableRdmaWrite = VIP_TRUE;
	if (!vi)
		must(VipCreateVi(home_.nic, &attributes, sendCq, receiveCq, &vi), "VipCreateVi");
	memset(window_.data, kUntouched, kWindow);
	memset(receiveBuffer(0), kUntouched, kBufferBytes);
	home_.end(peer).window = reinterpret_cast<uintptr_t>(window_.data);
	home_.end(peer).handle = window_.handle;
	home_.end(peer).publish(0, false);
	told_ = sendsFail_ = receivesFail_ = false;
	sent_ = sendsDone_ = 0;
	receivesPosted_ = receivesTaken_ = received_ = 0;
	granted_ = announced_ = kDepth;
	for (uint32_t i = 0; i < kDepth; i++)
		postReceive();
	state = State::Ready;
}

void Link::connected(const Arrival &arrival)
{
	peerLife_ = arrival.peerLife;
	upSince_ = arrival.when;
	state = State::Up;
	home_.seat.up[peer] = 1;
}

const Seat &Link::peerSeat() const
{
	return home_.board.seat[peer];
}

const End &Link::peerEnd() const
{
	return peerSeat().end[peerLife_][home_.rank];
}

bool Link::peerIsKilled() const
{
	return home_.board.killed(peer, peerLife_);
}

// The peer was killed, and some of its threads have not ended yet. Its files stay open until they have.
bool Link::peerIsEnding() const
{
	return peerIsKilled() && !peerSeat().goneAt[peerLife_];
}

// The kernel may take long to end a killed process. So the time counts from its end, not from the kill.
Time Link::lateness(Time when) const
{
	Time gone = peerSeat().goneAt[peerLife_];
	return gone ? when - std::max(gone, upSince_) : 0;
}

void Link::broken(VIP_UINT32 status, const char *queue)
{
	if (!peerIsKilled() && !home_.closing())
		fail("a %s to or from rank %u, which lives: %s", queue, peer, status_names(status).c_str());
	if (state != State::Up)
		return;
	state = State::Broken;
	home_.seat.up[peer] = 0;
	lostSince_ = now();
}

void Link::lost(const Loss &loss)
{
	if (!peerIsKilled())
		fail("asynchronous error %d about rank %u, which lives", loss.code, peer);
	if (loss.code == VIP_ERROR_RDMAW_ABORT || loss.code == VIP_ERROR_RDMA_TRANSPORT)
		return; // the peer was killed during an RDMA write into our window
	if (loss.code != VIP_ERROR_CONN_LOST)
		fail("asynchronous error %d instead of CONN_LOST", loss.code);
	if (told_)
		fail("CONN_LOST told twice for one connection to rank %u", peer);
	if (loss.state != VIP_STATE_ERROR)
		fail("the VI is in state %d when CONN_LOST is told", loss.state);
	Time late = lateness(loss.when);
	if (late > home_.options.bound * kMs)
		fail("CONN_LOST told %.1f ms after the process of rank %u had ended", inMs(late), peer);
	home_.board.count[kLosses]++;
	broken(VIP_STATUS_DONE, "connection");
	told_ = true;
}

void Link::checkOverdue() const
{
	Time late = lateness(now());
	bool wasUp = state == State::Up || state == State::Broken;
	if (wasUp && !told_ && late > home_.options.bound * kMs + kSecond) // its handler may wait for a CPU
		fail("the process of rank %u ended %.1f ms ago, and no CONN_LOST since", peer, inMs(late));
	// A send that is not done is the library's fault from this time on: the peer lives, or its process has ended.
	Time since = std::max(oldestPosted_, peerSeat().goneAt[peerLife_].load());
	if (sending() && !peerIsEnding() && now() - since > kPatience * kMs) {
		explain();
		fail("a send to rank %u hangs", peer);
	}
}

void Link::checkState(VIP_VI_STATE expected, const char *when) const
{
	VIP_VI_STATE now;
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN sendsEmpty, receivesEmpty;
	must(VipQueryVi(vi, &now, &attributes, &sendsEmpty, &receivesEmpty), "VipQueryVi");
	if (now != expected || !sendsEmpty || !receivesEmpty)
		fail("the VI to rank %u is in state %d %s, its queues %s and %s", peer, now, when,
		     sendsEmpty ? "empty" : "not empty", receivesEmpty ? "empty" : "not empty");
}

// Messages whose sends a killed peer saw completed must have arrived, and so must an RDMA write.
void Link::checkReceived() const
{
	uint32_t sent = peerEnd().count();
	if (sent > received_)
		fail("rank %u (life %u) had %u messages completed when it was killed, and only %u are here", peer, peerLife_,
		     sent, received_);
	if (!peerEnd().write() || sent != received_)
		return;
	Element element = planned(inward(), received_, home_.largest);
	if (element.kind != Element::Kind::WriteAndMessage)
		fail("rank %u completed an RDMA write that was not planned", peer);
	checkWindow(received_, element);
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
	must(VipDisconnect(vi), "VipDisconnect");
	checkState(VIP_STATE_IDLE, "after VipDisconnect");
	window_.deregister();
	window_.registerAnew();
	if (home_.random.once(2)) {
		must(VipDestroyVi(vi), "VipDestroyVi");
		vi = nullptr;
	}
	state = State::Down;
	return true;
}

bool Link::drained() const
{
	uint32_t sent = peerEnd().count();
	if (received_ > sent)
		fail("%u messages from rank %u, which sent %u", received_, peer, sent);
	return received_ == sent;
}

void Link::close()
{
	uint32_t received = received_;
	must(VipDisconnect(vi), "VipDisconnect");
	while (takeReceive())
		;
	if (takeSend() || receivesTaken_ != receivesPosted_ || received_ != received)
		fail("VipDisconnect from rank %u: %u messages in vain, %u of %u receives flushed", peer, received_ - received,
		     receivesTaken_ - received_, receivesPosted_ - received);
	checkState(VIP_STATE_IDLE, "after VipDisconnect");
	must(VipDestroyVi(vi), "VipDestroyVi");
	window_.deregister();
	room_.deregister();
}

void Link::explain() const
{
	static const char *const states[] = {"down", "ready", "up", "broken"};
	say("rank %u: %s%s; sent %u, completed %u (%zu posted), credit for %u; received %u, of %u that it saw completed; %u of "
	    "%u receives taken",
	    peer, states[static_cast<int>(state)], told_ ? ", CONN_LOST told" : "", sent_, sendsDone_, posted_.size(),
	    granted_, received_, peerEnd().count(), receivesTaken_, receivesPosted_);
}

} // namespace stress
