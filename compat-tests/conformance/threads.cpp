// SPDX-License-Identifier: BSD-2-Clause
// Threads: several on one NIC, one VI, one queue.
#include "harness.h"

using namespace harness;

namespace
{

using Threads = PairTest;

// [functional: VipPostSend VipPostRecv VipConnectWait VipConnectRequest] Threads may use different VIs of a NIC at the
// same time.
TEST_F(Threads, TwoPingPongsOnVisOfOneNic)
{
	for (Mode mode : {Mode::Waiting, Mode::Polling}) {
		Vi vis[4] = {Vi(nic), Vi(nic), Vi(nic), Vi(nic)};
		std::string names[2] = {freshDiscriminator(), freshDiscriminator()};
		std::vector<VIP_UINT32> sizes(100, 256);
		std::vector<std::thread> threads;
		for (unsigned i = 0; i < 4; i++)
			threads.emplace_back([&, i] {
				const std::string &name = names[i / 2];
				auto connect = [&] { return i % 2 ? call(vis[i], name) : serve(vis[i], name); };
				pingPong(vis[i], i % 2, mode, sizes, connect);
			});
		for (auto &thread : threads)
			thread.join();
	}
}

// [functional: VipRecvWait VipPostRecv] A thread may wait on a queue while others post to it.
TEST_F(Threads, OneThreadBlocksInRecvWaitWhileOthersPost)
{
	constexpr unsigned count = 50;
	Pool pool(nic, 2 * count, 64);
	Thread receiver([&] {
		for (unsigned i = 0; i < count; i++) {
			VIP_DESCRIPTOR *d = nullptr;
			ASSERT_EQ(VIP_SUCCESS, VipRecvWait(b(), kPatience, &d));
			ASSERT_EQ(pool.descriptor(i), d) << i;
		}
	});
	// Each receive is posted while the receiver waits on the empty queue, or on the receive
	// before it.
	for (unsigned i = 0; i < count; i++) {
		ASSERT_TRUE(pool.postReceive(b(), i, 64));
		ASSERT_TRUE(pool.send(a(), count + i, 64));
	}
	receiver.join();
}

// [functional: VipSendWait VipRecvWait] Two threads may wait on the two queues of a VI.
TEST_F(Threads, TwoThreadsBlockOnTheTwoQueuesOfOneVi)
{
	Pool pool(nic, 3, 64);
	auto sent = inThread([&] { return takeSend(a()); });
	auto received = inThread([&] { return takeReceive(a()); });
	letTimePass(50);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	ASSERT_TRUE(pool.postSend(a(), 1, 64));
	EXPECT_EQ(pool.descriptor(1), sent.get());
	ASSERT_TRUE(pool.postReceive(a(), 2, 64));
	ASSERT_EQ(pool.descriptor(0), takeReceive(b()));
	ASSERT_TRUE(pool.send(b(), 1, 64));
	EXPECT_EQ(pool.descriptor(2), received.get());
}

// [functional: VipRecvDone VipSendDone VipQueryVi] A call that does not block otherwise does not block because another
// thread waits.
TEST_F(Threads, DoneAndTheOtherCallsDoNotBlockBehindAnotherThreadsWait)
{
	Pool pool(nic, 3, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	auto waited = inThread([&] { return takeReceive(b()); });
	letTimePass(50);
	Stopwatch watch;
	for (int i = 0; i < 100; i++) {
		expectNone(VIP_NOT_DONE, VipRecvDone, b());
		expectNone(VIP_DESCRIPTOR_ERROR, VipSendDone, b());
		ASSERT_EQ(VIP_STATE_CONNECTED, b().state());
	}
	EXPECT_TRUE(pool.postReceive(b(), 1, 64));
	EXPECT_LT(watch.ms(), kPatience / 2) << "blocked behind the wait";
	ASSERT_TRUE(pool.send(a(), 2, 64));
	EXPECT_EQ(pool.descriptor(0), waited.get());
}

// [functional: VipPostSend] Several threads may post to one queue.
TEST_F(Threads, SeveralThreadsPostSendsOnOneViAndNoneIsLost)
{
	constexpr unsigned threads = 4, each = 50;
	Pool receives(nic, threads * each, 64), sends(nic, threads * each, 64);
	ASSERT_TRUE(receives.postReceives(b(), threads * each, 64));
	std::vector<std::thread> posters;
	for (unsigned t = 0; t < threads; t++)
		posters.emplace_back([&, t] {
			for (unsigned i = t * each; i < (t + 1) * each; i++) {
				VIP_DESCRIPTOR *d = setImmediate(sends.message(i, 64), i);
				ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), d, sends.handle()));
			}
		});
	std::vector<unsigned> next(threads, 0);
	for (unsigned i = 0; i < threads * each; i++) {
		VIP_DESCRIPTOR *d = takeReceive(b());
		EXPECT_EQ(receives.descriptor(i), d);
		if (!d || errorOf(d))
			break;
		unsigned value = d->CS.ImmediateData, thread = value / each;
		EXPECT_LT(thread, threads);
		if (thread < threads) {
			EXPECT_EQ(thread * each + next[thread]++, value) << "out of the order of posting";
		}
	}
	for (auto &poster : posters)
		poster.join();
	for (unsigned i = 0; i < threads * each; i++)
		ASSERT_TRUE(takeSend(a()));
}

// [full: VipResizeCQ VipCQWait] A completion queue can be resized while threads wait on it.
TEST_F(Threads, ResizeOfACqDoesNotEndAWaitOnIt)
{
	Cq cq(nic, 8);
	Pool pool(nic, 1, 64);
	Vi idle(nic, reliable(), cq, nullptr);
	VIP_VI_HANDLE named = nullptr;
	VIP_BOOLEAN receive = VIP_TRUE;
	auto result = inThread([&] { return VipCQWait(cq, kPatience, &named, &receive); });
	letTimePass(50);
	EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 500));
	EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 4));
	EXPECT_TRUE(pool.postSend(idle, 0, 64)); // flushed at once
	EXPECT_EQ(VIP_SUCCESS, result.get());
	EXPECT_EQ(idle, named);
	EXPECT_EQ(VIP_FALSE, receive);
}

} // namespace
