// SPDX-License-Identifier: BSD-2-Clause
// Sending and receiving: sizes, order, processes, and the results of Done and Wait.
#include "harness.h"

#include <algorithm>

using namespace harness;

namespace
{

constexpr VIP_UINT32 kSizes[] = {0, 1, 63, 64, 1024, 1025, 4096, 32768, 65472};
constexpr VIP_UINT32 kLargest = 65472;
enum Slot { kFirstReceive, kSecondReceive, kSend, kSlots };

// One side of a ping-pong over every size, which compares all data. Receives alternate between two
// slots. The next receive is always posted before the message that allows the peer to fill it.
class PingPong
{
      public:
	PingPong(Vi &vi, Mode mode) : vi_(vi), mode_(mode), pool_(vi.nic(), kSlots, kLargest)
	{
	}

	void postFirst()
	{
		post();
	}

	void serve(bool first)
	{
		for (unsigned round = 0; round < 2 * std::size(kSizes); round++) {
			VIP_UINT32 size = kSizes[round % std::size(kSizes)];
			SCOPED_TRACE(testing::Message() << (first ? "first" : "second") << " side, "
							<< size << " bytes");
			if (first)
				speak(size, round);
			hear(size, first ? round + 100 : round);
			if (!first)
				speak(size, round + 100);
			if (testing::Test::HasFatalFailure())
				return;
		}
	}

      private:
	void post()
	{
		slot_ = slot_ == kFirstReceive ? kSecondReceive : kFirstReceive;
		posted_ = pool_.message(slot_, kLargest);
		std::fill_n(pool_.buffer(slot_), kLargest, VIP_UCHAR{0});
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi_, posted_, pool_.handle()));
	}

	void speak(VIP_UINT32 size, unsigned seed)
	{
		paint(pool_.buffer(kSend), size, seed);
		ASSERT_TRUE(isSent(vi_, pool_.message(kSend, size), pool_.handle(), VIP_STATUS_OP_SEND, mode_));
	}

	void hear(VIP_UINT32 size, unsigned seed)
	{
		ASSERT_TRUE(isReceived(vi_, posted_, VIP_STATUS_OP_RECEIVE, mode_));
		ASSERT_EQ(size, posted_->CS.Length);
		ASSERT_TRUE(painted(pool_.buffer(slot_), size, seed));
		EXPECT_TRUE(untouched(pool_.buffer(slot_) + size, kLargest - size)) << "behind the message";
		post();
	}

	Vi &vi_;
	Mode mode_;
	Pool pool_;
	int slot_ = kSecondReceive;
	VIP_DESCRIPTOR *posted_ = nullptr;
};

void serverOfPingPong(Channel &test, Mode mode)
{
	Nic nic;
	Vi vi(nic);
	PingPong side(vi, mode);
	side.postFirst();
	ASSERT_TRUE(test.serve(vi));
	side.serve(false);
	test.put("done");
	test.expect("done"); // the connection stays until both sides have all messages
}

VIP_PEER(pollingServer)
{
	serverOfPingPong(test, Mode::Polling);
}
VIP_PEER(waitingServer)
{
	serverOfPingPong(test, Mode::Waiting);
}

class Transfer : public PairTest
{
      protected:
	void between(const char *role, Mode mode)
	{
		Peer peer(role);
		Vi vi(nic);
		PingPong side(vi, mode);
		side.postFirst();
		ASSERT_TRUE(peer.call(vi));
		side.serve(true);
		peer.channel.put("done");
		peer.channel.expect("done");
		peer.finish();
	}

	void within(Mode mode)
	{
		PingPong one(a(), mode), other(b(), mode);
		one.postFirst();
		other.postFirst();
		Thread second([&] { other.serve(false); });
		one.serve(true);
		second.join();
	}
};

