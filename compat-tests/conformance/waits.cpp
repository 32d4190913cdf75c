// SPDX-License-Identifier: BSD-2-Clause
// Several threads that wait: for the same thing, or its object is destroyed meanwhile.
#include "notify.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <list>

using namespace harness;

namespace
{

using Waits = HandlerTest;

// Threads in calls that block.
class Blocked
{
      public:
	void add(std::function<VIP_RETURN()> call)
	{
		results_.emplace_back(-1);
		std::atomic<int> &result = results_.back();
		threads_.emplace_back([this, &result, call] {
			started_++;
			result = call();
		});
	}
	// All threads have begun their calls, as far as the test can see, and none has returned.
	void expectBlocked()
	{
		EXPECT_TRUE(eventually([&] { return started_ == results_.size(); }));
		letTimePass(100);
		EXPECT_EQ(0U, returned()) << "did not block";
	}
	size_t returned() const
	{
		size_t count = 0;
		for (const auto &result : results_)
			count += result != -1;
		return count;
	}
	bool reach(size_t count) const
	{
		return eventually([&] { return returned() >= count; });
	}
	void expectAll(const std::function<bool(VIP_RETURN)> &wanted)
	{
		EXPECT_TRUE(reach(results_.size())) << returned() << " of " << results_.size();
		threads_.clear();
		for (const auto &result : results_)
			EXPECT_TRUE(wanted(static_cast<VIP_RETURN>(result.load()))) << result;
	}

      private:
	std::atomic<size_t> started_{0};
	std::list<std::atomic<int>> results_;
	std::list<Thread> threads_; // destroyed first, which joins them
};

// [functional: VipRecvWait] Many threads may wait on one queue, empty or not; each gets a descriptor that no other
// gets.
TEST_F(Waits, EightThreadsOnOneQueueGetADescriptorEach)
{
	constexpr size_t count = 8;
	Pool pool(nic, count + 1, 64);
	VIP_DESCRIPTOR *got[count] = {};
	Blocked blocked;
	for (auto &d : got)
		blocked.add([this, &d] { return VipRecvWait(b(), VIP_INFINITE, &d); });
	ASSERT_TRUE(pool.postReceives(b(), count, 64));
	blocked.expectBlocked();
	for (size_t i = 0; i < count; i++)
		ASSERT_TRUE(pool.send(a(), count, 64));
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_SUCCESS; });
	std::sort(std::begin(got), std::end(got));
	for (size_t i = 0; i < count; i++)
		EXPECT_EQ(pool.descriptor(i), got[i]);
}

// [functional: VipCQWait] Many threads may wait on one completion queue; each gets an entry that no other gets.
TEST_F(Waits, EightThreadsOnOneCqGetAnEntryEach)
{
	constexpr size_t count = 8;
	Pool pool(nic, count, 64);
	VIP_CQ_HANDLE cq = makeCq(nic, 8);
	std::vector<std::unique_ptr<Vi>> vis;
	VIP_VI_HANDLE got[count] = {};
	VIP_BOOLEAN receive[count];
	Blocked blocked;
	for (size_t i = 0; i < count; i++) {
		vis.push_back(std::make_unique<Vi>(nic, reliable(), cq, cq));
		blocked.add([&, i] { return VipCQWait(cq, VIP_INFINITE, &got[i], &receive[i]); });
	}
	blocked.expectBlocked();
	for (size_t i = 0; i < count; i++) // idle: the sends are done at once, flushed
		ASSERT_TRUE(pool.postSend(*vis[i], i, 64));
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_SUCCESS; });
	for (size_t i = 0; i < count; i++)
		EXPECT_EQ(1, std::count(std::begin(got), std::end(got), VIP_VI_HANDLE{*vis[i]}));
}

// [functional: VipRecvWait] A completion ends one of the waits on its queue and leaves the others.
TEST_F(Waits, OneCompletionEndsOneWaitOfThree)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *got[3] = {};
	Blocked blocked;
	for (auto &d : got)
		blocked.add([this, &d] { return VipRecvWait(b(), kPatience, &d); });
	blocked.expectBlocked();
	for (size_t round = 1; round <= 3; round++) {
		ASSERT_TRUE(pool.postReceive(b(), 0, 64));
		ASSERT_TRUE(pool.send(a(), 1, 64));
		EXPECT_TRUE(blocked.reach(round));
		letTimePass(50);
		EXPECT_EQ(round, blocked.returned());
	}
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_SUCCESS; });
}

