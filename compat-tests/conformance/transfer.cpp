// SPDX-License-Identifier: BSD-2-Clause
// Sending and receiving: sizes, order, processes, and the results of Done and Wait.
#include "harness.h"

#include <algorithm>

using namespace harness;

namespace
{

const std::vector<VIP_UINT32> kSizes{0, 1, 63, 64, 1024, 1025, 4096, 32768, 65472, 1, 4096, 0};

VIP_PEER(pingPongServer)
{
	Nic nic;
	Vi vi(nic);
	auto mode = static_cast<Mode>(test.getNumber());
	pingPong(vi, false, mode, kSizes, [&] { return test.serve(vi); });
	test.put("done");
	test.expect("done"); // the connection stays until both sides have all messages
}

using Transfer = PairTest;

// [early: VipPostSend VipPostRecv VipSendDone VipRecvDone VipSendWait VipRecvWait] Messages of every size arrive whole
// and in order. Programs may poll or block for them, and this makes no difference to the other side.
TEST_F(Transfer, EverySizeArrivesWholeBetweenTwoProcessesThatPollOrWait)
{
	for (auto [here, there] : {std::pair(Mode::Polling, Mode::Polling), std::pair(Mode::Waiting, Mode::Waiting),
				   std::pair(Mode::Polling, Mode::Waiting)}) {
		Peer peer("pingPongServer");
		Vi vi(nic);
		peer.channel.put(static_cast<unsigned long>(there));
		pingPong(vi, true, here, kSizes, [&] { return peer.call(vi); });
		peer.channel.put("done");
		peer.channel.expect("done");
		peer.finish();
	}
}

// [early: VipPostSend VipPostRecv VipSendDone VipRecvDone VipSendWait VipRecvWait] Two VIs of one process can be
// connected with each other, and polled or waited for by two threads.
TEST_F(Transfer, EverySizeArrivesWholeWithinOneProcessThatPollsOrWaits)
{
	for (Mode mode : {Mode::Polling, Mode::Waiting}) {
		Vi one(nic), other(nic);
		std::string name = freshDiscriminator();
		Thread second([&] { pingPong(other, false, mode, kSizes, [&] { return serve(other, name); }); });
		pingPong(one, true, mode, kSizes, [&] { return call(one, name); });
	}
}

// [functional: VipPostSend VipPostRecv] A message may be as long as the NIC says.
TEST_F(Transfer, MessageOfTheNicsMaxTransferSizeArrives)
{
	auto size = static_cast<VIP_UINT32>(std::min<VIP_ULONG>(nic.attributes().MaxTransferSize, 64 << 20));
	Pool pool(nic, 2, size);
	Pair pair(nic, reliable(size));
	ASSERT_TRUE(pool.postReceive(pair.b, 0, size));
	paint(pool.buffer(1), size, 5);
	ASSERT_TRUE(isSent(pair.a, pool.message(1, size), pool.handle()));
	ASSERT_TRUE(isReceived(pair.b, pool.descriptor(0)));
	EXPECT_EQ(size, pool.descriptor(0)->CS.Length);
	EXPECT_TRUE(painted(pool.buffer(0), size, 5));
}

// [early: VipPostSend VipPostRecv VipSendWait VipRecvWait] Both directions of a connection are independent, and the
// descriptors of a queue are done in the order of posting.
TEST_F(Transfer, BothDirectionsAtOnceAndEachQueueInTheOrderOfPosting)
{
	constexpr unsigned count = 64;
	Pool pool(nic, 4 * count, 1024);
	for (Mode mode : {Mode::Polling, Mode::Waiting}) {
		ASSERT_TRUE(pool.postReceives(a(), count, 1024));
		ASSERT_TRUE(pool.postReceives(b(), count, 1024, count));
		for (unsigned i = 0; i < count; i++) {
			paint(pool.buffer(2 * count + i), i + 1, i);
			paint(pool.buffer(3 * count + i), 1024 - i, i + 100);
			ASSERT_TRUE(pool.postSend(a(), 2 * count + i, i + 1));
			ASSERT_TRUE(pool.postSend(b(), 3 * count + i, 1024 - i));
		}
		for (unsigned i = 0; i < count; i++) {
			VIP_DESCRIPTOR *atA = pool.descriptor(i), *atB = pool.descriptor(count + i);
			ASSERT_TRUE(isReceived(a(), atA, VIP_STATUS_OP_RECEIVE, mode));
			ASSERT_TRUE(isReceived(b(), atB, VIP_STATUS_OP_RECEIVE, mode));
			EXPECT_EQ(1024 - i, atA->CS.Length);
			EXPECT_EQ(i + 1, atB->CS.Length);
			EXPECT_TRUE(painted(pool.buffer(i), 1024 - i, i + 100));
			EXPECT_TRUE(painted(pool.buffer(count + i), i + 1, i));
			ASSERT_TRUE(isDone(a(), pool.descriptor(2 * count + i), VIP_STATUS_OP_SEND, mode));
			ASSERT_TRUE(isDone(b(), pool.descriptor(3 * count + i), VIP_STATUS_OP_SEND, mode));
		}
	}
}

// [early: VipSendDone VipRecvDone] While the head of a queue is not done there is no descriptor to take. An empty queue
// is a descriptor error without a descriptor, also after a descriptor was taken.
TEST_F(Transfer, DoneIsNotDoneOrOnAnEmptyQueueADescriptorErrorWithNoDescriptor)
{
	Pool pool(nic, 2, 64);
	expectNone(VIP_DESCRIPTOR_ERROR, VipSendDone, b());
	expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, b());
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	expectNone(VIP_NOT_DONE, VipRecvDone, b());
	ASSERT_TRUE(pool.send(a(), 1, 64));
	ASSERT_TRUE(takeReceive(b()));
	expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, b());
	expectNone(VIP_DESCRIPTOR_ERROR, VipSendDone, a());
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
	EXPECT_EQ(std::make_pair(VIP_FALSE, VIP_TRUE), empty(a())) << "done or not, it was not collected";
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
		EXPECT_TRUE(takesAbout(static_cast<double>(timeout),
				       [&] { EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(b(), timeout, &d)); }));
		EXPECT_EQ(nullptr, d);
	}
}

// [functional: VipSendWait VipRecvWait] A wait on an empty queue blocks, since another thread may post.
TEST_F(Transfer, WaitTimesOutAfterTheAskedTimeOnAnEmptyQueue)
{
	VIP_DESCRIPTOR marker;
	for (auto wait : {VipSendWait, VipRecvWait}) {
		VIP_DESCRIPTOR *d = &marker;
		EXPECT_TRUE(takesAbout(300, [&] { EXPECT_EQ(VIP_TIMEOUT, wait(b(), 300, &d)); }));
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
		EXPECT_EQ(VIP_SUCCESS, VipRecvWait(b(), forever, &d)) << "after " << watch.ms() << " ms";
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
	EXPECT_TRUE(eventually([&] { return *last == 0xFF; }));
	for (unsigned i = 0; i < most; i++) {
		ASSERT_TRUE(isDone(a(), sends.descriptor(i), VIP_STATUS_OP_SEND, Mode::Polling));
		ASSERT_EQ(receives.descriptor(i), takeReceive(b(), Mode::Polling));
		ASSERT_EQ(i, receives.descriptor(i)->CS.ImmediateData);
	}
}

} // namespace