// [early: VipPostSend VipPostRecv VipSendDone VipRecvDone] Messages of every size arrive whole and in order; programs
// may poll for them.
TEST_F(Transfer, EverySizeArrivesWholeBetweenTwoProcessesThatPoll)
{
	between("pollingServer", Mode::Polling);
}
// [early: VipPostSend VipPostRecv VipSendWait VipRecvWait] Messages of every size arrive whole and in order; programs
// may block for them.
TEST_F(Transfer, EverySizeArrivesWholeBetweenTwoProcessesThatWait)
{
	between("waitingServer", Mode::Waiting);
}
// [early: VipRecvDone VipRecvWait] Whether one side polls or blocks makes no difference to the other.
TEST_F(Transfer, EverySizeArrivesWholeBetweenAPollingAndAWaitingProcess)
{
	between("waitingServer", Mode::Polling);
}
// [early: VipPostSend VipPostRecv VipSendDone VipRecvDone] Two VIs of one process can be connected with each other, and
// polled by two threads.
TEST_F(Transfer, EverySizeArrivesWholeWithinOneProcessThatPolls)
{
	within(Mode::Polling);
}
// [early: VipPostSend VipPostRecv VipSendWait VipRecvWait] Two VIs of one process can be connected with each other, and
// waited for by two threads.
TEST_F(Transfer, EverySizeArrivesWholeWithinOneProcessThatWaits)
{
	within(Mode::Waiting);
}

// [functional: VipPostSend VipPostRecv] A message may be as long as the NIC says.
TEST_F(Transfer, MessageOfTheNicsMaxTransferSizeArrives)
{
	auto size = static_cast<VIP_UINT32>(
		std::min<VIP_ULONG>(nic.attributes().MaxTransferSize, 64 << 20));
	Pool pool(nic, 2, size);
	Pair pair(nic, reliable(size));
	ASSERT_TRUE(pool.postReceive(pair.b, 0, size));
	paint(pool.buffer(1), size, 5);
	ASSERT_TRUE(isSent(pair.a, pool.message(1, size), pool.handle()));
	ASSERT_TRUE(isReceived(pair.b, pool.descriptor(0)));
	EXPECT_EQ(size, pool.descriptor(0)->CS.Length);
	EXPECT_TRUE(painted(pool.buffer(0), size, 5));
}

// [early: VipSendWait VipRecvWait] The descriptors of a queue are done in the order of posting.
TEST_F(Transfer, DescriptorsOfBothQueuesAreDoneInTheOrderOfPosting)
{
	constexpr unsigned count = 64;
	Pool receives(nic, count, 64), sends(nic, count, 64);
	ASSERT_TRUE(receives.postReceives(b(), count, 64));
	for (unsigned i = 0; i < count; i++) {
		paint(sends.buffer(i), i + 1, i);
		ASSERT_TRUE(sends.postSend(a(), i, i + 1));
	}
	for (unsigned i = 0; i < count; i++) {
		ASSERT_EQ(sends.descriptor(i), takeSend(a())) << i;
		ASSERT_EQ(receives.descriptor(i), takeReceive(b())) << i;
		EXPECT_EQ(i + 1, receives.descriptor(i)->CS.Length);
		EXPECT_TRUE(painted(receives.buffer(i), i + 1, i));
	}
}

// [early: VipPostSend VipPostRecv] Both directions of a connection are independent.
TEST_F(Transfer, BothDirectionsAtOnce)
{
	constexpr unsigned count = 64;
	Pool pool(nic, 4 * count, 1024);
	for (unsigned i = 0; i < count; i++) {
		ASSERT_TRUE(pool.postReceive(a(), i, 1024));
		ASSERT_TRUE(pool.postReceive(b(), count + i, 1024));
		paint(pool.buffer(2 * count + i), 1024, i);
		paint(pool.buffer(3 * count + i), 1024, i + 100);
	}
	for (unsigned i = 0; i < count; i++) {
		ASSERT_TRUE(pool.postSend(a(), 2 * count + i, 1024));
		ASSERT_TRUE(pool.postSend(b(), 3 * count + i, 1024));
	}
	for (unsigned i = 0; i < count; i++) {
		ASSERT_EQ(pool.descriptor(i), takeReceive(a(), Mode::Polling));
		ASSERT_EQ(pool.descriptor(count + i), takeReceive(b(), Mode::Polling));
		EXPECT_TRUE(painted(pool.buffer(i), 1024, i + 100));
		EXPECT_TRUE(painted(pool.buffer(count + i), 1024, i));
		ASSERT_EQ(pool.descriptor(2 * count + i), takeSend(a(), Mode::Polling));
		ASSERT_EQ(pool.descriptor(3 * count + i), takeSend(b(), Mode::Polling));
	}
}

// [early: VipRecvDone] While the head of a queue is not done there is no descriptor to take.
TEST_F(Transfer, DoneIsNotDoneWithNoDescriptorWhileTheHeadIsPosted)
{
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	VIP_DESCRIPTOR *d = pool.descriptor(1);
	EXPECT_EQ(VIP_NOT_DONE, VipRecvDone(b(), &d));
	EXPECT_EQ(nullptr, d);
}

