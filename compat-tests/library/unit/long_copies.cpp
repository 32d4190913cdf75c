// SPDX-License-Identifier: BSD-2-Clause
// Copies between two processes that take long, or never end, since a peer says so or lets it be so. Who ends the connection or
// takes memory back waits for that; calls of other VIs do not.
//
// The library's clock stands still meanwhile, so that no time limit ends these waits.
#include "held_calls.h"
#include "hostile.h"

#include <chrono>

namespace
{

bool is_over(const std::future<VIP_RETURN> &call)
{
	return call.wait_for(std::chrono::milliseconds(0)) == std::future_status::ready;
}

class LongCopies : public HostileTest
{
      protected:
	void SetUp() override
	{
		HostileTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
		served = make_vi();
		client = make_vi();
	}
	void TearDown() override
	{
		hold_clock(false);
		copies_held = false;
		for (Peer *peer : {&of_a, &of_b})
			if (peer->memory)
				hostile_peer_copies(peer->get(), false);
		if (others.valid())
			others.get();
		HostileTest::TearDown();
	}
	// From here on a peer of a, and one of b, are in copies.
	void connect_both()
	{
		connect_hostile(a, of_a, "a");
		connect_hostile(b, of_b, "b");
		hostile_peer_copies(of_a.get(), true);
		hostile_peer_copies(of_b.get(), true);
	}
	// From here on time passes only for the test. Somebody listens already, because a requester's pause would not end.
	void hold_time()
	{
		serving = std::async(std::launch::async, [this] { return accept_one(nic, friendly(), served); });
		Line look(VIA_LO, friendly());
		hold_clock(true);
	}
	static std::string friendly()
	{
		return "friend" + std::to_string(getpid());
	}
	// Whether calls of other VIs end.
	bool others_go_on()
	{
		others = std::async(std::launch::async, [this] {
			Vi more = make_vi();

			EXPECT_EQ(request(client, friendly(), PATIENCE), VIP_SUCCESS);
			EXPECT_EQ(serving.get(), VIP_SUCCESS);
			EXPECT_EQ(VipDisconnect(client), VIP_SUCCESS);
			EXPECT_EQ(VipDisconnect(served), VIP_SUCCESS);
			EXPECT_EQ(VipDestroyVi(more), VIP_SUCCESS);
		});
		return others.wait_for(std::chrono::milliseconds(PATIENCE)) == std::future_status::ready;
	}
	static std::future<VIP_RETURN> call(const std::function<VIP_RETURN()> &what)
	{
		return std::async(std::launch::async, what);
	}
	// Begins to take back memory that nobody uses. The NIC does not know it any more when this returns.
	std::future<VIP_RETURN> deregister()
	{
		static char unused[64];
		VIP_MEM_ATTRIBUTES attributes{};
		VIP_MEM_HANDLE handle = 0;

		EXPECT_EQ(VipRegisterMem(nic, unused, sizeof(unused), &attributes, &handle), VIP_SUCCESS);
		auto ends = call([=] { return VipDeregisterMem(nic, unused, handle); });
		EXPECT_TRUE(eventually([&] { return VipQueryMem(nic, unused, handle, &attributes) != VIP_SUCCESS; }));
		return ends;
	}

	Peer of_a, of_b;
	Vi served, client;
	std::future<VIP_RETURN> serving;
	std::future<void> others;
};

// ---- a peer says that it is in a copy ----

TEST_F(LongCopies, OfPeersThatAreDisconnected)
{
	connect_both();
	hold_time();
	auto of_one = call([this] { return VipDisconnect(a); }), of_other = call([this] { return VipDisconnect(b); });
	for (const Peer *peer : {&of_a, &of_b})
		EXPECT_TRUE(eventually([=] { return hostile_peer_sees_closed(peer->get()); }));
	EXPECT_TRUE(others_go_on());
	EXPECT_FALSE(is_over(of_one));
	EXPECT_FALSE(is_over(of_other));
	expect_state(a, VIP_STATE_CONNECTED);
	hostile_peer_copies(of_b.get(), false);
	EXPECT_EQ(of_other.get(), VIP_SUCCESS);
	expect_state(b, VIP_STATE_IDLE);
	EXPECT_FALSE(is_over(of_one));
	end(of_a); // as if it had died in the copy
	EXPECT_EQ(of_one.get(), VIP_SUCCESS);
	expect_state(a, VIP_STATE_IDLE);
}

// An error is told when the receives are flushed, and they are flushed when nobody writes to them any more.
TEST_F(LongCopies, OfAPeerThatViolatesTheProtocol)
{
	connect_both();
	hold_time();
	hostile_peer_violate(of_a.get());
	EXPECT_TRUE(eventually([&] { return hostile_peer_sees_closed(of_a.get()); }));
	EXPECT_TRUE(others_go_on());
	EXPECT_EQ(recv_done(a).code, VIP_NOT_DONE);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, a), 0);
	auto disconnected = call([this] { return VipDisconnect(b); });
	EXPECT_TRUE(eventually([&] { return hostile_peer_sees_closed(of_b.get()); }));
	hostile_peer_copies(of_a.get(), false);
	expect_lost(a);
	EXPECT_EQ(recv_done(a).code, VIP_DESCRIPTOR_ERROR);
	EXPECT_FALSE(is_over(disconnected));
	hostile_peer_copies(of_b.get(), false);
	EXPECT_EQ(disconnected.get(), VIP_SUCCESS);
}

