// SPDX-License-Identifier: BSD-2-Clause
// Reliability levels: which messages arrive, in which order, when a send
// is done, and which errors end a connection. If the NIC lacks a level it refuses VIs of it.
#include "harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace harness;

namespace
{

constexpr VIP_RELIABILITY_LEVEL kUnreliable = VIP_SERVICE_UNRELIABLE, kDelivery = VIP_SERVICE_RELIABLE_DELIVERY,
				kReception = VIP_SERVICE_RELIABLE_RECEPTION;
// Long messages go before short ones, so that a message which overtakes another one is noticed.
constexpr VIP_UINT32 kSizes[] = {0, 1 << 20, 1, 65536, 48, 4096, 49};
constexpr unsigned kCount = std::size(kSizes);
// The number of tries with an unreliable VI, which may lose messages.
constexpr unsigned kTries = 10;

VIP_UINT32 sizeOf(const Nic &nic, unsigned number)
{
	return std::min(kSizes[number], nic.longMessage());
}

// Posts a receive for each of the messages that sendAll sends.
void postAll(Vi &to, Pool &pool)
{
	ASSERT_TRUE(pool.postReceives(to, kCount, to.nic().longMessage()));
}

// Sends one message of every size. All of them are under way at once.
void sendAll(Vi &from, Pool &pool)
{
	for (unsigned i = 0; i < kCount; i++) {
		VIP_UINT32 bytes = sizeOf(from.nic(), i);
		VIP_DESCRIPTOR *d = pool.message(i, bytes);
		paint(pool.buffer(i), bytes, i);
		setImmediate(d, i);
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(from, d, pool.handle()));
	}
}

void collectSends(Vi &from, Pool &pool)
{
	for (unsigned i = 0; i < kCount; i++)
		ASSERT_TRUE(isDone(from, pool.descriptor(i)));
}

// Takes what arrives until all has arrived, or nothing more arrives. It must be complete, in the
// order of sending, and in the receives' order of posting.
void takeAll(Vi &to, Pool &pool, VIP_ULONG patience, std::set<unsigned> *arrived)
{
	VIP_DESCRIPTOR *d = nullptr;
	for (unsigned i = 0, next = 0; i < kCount; i++) {
		if (VipRecvWait(to, patience, &d) == VIP_TIMEOUT)
			return;
		ASSERT_EQ(pool.descriptor(i), d);
		ASSERT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE), statusOf(d));
		unsigned number = d->CS.ImmediateData;
		ASSERT_GE(number, next) << "out of order, or twice";
		ASSERT_LT(number, kCount);
		VIP_UINT32 bytes = sizeOf(to.nic(), number);
		EXPECT_EQ(bytes, d->CS.Length);
		EXPECT_TRUE(painted(pool.buffer(i), bytes, number));
		EXPECT_TRUE(untouched(pool.buffer(i) + bytes, to.nic().longMessage() - bytes))
			<< "behind a message of " << bytes << " bytes";
		arrived->insert(number);
		next = number + 1;
	}
}

// Makes no call between connecting and the end of the sender's part.
VIP_PEER(idleReceiver)
{
	Nic nic;
	auto level = static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber());
	Pool pool(nic, kCount, nic.longMessage());
	Vi vi(nic, ofLevel(level, nic.longMessage()));
	ASSERT_NO_FATAL_FAILURE(postAll(vi, pool));
	ASSERT_TRUE(test.serve(vi));
	test.expect("sent");
	for (unsigned i = 0; level == kReception && i < kCount; i++)
		EXPECT_TRUE(painted(pool.buffer(i), sizeOf(nic, i), i));
	std::set<unsigned> arrived;
	takeAll(vi, pool, level == kUnreliable ? 1000 : kPatience, &arrived);
	test.put(arrived.size());
	test.expect("done"); // the connection stays until both sides have all messages
}