// [early: VipSendDone VipRecvDone] An empty queue is a descriptor error without a descriptor.
TEST_F(Transfer, DoneIsADescriptorErrorWithNoDescriptorOnAnEmptyQueue)
{
	Pool pool(nic, 2, 64);
	for (auto done : {VipSendDone, VipRecvDone}) {
		VIP_DESCRIPTOR *d = pool.descriptor(0);
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, done(b(), &d));
		EXPECT_EQ(nullptr, d);
	}
	// The queue is empty again after a descriptor was taken.
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	ASSERT_TRUE(pool.send(a(), 1, 64));
	ASSERT_TRUE(takeReceive(b()));
	VIP_DESCRIPTOR *d = pool.descriptor(0);
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(b(), &d));
	EXPECT_EQ(nullptr, d);
	d = pool.descriptor(0);
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(a(), &d));
	EXPECT_EQ(nullptr, d);
}

// [functional: VipQueryVi] VipQueryVi returns whether each of the VI's queues is empty.
TEST_F(Transfer, QueryViTellsWhichQueuesAreEmpty)
{
	Pool pool(nic, 2, 64);
	auto empty = [](Vi &vi) {
		VIP_VI_STATE state;
		VIP_VI_ATTRIBUTES attributes;
		VIP_BOOLEAN sends = 77, receives = 77;
		EXPECT_EQ(VIP_SUCCESS, VipQueryVi(vi, &state, &attributes, &sends, &receives));
		EXPECT_EQ(VIP_STATE_CONNECTED, state);
		return std::make_pair(sends, receives);
	};
	EXPECT_EQ(std::make_pair(VIP_TRUE, VIP_TRUE), empty(a()));
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	EXPECT_EQ(std::make_pair(VIP_TRUE, VIP_FALSE), empty(b()));
	ASSERT_TRUE(pool.postSend(a(), 1, 64));
	EXPECT_EQ(std::make_pair(VIP_FALSE, VIP_TRUE), empty(a()))
		<< "done or not, it was not collected";
	ASSERT_TRUE(takeSend(a()));
	ASSERT_TRUE(takeReceive(b()));
	EXPECT_EQ(std::make_pair(VIP_TRUE, VIP_TRUE), empty(a()));
	EXPECT_EQ(std::make_pair(VIP_TRUE, VIP_TRUE), empty(b()));
}

// [early: VipRecvWait] A wait ends with a timeout, and without a descriptor, when the asked time is over.
TEST_F(Transfer, WaitTimesOutAfterTheAskedTimeWithAPostedReceive)
{
	Pool pool(nic, 1, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	for (VIP_ULONG timeout : {200UL, 700UL}) {
		VIP_DESCRIPTOR *d = pool.descriptor(0);
		EXPECT_TRUE(takesAbout(static_cast<double>(timeout), [&] {
			EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(b(), timeout, &d));
		}));
		EXPECT_EQ(nullptr, d);
	}
}

// [functional: VipSendWait VipRecvWait] A wait on an empty queue blocks, since another thread may post.
TEST_F(Transfer, WaitTimesOutAfterTheAskedTimeOnAnEmptyQueue)
{
	VIP_DESCRIPTOR marker;
	for (auto wait : {VipSendWait, VipRecvWait}) {
		VIP_DESCRIPTOR *d = &marker;
		EXPECT_TRUE(takesAbout(
			300, [&] { EXPECT_EQ(VIP_TIMEOUT, wait(b(), 300, &d)); }));
		EXPECT_EQ(nullptr, d);
	}
}

// [functional: VipSendWait VipRecvWait] A wait with a timeout of zero does not block.
TEST_F(Transfer, WaitWithTimeoutZeroLooksOnce)
{
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	VIP_DESCRIPTOR *d = pool.descriptor(0);
	EXPECT_TRUE(takesAbout(0, [&] { EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(b(), 0, &d)); }));
	EXPECT_EQ(nullptr, d);
	ASSERT_TRUE(pool.send(a(), 1, 64));
	EXPECT_TRUE(eventually([&] { return VipRecvWait(b(), 0, &d) == VIP_SUCCESS; }));
	EXPECT_EQ(pool.descriptor(0), d);
}

