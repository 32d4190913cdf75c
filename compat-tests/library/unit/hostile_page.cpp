// SPDX-License-Identifier: BSD-2-Clause
// Memory that peers share. All peers of a CQ's queues can write its page: their writes change the order of completions at
// most, and nothing is lost.
//
// The agent may look at the CQ at any time. So each of these tests expects the same completions, whenever it does.
#include "hostile.h"
#include "long_sleeps.h"
#include "old_kernel.h"
#include "shim.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <sys/stat.h>

namespace
{

constexpr uint32_t kFar = 1U << 31; // from any stamp that can be in use

class HostilePage : public HostileTest
{
      protected:
	using Vis = std::vector<VIP_VI_HANDLE>;

	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
		connect_hostile(a, of_a, "a");
		connect_hostile(b, of_b, "b");
	}
	VIP_VI_HANDLE entry()
	{
		const CqEntry next = cq_wait(cq);

		EXPECT_EQ(next.code, VIP_SUCCESS);
		return next.vi;
	}
	// Takes `count` completions of the CQ, which must be messages, and returns their VIs.
	Vis told(size_t count)
	{
		Vis vis;

		for (size_t i = 0; i < count; i++) {
			vis.push_back(entry());
			EXPECT_EQ(recv_done(vis.back()).code, VIP_SUCCESS);
		}
		return vis;
	}

	Peer of_a, of_b;
};

// ---- stamps ----

TEST_F(HostilePage, AStampOfLongAgoOrThatNobodyHasTakenIsToldAfterWhatWasThere)
{
	for (uint32_t distance : {1U, 1000U, kFar - 1, kFar + 1, 0U - kFar})
		for (bool lies_a : {false, true}) {
			const Peer &honest = lies_a ? of_b : of_a, &liar = lies_a ? of_a : of_b;

			send(honest);
			send(honest);
			send(liar, hostile_peer_counter(liar.get()) + distance);
			Vis vis = told(3);
			EXPECT_EQ(vis.front(), (lies_a ? b : a).handle) << distance;
			EXPECT_EQ(std::count(vis.begin(), vis.end(), (lies_a ? a : b).handle), 1) << distance;
		}
}

// ---- the counter ----

TEST_F(HostilePage, ACounterThatWasWrittenToIsPutBack)
{
	for (uint32_t jump : {kFar, kFar + 1, 0U - 1000}) {
		send(of_a);
		EXPECT_EQ(told(1), Vis{a});
		const uint32_t before = hostile_peer_counter(of_b.get());
		hostile_peer_set_counter(of_b.get(), before + jump);
		send(of_b);
		EXPECT_EQ(told(1), Vis{b});
		EXPECT_LT(hostile_peer_counter(of_b.get()) - before, 10U) << jump;
		for (const Peer *peer : {&of_a, &of_b, &of_b, &of_a})
			send(*peer);
		EXPECT_EQ(told(4), (Vis{a, b, b, a})) << jump;
	}
}

// ---- bits ----

TEST_F(HostilePage, AMessageWhoseBitsAreMissingIsFound)
{
	for (int i = 0; i < 3; i++) {
		hostile_peer_publish(of_a.get(), hostile_peer_stamp(of_a.get()), false);
		EXPECT_EQ(told(1), Vis{a});
	}
	send(of_a);
	hostile_peer_set_bits(of_b.get(), 0);
	EXPECT_EQ(told(1), Vis{a});
}

TEST_F(HostilePage, BitsOfQueuesThatDoNotExistAreNobodys)
{
	hostile_peer_set_bits(of_b.get(), UINT32_MAX);
	send(of_a);
	EXPECT_EQ(told(1), Vis{a});
}

// In most runs the connection ends before the agent looks for messages without bits.
TEST_F(HostilePage, AMessageWhoseBitsAreMissingComesBeforeTheEnd)
{
	send(of_a);
	hostile_peer_set_bits(of_b.get(), 0);
	end(of_a);
	EXPECT_EQ(told(1), Vis{a});
	for (size_t i = 1; i < kReceives; i++) {
		ASSERT_EQ(entry(), a.handle);
		expect_received(a, at(i), VIP_STATUS_DESC_FLUSHED_ERROR);
	}
}