class Levels : public NicTest
{
      protected:
	VIP_UINT32 most() const
	{
		return nic.longMessage();
	}
	VIP_UINT32 size(unsigned number) const
	{
		return sizeOf(nic, number);
	}
	void exchange(Vi &from, Vi &to, VIP_ULONG patience, std::set<unsigned> *arrived)
	{
		Pool receives(nic, kCount, most()), sends(nic, kCount, most());
		ASSERT_NO_FATAL_FAILURE(postAll(to, receives));
		ASSERT_NO_FATAL_FAILURE(sendAll(from, sends));
		ASSERT_NO_FATAL_FAILURE(takeAll(to, receives, patience, arrived));
		collectSends(from, sends);
	}
};

// [functional: VipQueryNic] A NIC says which reliability levels it has: at least those in $VIPL_TEST_LEVELS, of which
// the reliable ones have RDMA reads and no other; or, where that is not set, Reliable Delivery.
TEST_F(Levels, AreThoseThatTheNicIsKnownToHave)
{
	const char *known = getenv("VIPL_TEST_LEVELS");
	int levels = known ? std::stoi(known) : kDelivery;
	EXPECT_EQ(levels, levels & nic.attributes().ReliabilityLevelSupport);
	if (known) {
		EXPECT_EQ(levels & (kDelivery | kReception), nic.attributes().RDMAReadSupport);
	}
}

// [functional: VipPostSend VipPostRecv] At every level what arrives is whole and in order; at the reliable ones
// everything arrives.
TEST_F(Levels, MessagesOfEverySizeArriveIntactAndInOrder)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		// An unreliable VI may lose some messages, but not the same ones every time.
		bool lossy = level == kUnreliable;
		std::set<unsigned> there, back;
		for (unsigned i = 0; i < (lossy ? kTries : 1); i++) {
			if (there.size() == kCount && back.size() == kCount)
				break;
			Pair pair(nic, ofLevel(level, most()));
			VIP_ULONG patience = lossy ? 1000 : kPatience;
			ASSERT_NO_FATAL_FAILURE(exchange(pair.a, pair.b, patience, &there));
			ASSERT_NO_FATAL_FAILURE(exchange(pair.b, pair.a, patience, &back));
			EXPECT_EQ(VIP_STATE_CONNECTED, pair.a.state());
			EXPECT_EQ(VIP_STATE_CONNECTED, pair.b.state());
		}
		EXPECT_EQ(kCount, there.size());
		EXPECT_EQ(kCount, back.size());
	});
}

// [functional: VipPostSend VipSendWait] At every level a send is done without a call of the receiver's program.
TEST_F(Levels, SendsAreDoneWithoutACallOfTheReceivingProcess)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Peer peer("idleReceiver");
		peer.channel.put(level);
		Pool pool(nic, kCount, most());
		Vi vi(nic, ofLevel(level, most()));
		ASSERT_TRUE(peer.call(vi));
		ASSERT_NO_FATAL_FAILURE(sendAll(vi, pool));
		ASSERT_NO_FATAL_FAILURE(collectSends(vi, pool));
		peer.channel.put("sent");
		size_t arrived = peer.channel.getNumber();
		EXPECT_TRUE(arrived == kCount || (level == kUnreliable && arrived)) << arrived;
		peer.channel.put("done");
		peer.finish();
	});
}

// [functional: VipPostSend] RDMA writes work at every level.
TEST_F(Levels, RdmaWriteArrivesIntact)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		Region target(nic, most() + 4096U, memory(nullptr, VIP_TRUE));
		Pool pool(nic, 1, most());
		Pair pair(nic, writable(ofLevel(level, most())));
		for (unsigned i = 0; i < kCount; i++) {
			auto there = [&] { return painted(target.data() + 5, size(i), i); };
			paint(pool.buffer(0), size(i), i);
			for (unsigned tries = 0; tries < kTries && !there(); tries++) {
				VIP_DESCRIPTOR *d = pool.write(0, size(i), target, 5);
				ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
				eventually(there, level == kUnreliable ? 1000 : kPatience);
			}
			EXPECT_TRUE(there());
		}
	});
}