// [functional: VipRecvWait] An infinite timeout, of 32 bits or of a whole VIP_ULONG, never ends.
TEST_F(Transfer, WaitThatNeverTimesOutTakesBothFormsOfInfinite)
{
	Pool pool(nic, 2, 64);
	for (VIP_ULONG forever : {VIP_ULONG{0xFFFFFFFF}, ~VIP_ULONG{0}, VIP_ULONG{VIP_INFINITE}}) {
		ASSERT_TRUE(pool.postReceive(b(), 0, 64));
		Thread later([&] {
			letTimePass(100);
			EXPECT_TRUE(pool.send(a(), 1, 64));
		});
		VIP_DESCRIPTOR *d = nullptr;
		Stopwatch watch;
		EXPECT_EQ(VIP_SUCCESS, VipRecvWait(b(), forever, &d))
			<< "after " << watch.ms() << " ms";
		EXPECT_EQ(pool.descriptor(0), d);
		later.join();
		if (!d)
			takeReceive(b());
	}
}

// [functional: VipPostRecv VipErrorCallback] As many receives can be outstanding as the NIC says; one more is a
// resource error and reported.
TEST_F(Transfer, MaxDescriptorsPerQueueReceivesCanBeOutstandingAndOneMoreIsRefused)
{
	auto most = static_cast<unsigned>(nic.attributes().MaxDescriptorsPerQueue);
	ASSERT_GE(most, 1024U);
	Pool pool(nic, most + 2, 4);
	ASSERT_TRUE(pool.postReceives(b(), most, 4));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipPostRecv(b(), pool.message(most, 4), pool.handle()));
	EXPECT_TRUE(nic.errors.reaches(b(), 1)) << "no asynchronous error told of the overrun";
	EXPECT_EQ(1U, nic.errors.count(b(), VIP_ERROR_VI_OVERRUN));
	EXPECT_EQ(VIP_STATE_CONNECTED, b().state());
	for (unsigned i = 0; i < most; i++) {
		ASSERT_TRUE(isSent(a(), setImmediate(pool.message(most + 1, 4), i), pool.handle(), VIP_STATUS_OP_SEND,
				   Mode::Polling));
		ASSERT_EQ(pool.descriptor(i), takeReceive(b(), Mode::Polling));
		ASSERT_EQ(i, pool.descriptor(i)->CS.ImmediateData);
		if (i == 0) {
			EXPECT_TRUE(pool.postReceive(b(), 0, 4)) << "one was taken";
		}
	}
}

// [functional: VipPostSend VipPostRecv] As many sends can be outstanding as the NIC says. Posted descriptors are
// processed even if the program does not collect completed ones.
TEST_F(Transfer, MaxDescriptorsPerQueueSendsCanBeOutstandingAndAreAllDelivered)
{
	// Sends that are done and not collected still count, so that the test certainly reaches the limit.
	// Neither end looks at its queue until everything has arrived. The receiver watches the last
	// descriptor's buffer.
	auto most = static_cast<unsigned>(nic.attributes().MaxDescriptorsPerQueue);
	Pool receives(nic, most, 4), sends(nic, most + 1, 4);
	ASSERT_TRUE(receives.postReceives(b(), most, 4));
	for (unsigned i = 0; i < most; i++) {
		VIP_DESCRIPTOR *d = setImmediate(sends.message(i, 4), i);
		sends.buffer(i)[0] = 0xFF;
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), d, sends.handle())) << i << " of " << most;
	}
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipPostSend(a(), sends.message(most, 4), sends.handle()));
	const volatile VIP_UCHAR *last = receives.buffer(most - 1);
	EXPECT_TRUE(eventually([&] { return *last == 0xFF; }, 10000));
	for (unsigned i = 0; i < most; i++) {
		ASSERT_TRUE(isDone(a(), sends.descriptor(i), VIP_STATUS_OP_SEND, Mode::Polling));
		ASSERT_EQ(receives.descriptor(i), takeReceive(b(), Mode::Polling));
		ASSERT_EQ(i, receives.descriptor(i)->CS.ImmediateData);
	}
}

// [functional: VipPostSend VipRecvWait] Posted descriptors are processed, no matter at which queue the program looks.
TEST_F(Transfer, SendsGoOutWhileTheProgramOnlyWaitsForReceives)
{
	constexpr unsigned count = 500;
	Pool receives(nic, count, 4), sends(nic, count, 4);
	ASSERT_TRUE(receives.postReceives(b(), count, 4));
	for (unsigned i = 0; i < count; i++)
		ASSERT_TRUE(sends.postSend(a(), i, 4));
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(receives.descriptor(i), takeReceive(b())) << i;
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(sends.descriptor(i), takeSend(a()));
}

} // namespace