// VipQueryVi waits for the end of the connection; the call that tells of the error does not.
TEST_F(LongCopies, OfAPeerDoNotDelayAnError)
{
	connect_both();
	hold_time();
	posted_send(a, posted++, {{memory.data(), 8}}); // the peer has no receive
	auto told = call([this] {
		return send_done(a).code;
	});
	ASSERT_EQ(told.wait_for(std::chrono::milliseconds(PATIENCE)), std::future_status::ready);
	EXPECT_EQ(told.get(), VIP_DESCRIPTOR_ERROR);
	auto asked = call([this] { return state_of(a) == VIP_STATE_ERROR ? VIP_SUCCESS : VIP_INVALID_STATE; });
	EXPECT_TRUE(eventually([&] { return hostile_peer_sees_closed(of_a.get()); }));
	EXPECT_TRUE(others_go_on());
	EXPECT_FALSE(is_over(asked));
	hostile_peer_copies(of_a.get(), false);
	EXPECT_EQ(asked.get(), VIP_SUCCESS);
}

// It has got the answer, and never confirms.
TEST_F(LongCopies, OfAPeerWhoseConnectionDoesNotComeAbout)
{
	a = make_vi(nullptr, cq);
	VIP_DESCRIPTOR *receive = posted_receive(a, 0, {{memory.data(), 16}});
	auto accepted = accept_hostile(a, of_a, "a");
	ASSERT_TRUE(of_a.memory);
	hostile_peer_copies(of_a.get(), true);
	hold_time();
	auto disconnected = call([this] { return VipDisconnect(a); });
	EXPECT_TRUE(eventually([&] { return hostile_peer_sees_closed(of_a.get()); }));
	EXPECT_TRUE(others_go_on());
	EXPECT_FALSE(is_over(disconnected));
	EXPECT_FALSE(is_over(accepted));
	EXPECT_EQ(recv_done(a).code, VIP_NOT_DONE);
	hostile_peer_copies(of_a.get(), false);
	EXPECT_EQ(disconnected.get(), VIP_SUCCESS);
	EXPECT_EQ(accepted.get(), VIP_INVALID_STATE);
	expect_received(a, receive, VIP_STATUS_DESC_FLUSHED_ERROR);
}

TEST_F(LongCopies, OfPeersWhenMemoryIsTakenBack)
{
	connect_both();
	hold_time();
	auto taken_back = deregister();
	EXPECT_TRUE(others_go_on());
	hostile_peer_copies(of_a.get(), false);
	EXPECT_FALSE(is_over(taken_back)) << "b's peer is in its copy";
	hostile_peer_copies(of_b.get(), false);
	EXPECT_EQ(taken_back.get(), VIP_SUCCESS);
}

// Copies that begin later are none of memory that was taken back before. So this ends though the peer is in a copy all the time.
TEST_F(LongCopies, ThatFollowEachOther)
{
	connect_both();
	hostile_peer_copies(of_b.get(), false);
	auto taken_back = deregister();
	std::atomic<bool> stops{false};
	auto copying = std::async(std::launch::async, [&] {
		while (!stops) {
			hostile_peer_copies(of_a.get(), false);
			hostile_peer_copies(of_a.get(), true);
		}
	});
	EXPECT_EQ(taken_back.get(), VIP_SUCCESS);
	stops = true;
	copying.get();
	expect_state(a, VIP_STATE_CONNECTED);
}

// The time limit ends these waits, and the connections. Nobody waits again: the clock stands still then.
TEST_F(LongCopies, AreWaitedForOnce)
{
	connect_both();
	EXPECT_EQ(deregister().get(), VIP_SUCCESS);
	hold_time();
	EXPECT_EQ(deregister().get(), VIP_SUCCESS);
	for (VIP_VI_HANDLE vi : {a, b}) {
		expect_lost(vi);
		EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
	}
	EXPECT_TRUE(others_go_on());
}

TEST_F(LongCopies, OfAPeerDoNotKeepTheNicFromClosing)
{
	connect_both();
	close();
}

// ---- a thread of ours is in one ----

// This is what a peer can do whose page faults are served by a program.
class CopiesOfOurs : public LongCopies
{
      protected:
	static constexpr size_t kLong = 20000; // it is copied directly

	void SetUp() override
	{
		LongCopies::SetUp();
		vi_kind.MaxTransferSize = 65536;
		a = make_vi();
		b = make_vi();
		connect(a, b, "long");
		posted_receive(b, 0, {{memory.data(kLong), kLong}});
		hold_time();
		copies_held = true;
		posting = std::async(std::launch::async, [this] { posted_send(a, 1, {{memory.data(), kLong}}); });
		ASSERT_TRUE(eventually([] { return in_copies == 1; }));
	}
	void TearDown() override
	{
		copies_held = false;
		posting.get();
		LongCopies::TearDown();
	}
	std::future<void> posting;
};

TEST_F(CopiesOfOurs, KeepNobodyButWhoDisconnects)
{
	auto ended = call([this] { return VipDisconnect(a); });
	EXPECT_TRUE(others_go_on());
	EXPECT_FALSE(is_over(ended));
	copies_held = false;
	EXPECT_EQ(ended.get(), VIP_SUCCESS);
	expect_state(a, VIP_STATE_IDLE);
}

TEST_F(CopiesOfOurs, KeepNobodyButWhoTakesMemoryBack)
{
	auto taken_back = deregister();
	EXPECT_TRUE(others_go_on());
	EXPECT_FALSE(is_over(taken_back));
	copies_held = false;
	EXPECT_EQ(taken_back.get(), VIP_SUCCESS);
	expect_sent(a, at(1));
	expect_received(b, at(0));
}

// The peer's nonce is in memory of the peer.
TEST_F(LongCopies, AreNoneWhileAConnectionIsMade)
{
	a = make_vi();
	b = make_vi();
	copies_held = true;
	connect(a, b, "first");
	EXPECT_EQ(in_copies, 0u);
	copies_held = false;
}

} // namespace