// [functional: VipPostSend VipPostRecv] At every level an RDMA write with immediate data completes one receive with it,
// and leaves its buffer alone.
TEST_F(Levels, RdmaWriteWithImmediateDataArrivesWithIt)
{
	atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
		bool lossy = level == kUnreliable;
		Region target(nic, most() + 4096U, memory(nullptr, VIP_TRUE));
		Pool pool(nic, 1, most());
		Pool receive(nic, 1, 64);
		Pair pair(nic, writable(ofLevel(level, most())));
		for (unsigned i = 0; i < kCount; i++) {
			VIP_DESCRIPTOR *in = receive.message(0, 64), *d = nullptr;
			paint(pool.buffer(0), size(i), i);
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, receive.handle()));
			for (unsigned tries = 0; tries < kTries && !d; tries++) {
				VIP_DESCRIPTOR *out = setImmediate(pool.write(0, size(i), target, 5), 70 + i);
				ASSERT_TRUE(isSent(pair.a, out, pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
				VipRecvWait(pair.b, lossy ? 1000 : kPatience, &d);
			}
			ASSERT_EQ(in, d);
			EXPECT_EQ(status(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE), statusOf(d));
			EXPECT_EQ(70 + i, d->CS.ImmediateData);
			// A device may not be able to tell how much came before the last packet. It
			// may say so at a level that may lose packets.
			if (!lossy || size(i) <= nic.attributes().NativeMTU) {
				EXPECT_EQ(size(i), d->CS.Length);
			}
			EXPECT_TRUE(painted(target.data() + 5, size(i), i));
			EXPECT_TRUE(untouched(receive.buffer(0), 64));
		}
	});
}

// [functional: VipPostSend VipErrorCallback] At the reliable levels a message without a receive breaks the connection,
// and so does an RDMA write whose immediate data finds none. It is reported once at the receiver, as a lost connection
// where the network cannot know the cause. At the sender it is reported as a lost connection.
TEST_F(Levels, ReliableMessageWithoutAReceiveBreaksTheConnection)
{
	Region target(nic, 65536, memory(nullptr, VIP_TRUE));
	atEach(nic, {kDelivery, kReception}, [&](VIP_RELIABILITY_LEVEL level) {
		for (VIP_UINT32 bytes : {0U, 48U, 4096U, 65536U})
			for (bool isWrite : {false, true}) {
				Pool pool(nic, 1, bytes);
				Pair pair(nic, writable(ofLevel(level)));
				VIP_DESCRIPTOR *d = isWrite ? setImmediate(pool.write(0, bytes, target), 1)
							    : pool.message(0, bytes);
				ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
				EXPECT_EQ(Status{VIP_STATUS_REMOTE_DESC_ERROR}, Status{errorOf(d)});
				expectLosses(pair.a, pair.b, VIP_ERROR_RECVQ_EMPTY, VIP_STATUS_OP_RECEIVE);
			}
	});
}

// [early: VipPostSend VipPostRecv] At the reliable levels a message too long for its receive is an error of both
// descriptors, breaks the connection, and is not written behind the receive's end.
TEST_F(Levels, ReliableMessageLongerThanItsReceiveBreaksTheConnection)
{
	constexpr VIP_UINT32 flushed = VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR;
	atEach(nic, {kDelivery, kReception}, [&](VIP_RELIABILITY_LEVEL level) {
		for (auto [room, bytes] : {std::make_pair(0U, 1U), {48U, 49U}, {63U, 64U}, {4096U, 65536U}}) {
			SCOPED_TRACE(testing::Message() << bytes << " bytes into " << room);
			Pool pool(nic, 3, 65536);
			Pair pair(nic, ofLevel(level));
			VIP_DESCRIPTOR *in = pool.message(0, room), *next = pool.message(1, 65536),
				       *out = pool.message(2, bytes);
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, next, pool.handle()));
			paint(pool.buffer(2), bytes, 1);
			ASSERT_TRUE(
				isSent(pair.a, out, pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR));
			ASSERT_TRUE(isReceived(pair.b, in, VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR));
			ASSERT_TRUE(isReceived(pair.b, next, flushed));
			expectBroken(pair.a, pair.b);
			EXPECT_TRUE(untouched(pool.buffer(0) + room, 65536 - room));
		}
	});
}

