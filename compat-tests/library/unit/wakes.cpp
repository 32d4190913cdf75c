// SPDX-License-Identifier: BSD-2-Clause
// Wake-ups, which are bytes over a connection's socket: those that get lost, and those that are not as this library's.
#include "held_calls.h"
#include "hostile.h"
#include "old_kernel.h"

#include <fcntl.h>
#include <unistd.h>

namespace
{

class WakeUps : public HostileTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
		connect_hostile(a, of_a, "wake-ups");
	}
	static bool wake(const Peer &peer, const std::vector<int> &fds = {})
	{
		return peer.line->say_bytes("", 1, fds);
	}

	Peer of_a, of_b;
};

// As of a process that ends after it has seen that it shall send one. The other one sees that no more.
TEST_F(WakeUps, ThatDoNotComeBeforeTheEndOfAConnectionAreAskedForAgain)
{
	connect_hostile(b, of_b, "other");
	await_rest();
	hostile_peer_clear_waits(of_a.get());
	send(of_b);
	end(of_a);
	expect_state(a, VIP_STATE_ERROR);
	EXPECT_TRUE(hostile_peer_is_to_wake(of_b.get()));
	EXPECT_TRUE(is_done(at(kReceives)));
}

class WakeUpsBefore516 : public WakeUps
{
	void SetUp() override
	{
		NicTest::SetUp();
	}
};

// The notifier cannot sleep at several words, and waits for what the agent tells it.
TEST_F(WakeUpsBefore516, AreAskedForAgainForTheNotifierAlsoWhileTheProgramPolls)
{
	passing_child({}, [this] {
		ASSERT_TRUE(refuse_call(449, ENOSYS)); // futex_waitv()
		open("via_lo");
		cq = make_cq(64);
		connect_hostile(a, of_a, "old");
		b = make_vi();
		ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}), VIP_SUCCESS);
		for (int i = 0; i < 3; i++) {
			const auto polls_until_asked = [&] {
				recv_done(b);
				return hostile_peer_is_to_wake(of_a.get());
			};

			EXPECT_TRUE(eventually(polls_until_asked));
			hostile_peer_clear_waits(of_a.get()); // a thread of the program has taken the message
			EXPECT_TRUE(wake(of_a));
			EXPECT_TRUE(eventually(polls_until_asked));
		}
		close();
	});
}

TEST_F(WakeUps, WithADescriptorEndTheConnection)
{
	int ends[2];
	char byte;

	ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
	EXPECT_TRUE(wake(of_a));
	EXPECT_TRUE(wake(of_a, {ends[1]}));
	::close(ends[1]);
	expect_state(a, VIP_STATE_ERROR);
	EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the library has closed it";
	::close(ends[0]);
}

// Nobody polls, and no CQ has a page. So a message without a wake-up would never be taken.
using ScarceMemory = NicTest;

TEST_F(ScarceMemory, AWakeUpForWhichThereIsNoMemoryIsTriedAgain)
{
	constexpr unsigned kFailures = 4; // of the thread, and of the agent in its place

	open("via_lo");
	make_pair();
	const VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 64}});
	await_rest();
	wakes_to_fail = kFailures;
	posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_TRUE(eventually([&] { return is_done(r); }));
	EXPECT_EQ(wakes_to_fail, 0u);
}

// A thread polls, and so sets the timer, while the agent stops it. Of several messages to a VI that nobody polls only the
// first one sends a wake-up then.
TEST_F(ScarceMemory, ATimerTicksThatIsSetWhileTheAgentStopsIt)
{
	open("via_lo");
	make_pair();
	Vi polled = make_vi();
	recv_done(polled);
	stops_held = true;
	EXPECT_TRUE(eventually([] { return in_stops > 0; }));
	recv_done(polled);
	stops_held = false;
	for (size_t i = 0; i < 3; i++) {
		const VIP_DESCRIPTOR *r = posted_receive(b, i, {{memory.data(), 64}});
		posted_send(a, 10 + i, {{memory.data(100), 8}});
		EXPECT_TRUE(eventually([&] { return is_done(r); })) << i;
	}
}

} // namespace
