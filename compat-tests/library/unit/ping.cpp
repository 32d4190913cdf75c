// SPDX-License-Identifier: BSD-2-Clause
// Where no control connection can be made, the library asks the peer's host by rdma_cm: a ping.
#include "controlled.h"

namespace
{

// b's peer is on 10.9.9.1, x's on 10.9.9.2. Neither takes control connections.
class Ping : public ControlConnections
{
      protected:
	static constexpr char OTHER[] = "10.9.9.2";

	void SetUp() override
	{
	}
	void TearDown() override
	{
	}
	// Runs `body` with this VIPL_KEEPALIVE_SEC: after it a host that does not answer is gone.
	void run(const std::function<void()> &body, const char *seconds = "1")
	{
		Child child = in_child({{"VIPL_KEEPALIVE_SEC", seconds}}, [&] {
			NicTest::SetUp();
			options([](fake_options &to) { to.sockets = true; });
			open_with([](fake_device &device) { device.addresses[1] = OTHER; });
			b = make_vi();
			x = make_vi();
			fake_fail_always("connect", EHOSTUNREACH);
			body();
			fake_fail_always("connect", 0);
			ControlConnections::TearDown();
		});
		EXPECT_EQ(child.status, 0) << child.out << child.err;
	}
	// Waits for `count` calls of rdma_connect() after the first `before`. None of those may be under way.
	void expect_pings(uint64_t before, uint64_t count)
	{
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_connect") == before + count; }));
	}
	Vi x;
};

TEST_F(Ping, FindsOutThatAHostIsGone)
{
	run([this] {
		auto s = connect_to(b, 4711, PEER_QP, OTHER);
		fake_address(OTHER, FAKE_REACH_SILENT, 1000000);
		expect_lost(b);
		EXPECT_FALSE(fake_live().ids > 2) << "the stranger's and ours, and no ping's";
	});
}

TEST_F(Ping, FindsOutThatNobodyHasTheAddressAnyMore)
{
	run([this] {
		auto s = connect_to(b, 4711, PEER_QP, OTHER);
		fake_address(OTHER, FAKE_REACH_TIMEOUT, 10);
		expect_lost(b);
	});
}

TEST_F(Ping, FindsOutThatThereIsNoWayAnyMore)
{
	run([this] {
		auto s = connect_to(b, 4711, PEER_QP, OTHER);
		fake_address(OTHER, FAKE_REACH_UNREACHABLE, 0);
		expect_lost(b);
	});
}

// A proxy may take connections at that port.
TEST_F(Ping, FindsOutThatAHostIsGoneWhosePortTakesConnectionsAndClosesThem)
{
	run([this] {
		fake_fail_always("connect", 0);
		ControlListener listener(OTHER);
		auto s = connect_to(b, listener.port, PEER_QP, OTHER);
		fake_address(OTHER, FAKE_REACH_SILENT, 1000000);
		for (int i = 0; i < 2; i++)
			listener.accept().close();
		expect_lost(b);
	});
}

// TCP has waited for that long already.
TEST_F(Ping, IsNotWaitedForAfterTcpHasFoundOut)
{
	run(
		[this] {
			fake_fail_always("connect", 0);
			ControlListener listener(OTHER);
			auto s = connect_to(b, listener.port, PEER_QP, OTHER);
			Control control = listener.accept();
			ASSERT_EQ(control.next(), WIRE_HELLO);
			fake_fail_always("connect", EHOSTUNREACH);
			fake_fail("recv", 1, ETIMEDOUT);
			control.send_bytes("", 1);
			expect_lost(b);
		},
		"3600");
}

// b would have been lost long before x is.
TEST_F(Ping, LeavesConnectionsWithAHostThatAnswers)
{
	run([this] {
		auto s = connect_to(b, 4711);
		uint64_t before = fake_calls("rdma_connect");
		expect_pings(before, 1);
		auto t = connect_to(x, 4712, PEER_QP + 1, OTHER);
		fake_address(OTHER, FAKE_REACH_SILENT, 1000000);
		expect_lost(x);
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, b), 0);
	});
}

TEST_F(Ping, ThatIsLostIsRepeated)
{
	run([this] {
		auto s = connect_to(b, 4711);
		uint64_t before = fake_calls("rdma_connect");
		fake_lose_next(FAKE_REQ, 1);
		expect_pings(before, 2);
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
	});
}

// Both control connections cannot be made, and are put off for the same time. x's comes first then.
TEST_F(Ping, ThatIsAnsweredAfterSilenceHasTheControlConnectionMadeAtOnce)
{
	run(
		[this] {
			ControlListener listener;
			auto t = connect_to(x, 4712, PEER_QP + 1, OTHER);
			fake_address(OTHER, FAKE_REACH_SILENT, 1000000);
			EXPECT_TRUE(eventually([] { return fake_calls("connect") == 1; }));
			auto s = connect_to(b, listener.port);
			fake_lose_next(FAKE_REQ, 1);
			EXPECT_TRUE(eventually([] { return fake_calls("connect") == 2; }));
			fake_fail_always("connect", 0);
			listener.accept();
			EXPECT_EQ(fake_calls("connect"), 3U) << "x's came before";
		},
		"8");
}

// iWARP needs a queue pair for a ping, and there may be no file descriptor for an id.
TEST_F(Ping, ThatCannotBeMadeTellsNothing)
{
	for (const char *function : {"rdma_connect", "rdma_create_id"})
		run([this, function] {
			auto s = connect_to(b, 4711);
			uint64_t before = fake_calls(function);
			fake_fail(function, 1, EINVAL);
			EXPECT_TRUE(eventually([&] { return fake_calls(function) > before; }));
			auto t = connect_to(x, 4712, PEER_QP + 1, OTHER);
			fake_address(OTHER, FAKE_REACH_SILENT, 1000000);
			expect_lost(x);
			EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED) << function;
		});
}

// The ping for b would be due before the one for x.
TEST_F(Ping, IsNotMadeWhenTheConnectionHasEnded)
{
	run([this] {
		auto s = connect_to(b, 4711);
		uint64_t before = fake_calls("rdma_connect");
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		auto t = connect_to(x, 4712, PEER_QP + 1, OTHER);
		expect_pings(before + 1, 1);
	});
}

} // namespace