// [functional: VipRecvWait] A wait ends when its time is over, also beside others that have no end.
TEST_F(Waits, ATimeoutIsKeptBesideThreadsThatWaitForEver)
{
	Pool pool(nic, 4, 64);
	VIP_DESCRIPTOR *got[3] = {}, *none;
	ASSERT_TRUE(pool.postReceives(b(), 3, 64));
	Blocked blocked;
	for (auto &d : got)
		blocked.add([this, &d] { return VipRecvWait(b(), VIP_INFINITE, &d); });
	blocked.expectBlocked();
	EXPECT_TRUE(takesAbout(500, [&] { EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(b(), 500, &none)); }));
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(pool.send(a(), 3, 64));
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_SUCCESS; });
}

// [functional: VipRecvWait] A wait whose time is over takes nothing from another one on the queue.
TEST_F(Waits, ATimeoutThatEndsLeavesTheOthersTheirCompletions)
{
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	for (int round = 0; round < 3; round++) {
		VIP_DESCRIPTOR *early = nullptr, *late = nullptr;
		Blocked shorter, longer; // the first waiter may be the one that reads for all
		shorter.add([&] { return VipRecvWait(b(), 300, &early); });
		longer.add([&] { return VipRecvWait(b(), VIP_INFINITE, &late); });
		shorter.expectAll([](VIP_RETURN result) { return result == VIP_TIMEOUT; });
		ASSERT_TRUE(pool.send(a(), 1, 64));
		longer.expectAll([](VIP_RETURN result) { return result == VIP_SUCCESS; });
		ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	}
}

// [functional: VipRecvWait] Signals neither end a wait nor change its time.
TEST_F(Waits, SignalsNeitherEndAWaitNorProlongIt)
{
	Pool pool(nic, 1, 64);
	ASSERT_TRUE(pool.postReceive(b(), 0, 64));
	static std::atomic<int> caught;
	struct sigaction action{}, before;
	action.sa_handler = [](int) { caught++; }; // without SA_RESTART
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, &before));
	EXPECT_TRUE(tellsAbout(500, [&] {
		std::atomic<bool> over{false};
		VIP_RETURN result = VIP_NOT_DONE;
		double ms = 0;
		caught = 0;
		Thread waits([&] {
			VIP_DESCRIPTOR *d;
			Stopwatch watch;
			result = VipRecvWait(b(), 500, &d);
			ms = watch.ms();
			over = true;
		});
		while (!over) {
			pthread_kill(waits.native_handle(), SIGUSR1);
			letTimePass(1);
		}
		waits.join();
		EXPECT_EQ(VIP_TIMEOUT, result);
		EXPECT_GT(caught, 5);
		return ms;
	}));
	sigaction(SIGUSR1, &before, nullptr);
}

// [functional: VipDisconnect VipRecvWait] A disconnect ends as many waits as descriptors are flushed; the others go on.
TEST_F(Waits, DisconnectGivesEachAFlushedDescriptorAndThoseBeyondGoOnWaiting)
{
	Pool pool(nic, 3, 64);
	VIP_DESCRIPTOR *got[5] = {};
	ASSERT_TRUE(pool.postReceives(b(), 3, 64));
	Blocked blocked;
	for (auto &d : got)
		blocked.add([this, &d] { return VipRecvWait(b(), kPatience, &d); });
	blocked.expectBlocked();
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	EXPECT_TRUE(blocked.reach(3));
	letTimePass(100);
	EXPECT_EQ(3U, blocked.returned()) << "there is nothing for the other two";
	// They get what the next connection flushes.
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(a()));
	ASSERT_TRUE(pool.postReceives(b(), 2, 64));
	ASSERT_TRUE(harness::connect(a(), b()));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(b()));
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_DESCRIPTOR_ERROR; });
}

// [functional: VipDestroyVi VipRecvWait VipSendWait VipCQWait] To destroy a VI ends all waits on its queues, whether
// they are on a completion queue or not, and none on the completion queue.
TEST_F(Waits, DestroyOfAViEndsAllWaitsOnBothOfItsQueues)
{
	VIP_CQ_HANDLE cq = makeCq(nic, 8);
	for (VIP_CQ_HANDLE on : {VIP_CQ_HANDLE{}, cq}) {
		VIP_VI_HANDLE vi = makeVi(nic, on), named;
		VIP_BOOLEAN receive;
		VIP_DESCRIPTOR *d[6];
		Blocked blocked, onCq;
		for (size_t i = 0; i < 6; i++)
			blocked.add([&, i] {
				return i % 2 ? VipRecvWait(vi, VIP_INFINITE, &d[i])
					     : VipSendWait(vi, VIP_INFINITE, &d[i]);
			});
		onCq.add([&] { return VipCQWait(cq, 1000, &named, &receive); });
		blocked.expectBlocked();
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
		blocked.expectAll([](VIP_RETURN result) { return result == VIP_INVALID_PARAMETER; });
		// The CQ still exists.
		onCq.expectAll([](VIP_RETURN result) { return result == VIP_TIMEOUT; });
	}
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
}

