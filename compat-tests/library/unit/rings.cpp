// SPDX-License-Identifier: BSD-2-Clause
// Peers that ring, by a byte over the connection's socket, more often than they are asked to, or not as this library does.
#include "held_calls.h"
#include "hostile.h"
#include "old_kernel.h"

#include <chrono>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

namespace
{

class Rings : public HostileTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
		connect_hostile(a, of_a, "rings");
	}
	static bool ring(const Peer &peer, const std::vector<int> &fds = {})
	{
		return peer.line->say_bytes("", 1, fds);
	}
	static bool is_heard(const Peer &peer)
	{
		return eventually([&] { return !peer.line->has_unread(); });
	}
	static void send(const Peer &peer)
	{
		hostile_peer_publish(peer.get(), hostile_peer_stamp(peer.get()), false);
		hostile_peer_announce(peer.get());
	}
	bool is_done(size_t number)
	{
		return __atomic_load_n(&at(number)->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE;
	}
	// Until the library no longer looks by itself, because the program does not poll.
	static void rest()
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(300));
	}

	static constexpr int kMost = 512; // needless ones in 10 ms
	Peer of_a, of_b;
};

// The clock stands still, so a pause does not end.
struct HeldClock {
	HeldClock()
	{
		hold_clock(true);
	}
	~HeldClock()
	{
		hold_clock(false);
	}
};

TEST_F(Rings, ForNothingGetAPause)
{
	connect_hostile(b, of_b, "other");
	{
		const HeldClock held;

		for (int i = 0; i < kMost; i++)
			ASSERT_TRUE(ring(of_a) && is_heard(of_a)) << i;
		EXPECT_TRUE(ring(of_a));
		for (int i = 0; i < 3; i++) // turns of the agent
			EXPECT_TRUE(ring(of_b) && is_heard(of_b));
		EXPECT_TRUE(of_a.line->has_unread());
	}
	EXPECT_TRUE(is_heard(of_a));
	send(of_a);
	EXPECT_TRUE(ring(of_a) && eventually([&] { return is_done(0); }));
}

TEST_F(Rings, ForMessagesGetNone)
{
	const HeldClock held;

	for (int i = 0; i < 3 * kMost; i++) {
		hostile_peer_abort(of_a.get());
		ASSERT_TRUE(ring(of_a) && is_heard(of_a)) << i;
		ASSERT_TRUE(eventually([&] { return hostile_peer_consumed(of_a.get()) == hostile_peer_published(of_a.get()); }));
	}
}

// The program does not poll, and nobody waits: so there is no other way to learn of the message soon. The agent takes it.
TEST_F(Rings, TellTheAgentWhoHasNews)
{
	send(of_a);
	EXPECT_TRUE(ring(of_a));
	EXPECT_TRUE(eventually([&] { return is_done(0); }));
}

// As of a process that ends after it has seen that it shall ring. The other one sees that no more.
TEST_F(Rings, ThatDoNotComeBeforeTheEndOfAConnectionAreAskedForAgain)
{
	connect_hostile(b, of_b, "other");
	rest();
	hostile_peer_clear_waits(of_a.get());
	send(of_b);
	end(of_a);
	expect_state(a, VIP_STATE_ERROR);
	EXPECT_TRUE(hostile_peer_is_to_ring(of_b.get()));
	EXPECT_TRUE(is_done(kReceives));
}

class RingsBefore516 : public Rings
{
	void SetUp() override
	{
		NicTest::SetUp();
	}
};

// The notifier cannot sleep at several words, and waits for what the agent tells it.
TEST_F(RingsBefore516, AreAskedForAgainForTheNotifierAlsoWhileTheProgramPolls)
{
	passing_child({}, [this] {
		VIP_DESCRIPTOR *done;

		ASSERT_TRUE(refuse_call(449, ENOSYS)); // futex_waitv()
		open("via_lo");
		cq = make_cq(64);
		connect_hostile(a, of_a, "old");
		b = make_vi();
		ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}), VIP_SUCCESS);
		for (int i = 0; i < 3; i++) {
			const auto polls_until_asked = [&] {
				VipRecvDone(b, &done);
				return hostile_peer_is_to_ring(of_a.get());
			};

			EXPECT_TRUE(eventually(polls_until_asked));
			hostile_peer_clear_waits(of_a.get()); // a thread of the program has taken the message
			EXPECT_TRUE(ring(of_a));
			EXPECT_TRUE(eventually(polls_until_asked));
		}
		close();
	});
}

TEST_F(Rings, WithADescriptorEndTheConnection)
{
	int ends[2];
	char byte;

	ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
	EXPECT_TRUE(ring(of_a));
	EXPECT_TRUE(ring(of_a, {ends[1]}));
	::close(ends[1]);
	expect_state(a, VIP_STATE_ERROR);
	EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the library has closed it";
	::close(ends[0]);
}

// Nobody polls, and no CQ has a page. So a message without a ring would never be taken.
using ScarceMemory = NicTest;

TEST_F(ScarceMemory, ARingForWhichThereIsNoMemoryIsTriedAgain)
{
	constexpr unsigned kFailures = 4; // of the thread, and of the agent in its place

	open("via_lo");
	make_pair();
	const VIP_UINT32 *status = &posted_receive(b, 0, {{memory.data(), 64}})->CS.Status;
	std::this_thread::sleep_for(std::chrono::milliseconds(300)); // until the library does not look by itself
	fail_rings(kFailures);
	posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_TRUE(eventually([&] { return __atomic_load_n(status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE; }));
	EXPECT_EQ(rings_to_fail(), 0u);
}

} // namespace