// The program has made no call that asks for a completion.
TEST_F(HostilePage, AMessageWhoseBitsAreMissingIsFoundAlsoByAProgramThatNeverAsks)
{
	hostile_peer_publish(of_a.get(), hostile_peer_stamp(of_a.get()), false);
	EXPECT_TRUE(eventually([&] { return is_done(at(0)); }));
}

// ---- waking ----

// The agent finds the message, or the end of a peer that wakes nobody, as one that is killed after its message.
TEST_F(HostilePage, AThreadSleepsAndAPeerSaysThatNoneDoes)
{
	for (bool ends : {false, true}) {
		LongSleeps last;
		auto woken = std::async(std::launch::async, [&] { return entry(); });

		ASSERT_TRUE(eventually([] { return long_sleepers() == 1; }));
		hostile_peer_clear_waits(of_b.get());
		if (ends)
			end(of_b);
		else
			send(of_a);
		EXPECT_EQ(woken.get(), ends ? b.handle : a.handle);
		EXPECT_EQ(sleeps_in_vain(), 0u);
	}
}

// A peer may stop after it has taken a stamp, and publish the message later.
TEST_F(HostilePage, AStampWithoutAMessageHoldsUpNobodyAndKeepsNobodyAwake)
{
	const uint32_t stamp = hostile_peer_stamp(of_a.get()), begun = sleeps_begun();

	send(of_b);
	EXPECT_EQ(told(1), Vis{b});
	EXPECT_EQ(cq_wait(cq, 300).code, VIP_TIMEOUT);
	EXPECT_LT(sleeps_begun() - begun, 20U);
	LongSleeps last;
	auto woken = std::async(std::launch::async, [&] { return entry(); });
	ASSERT_TRUE(eventually([] { return long_sleepers() == 1; }));
	send(of_a, stamp);
	EXPECT_EQ(woken.get(), a.handle);
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// ---- before the connection is known ----

// A program may answer such a message. This peer has no receive for the answer.
TEST_F(HostilePage, WhatAnswersAMessageThatComesBeforeTheConnectionIsKnownIsKeptUntilThen)
{
	for (bool confirms : {true, false}) {
		Vi vi = make_vi(nullptr, cq);

		posted_receive(vi, posted++, {{memory.data(), 16}});
		Peer peer;
		// A name of its own: behind the first one requests are held for a moment, and then told BUSY.
		auto accepted = accept_hostile(vi, peer, confirms ? "early" : "ends");
		ASSERT_TRUE(peer.memory);
		send(peer);
		EXPECT_EQ(told(1), Vis{vi});
		VIP_DESCRIPTOR *answer = posted_send(vi, posted++, {{memory.data(), 8}});
		EXPECT_EQ(__atomic_load_n(&answer->CS.Status, __ATOMIC_RELAXED), 0u);
		if (confirms)
			EXPECT_TRUE(peer.line->say(MESSAGE_CONFIRM));
		else
			end(peer);
		EXPECT_EQ(accepted.get(), confirms ? VIP_SUCCESS : VIP_TIMEOUT);
		expect_sent(vi, answer, confirms ? VIP_STATUS_REMOTE_DESC_ERROR : VIP_STATUS_DESC_FLUSHED_ERROR);
	}
}

// ---- Reliable Reception ----

// A program that watches its memory may answer before the messages that came later are taken. By then the peer's send
// is done.
TEST_F(HostilePage, AMessageIsConsumedBeforeItsReceiveIsComplete)
{
	constexpr size_t kMore = 200;

	vi_kind.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
	Vi vi;
	Peer peer;
	connect_hostile(vi, peer, "reception", 0);
	ASSERT_TRUE(peer.memory);

	for (int round = 0; round < 100; round++) {
		for (size_t i = 0; i <= kMore; i++)
			posted_receive(vi, posted + i, {{memory.data(), 16}});
		const VIP_DESCRIPTOR *first_receive = at(posted);
		std::atomic<bool> watches{false};
		auto watched = std::async(std::launch::async, [&] {
			const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(PATIENCE);

			watches = true;
			while (!is_done(first_receive) && std::chrono::steady_clock::now() < end)
				;
			return hostile_peer_consumed(peer.get());
		});
		ASSERT_TRUE(eventually([&] { return watches.load(); }));
		hostile_peer_publish(peer.get(), hostile_peer_stamp(peer.get()), true);
		const uint32_t first = hostile_peer_published(peer.get());
		for (size_t i = 0; i < kMore; i++)
			hostile_peer_publish(peer.get(), hostile_peer_stamp(peer.get()), false);
		hostile_peer_announce(peer.get());
		EXPECT_EQ(told(kMore + 1), Vis(kMore + 1, vi));
		EXPECT_GE(watched.get(), first);
	}
}

// ---- memory that is not there ----

// Where memory is short, an access to a page that is not allocated would be a signal. So each end of
// a link allocates the next part that it touches, and the end that makes other memory allocates all of it.
constexpr off_t kBlock = 512; // the unit of st_blocks

bool all_is_allocated(int fd)
{
	struct stat status{};
	return !fstat(fd, &status) && status.st_size > 0 && status.st_blocks * kBlock >= status.st_size;
}

class SharedMemory : public testing::TestWithParam<shared_kind>
{
};

TEST_P(SharedMemory, IsAllocatedByTheEndThatMakesIt)
{
	int fd = shim_shared_create(GetParam());
	ASSERT_GE(fd, 0);
	EXPECT_EQ(all_is_allocated(fd), GetParam() != SHARED_LINK);
	::close(fd);
}

TEST_P(SharedMemory, IsRefusedIfItsMakerHasNotAllocatedItUnlessItIsALink)
{
	int fd = shim_shared_sparse(GetParam(), 0);
	ASSERT_GE(fd, 0);
	ASSERT_FALSE(all_is_allocated(fd));
	EXPECT_EQ(shim_shared_map(GetParam(), fd), GetParam() == SHARED_LINK);
	EXPECT_FALSE(all_is_allocated(fd));
	::close(fd);
}

// Before Linux 5.14 there is no way to allocate it without a lock that its maker can hold.
TEST_P(SharedMemory, IsRefusedByAnOldKernelIfItsMakerHasNotAllocatedIt)
{
	passing_child({}, [] {
		int fd = shim_shared_sparse(GetParam(), 0);
		ASSERT_TRUE(refuse_call(SYS_madvise, EINVAL));
		EXPECT_FALSE(shim_shared_map(GetParam(), fd));
		::close(fd);
		fd = shim_shared_create(GetParam());
		EXPECT_TRUE(all_is_allocated(fd));
		EXPECT_TRUE(shim_shared_map(GetParam(), fd));
		::close(fd);
	});
}

// To allocate it would wait for who has the file's lock. To close it last takes time, if there is more of it.
TEST_P(SharedMemory, IsTakenOnlyIfThereIsNoMoreOfItThanItsSize)
{
	int fd = shim_shared_sparse(GetParam(), 1), vast = shim_shared_sparse(GetParam(), 0x8000000);
	ASSERT_GE(fd, 0);
	ASSERT_GE(vast, 0);
	ASSERT_TRUE(all_is_allocated(fd));
	EXPECT_TRUE(shim_shared_may_be(fd));
	EXPECT_TRUE(shim_shared_map(GetParam(), fd));
	EXPECT_FALSE(shim_shared_may_be(vast));
	::close(fd);
	::close(vast);
}

INSTANTIATE_TEST_SUITE_P(Each, SharedMemory, testing::Values(SHARED_LINK, SHARED_REGIONS, SHARED_CQ_PAGE));

} // namespace