// [functional: VipDestroyCQ VipCQWait] To destroy a completion queue ends the waits of all threads on it.
TEST_F(Waits, DestroyOfACqEndsAllWaitsOnIt)
{
	VIP_CQ_HANDLE cq = makeCq(nic, 8);
	VIP_VI_HANDLE vi[4];
	VIP_BOOLEAN receive[4];
	Blocked blocked;
	for (size_t i = 0; i < 4; i++)
		blocked.add([&, i] { return VipCQWait(cq, VIP_INFINITE, &vi[i], &receive[i]); });
	blocked.expectBlocked();
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	blocked.expectAll([](VIP_RETURN result) { return result == VIP_INVALID_PARAMETER; });
}

// [functional: VipDisconnect VipConnectRequest VipConnectAccept] To disconnect a VI ends another thread's request for
// it, which cannot be accepted any more; the VI can be connected anew.
TEST_F(Waits, DisconnectEndsARequestOfAnotherThread)
{
	std::string discriminator = freshDiscriminator();
	VIP_CONN_HANDLE connection = nullptr;
	Vi asks(nic), other(nic);
	Blocked blocked;
	blocked.add([&] { return requestTo(asks, discriminator, VIP_INFINITE); });
	ASSERT_EQ(VIP_SUCCESS, waitOn(nic, discriminator, kPatience, &connection));
	blocked.expectBlocked(); // no server accepts
	EXPECT_EQ(VIP_SUCCESS, VipDisconnect(asks));
	blocked.expectAll([](VIP_RETURN result) { return result != VIP_SUCCESS; });
	EXPECT_EQ(VIP_STATE_IDLE, asks.state());
	EXPECT_NE(VIP_SUCCESS, VipConnectAccept(connection, other));
	EXPECT_TRUE(harness::connect(other, asks));
}

// [functional: VipCloseNic VipRecvWait VipSendWait VipCQWait VipConnectWait VipConnectRequest VipRecvNotify
// VipCQNotify] To close a NIC ends all waits of all kinds, for whatever they wait, and calls no handler.
TEST_F(Waits, CloseOfTheNicEndsEveryKindOfWaitAtOnce)
{
	Nic doomed;
	std::string waited = freshDiscriminator(), asked = freshDiscriminator();
	VIP_CONN_HANDLE connection = nullptr, pending = nullptr;
	VIP_CQ_HANDLE cq = makeCq(doomed, 8);
	Vi one(doomed), onCq(doomed, reliable(), cq, cq), asks(doomed);
	VIP_DESCRIPTOR *d[3];
	VIP_VI_HANDLE named;
	VIP_BOOLEAN receive;
	Calls calls;
	Blocked blocked;
	blocked.add([&] { return VipRecvWait(one, VIP_INFINITE, &d[0]); });
	blocked.add([&] { return VipSendWait(one, VIP_INFINITE, &d[1]); });
	blocked.add([&] { return VipRecvWait(onCq, VIP_INFINITE, &d[2]); });
	blocked.add([&] { return VipCQWait(cq, VIP_INFINITE, &named, &receive); });
	blocked.add([&] { return waitOn(doomed, waited, VIP_INFINITE, &connection); });
	blocked.add([&] { return requestTo(asks, asked, VIP_INFINITE); });
	EXPECT_EQ(VIP_SUCCESS, VipRecvNotify(one, &calls, Calls::ofVi));
	EXPECT_EQ(VIP_SUCCESS, VipCQNotify(cq, &calls, Calls::ofCq));
	ASSERT_EQ(VIP_SUCCESS, waitOn(nic, asked, kPatience, &pending));
	blocked.expectBlocked();
	EXPECT_EQ(VIP_SUCCESS, doomed.close());
	blocked.expectAll([](VIP_RETURN result) { return result != VIP_SUCCESS; });
	EXPECT_EQ(0U, calls.count());
	VipConnectReject(pending);
}

} // namespace