// [full: VipPostSend VipSendWait VipSendDone] With reliable reception a send is done when its data is in the receiver's
// memory.
TEST_F(Levels, ReceptionOneSendIsDoneWhenItsDataIsInTheReceiversMemory)
{
	atEach(nic, {kReception}, [&](VIP_RELIABILITY_LEVEL level) {
		Pair pair(nic, ofLevel(level, most()));
		Pool pool(nic, 2, most());
		for (Mode mode : {Mode::Waiting, Mode::Polling})
			for (unsigned i = 0; i < kCount; i++) {
				memset(pool.buffer(0), 0, most());
				paint(pool.buffer(1), size(i), i);
				ASSERT_TRUE(pool.postReceive(pair.b, 0, most()));
				VIP_DESCRIPTOR *d = pool.send(pair.a, 1, size(i), mode);
				// No other call on the receiver's VI comes before this.
				EXPECT_TRUE(painted(pool.buffer(0), size(i), i));
				ASSERT_TRUE(d);
				EXPECT_EQ(status(VIP_STATUS_OP_SEND), statusOf(d));
				ASSERT_EQ(pool.descriptor(0), takeReceive(pair.b, mode));
				EXPECT_EQ(size(i), pool.descriptor(0)->CS.Length);
			}
	});
}

// [full: VipPostSend VipSendWait] With reliable reception each of several sends is done when its data is in the
// receiver's memory.
TEST_F(Levels, ReceptionEachOfSeveralSendsIsDoneWhenItsDataIsInTheReceiversMemory)
{
	atEach(nic, {kReception}, [&](VIP_RELIABILITY_LEVEL level) {
		Pair pair(nic, ofLevel(level, most()));
		Pool receives(nic, kCount, most(), {}, 3), sends(nic, kCount, most());
		for (unsigned i = 0; i < kCount; i++) {
			VIP_DESCRIPTOR *d = receives.empty(i);
			d->CS.SegCount = 3; // three adjacent segments
			setSegment(d, 0, receives.buffer(i), 1, receives.handle());
			setSegment(d, 1, receives.buffer(i) + 1, 47, receives.handle());
			setSegment(d, 2, receives.buffer(i) + 48, most() - 48, receives.handle());
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, d, receives.handle()));
		}
		ASSERT_NO_FATAL_FAILURE(sendAll(pair.a, sends));
		for (unsigned i = 0; i < kCount; i++) {
			VIP_DESCRIPTOR *d = takeSend(pair.a);
			EXPECT_TRUE(painted(receives.buffer(i), size(i), i));
			ASSERT_EQ(sends.descriptor(i), d);
			EXPECT_EQ(0U, errorOf(d)) << statusOf(d);
		}
	});
}

// [full: VipPostSend VipSendWait] With reliable reception an RDMA write is done when its data is in the target's
// memory.
TEST_F(Levels, ReceptionRdmaWriteIsDoneWhenItsDataIsInTheTargetsMemory)
{
	atEach(nic, {kReception}, [&](VIP_RELIABILITY_LEVEL level) {
		Region target(nic, most(), memory(nullptr, VIP_TRUE));
		Pool pool(nic, 1, most());
		Pair pair(nic, writable(ofLevel(level, most())));
		for (unsigned i = 0; i < kCount; i++) {
			paint(pool.buffer(0), size(i), i);
			VIP_DESCRIPTOR *d = harness::send(pair.a, pool.write(0, size(i), target), pool.handle());
			EXPECT_TRUE(painted(target.data(), size(i), i));
			ASSERT_TRUE(d);
			EXPECT_EQ(status(VIP_STATUS_OP_RDMA_WRITE), statusOf(d));
		}
	});
}

} // namespace
