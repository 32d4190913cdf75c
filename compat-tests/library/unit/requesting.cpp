// SPDX-License-Identifier: BSD-2-Clause
// VipConnectRequest, with every answer that may come.
#include "line.h"
#include "two_vis.h"

namespace
{

class Requesting : public TwoVis
{
      protected:
	std::future<VIP_RETURN> request_once(const std::string &door, VIP_ULONG timeout = PATIENCE,
					     const char *ip = "10.9.9.1")
	{
		return std::async(std::launch::async, [=] { return request(a, door, timeout, ip); });
	}
	// Its only receive is the one that was posted in the beginning.
	void expect_works()
	{
		expect_state(a, VIP_STATE_IDLE);
		connect(a, b, "again");
		posted_send(b, 2, {{memory.data(128), 8}});
		expect_received(a, d);
	}
};

TEST_F(Requesting, NobodyWaitsIsNoMatchAfterTheGraceTime)
{
	EXPECT_EQ(request(a, "nobody", 10000), VIP_NO_MATCH);
	EXPECT_GT(fake_calls("connect"), 4u) << "each of four ports is asked, again and again";
	EXPECT_EQ(fake_calls("connect") % 4, 0u);
	EXPECT_EQ(fake_calls("rdma_resolve_addr"), 1u) << "a route is known for some seconds";
	expect_works();
}

TEST_F(Requesting, WhoDoesNotAnswerIsTimeoutAtTheCallersTime)
{
	fake_address("10.9.9.77", FAKE_REACH_UNKNOWN);
	EXPECT_EQ(request(a, "x", 50, "10.9.9.77"), VIP_TIMEOUT);
	fake_address("10.9.9.50", FAKE_REACH_SILENT);
	EXPECT_EQ(request(a, "x", 150, "10.9.9.50"), VIP_TIMEOUT);
	expect_works();
}

TEST_F(Requesting, AHostThatTcpGivesUpIsAskedAgainUntilTheCallersTime)
{
	fake_fail_always("connect", ETIMEDOUT);
	EXPECT_EQ(request(a, "x", 300), VIP_TIMEOUT);
	EXPECT_GT(fake_calls("connect"), 1u);
	fake_fail_always("connect", 0);
	expect_works();
}

TEST_F(Requesting, WhereNoWayLeadsIsNotReachable)
{
	fake_address("10.9.9.77", FAKE_REACH_NOBODY);
	EXPECT_EQ(request(a, "x", VIP_INFINITE, "10.9.9.77"), VIP_NOT_REACHABLE);
	EXPECT_EQ(fake_calls("rdma_resolve_addr"), 1u) << "Linux has asked three times";
	fake_address("10.9.9.77", FAKE_REACH_UNREACHABLE);
	EXPECT_EQ(request(a, "x", 5000, "10.9.9.77"), VIP_NOT_REACHABLE);
	EXPECT_EQ(request(a, "x", 5000, "0.0.0.0"), VIP_NOT_REACHABLE);
	fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
	EXPECT_EQ(request(a, "x", 5000), VIP_NOT_REACHABLE) << "the local link is down";
	fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0");
	expect_works();
}

// ---- answers ----

constexpr VIP_RETURN NEXT_PORT = VIP_NOT_DONE; // who answers is not the one, and the next port is asked

using EachAnswer = Each<Requesting, Act>;

TEST_P(EachAnswer, HasItsDocumentedCode)
{
	Gate door("door"), next("door", 1);
	auto requested = request_once("door");
	Line server = door.accept();

	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	GetParam().act(server);
	if (GetParam().wanted == NEXT_PORT) {
		Line other = next.accept();
		EXPECT_EQ(other.next(), MESSAGE_REQUEST);
		other.say(MESSAGE_REJECT);
		EXPECT_EQ(requested.get(), VIP_REJECT);
	} else {
		EXPECT_EQ(requested.get(), GetParam().wanted);
		EXPECT_FALSE(next.has_come(0));
	}
	EXPECT_EQ(server.next(), Line::END);
	expect_works();
}

void accept_with_mtu(Line &other, uint8_t mtu)
{
	Described described;

	described.mtu = mtu;
	other.say(good_message(MESSAGE_ACCEPT, "", "", VIP_SERVICE_RELIABLE_DELIVERY, 65536, described));
}

// The other answers are in conversation_requester.cpp.
INSTANTIATE_TEST_SUITE_P(
	Requesting, EachAnswer,
	testing::Values(Act{"AcceptWithoutMtu", [](Line &other) { accept_with_mtu(other, 0); }, VIP_NOT_REACHABLE},
			Act{"AcceptWithOddMtu", [](Line &other) { accept_with_mtu(other, 6); }, VIP_NOT_REACHABLE},
			Act{"Reject", [](Line &other) { other.say(MESSAGE_REJECT); }, VIP_REJECT},
			Act{"NoMatch", [](Line &other) { other.say(MESSAGE_NO_MATCH); }, NEXT_PORT},
			Act{"Busy", [](Line &other) { other.say(MESSAGE_BUSY); }, NEXT_PORT},
			Act{"Confirm", [](Line &other) { other.say(MESSAGE_CONFIRM); }, NEXT_PORT},
			Act{"Nonsense", [](Line &other) { other.say_bytes("HTTP/1.1 400", 12); }, NEXT_PORT},
			Act{"Reset", [](Line &other) { other.reset(); }, NEXT_PORT}),
	ByName());

// It may be another program's, or a process that is stopped.
TEST_F(Requesting, APortWhoseOwnerSaysNothingIsPassedOver)
{
	Gate door("door");
	auto requested = request_async(a, "door");
	VIP_CONN_HANDLE conn;

	ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS) << "at the second port";
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_messages();
}

TEST_F(Requesting, AnAcceptWithAnEndBehindItWasAConnection)
{
	Gate door("door");
	auto requested = request_once("door");
	Line server = door.accept();

	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	ASSERT_TRUE(server.say(good_message(MESSAGE_ACCEPT, "")));
	ASSERT_TRUE(server.say(MESSAGE_DISCONNECT));
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_received(a, d, VIP_STATUS_DESC_FLUSHED_ERROR);
}

// ---- the device ----

TEST_F(Requesting, TheDeviceFailsEndsTheRequestForGood)
{
	for (bool is_heard : {true, false}) {
		Gate door("door");
		auto requested = request_once(is_heard ? "door" : "nobody");

		if (is_heard) {
			Line server = door.accept();
			ASSERT_EQ(server.next(), MESSAGE_REQUEST);
			fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
			EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
			EXPECT_EQ(server.next(), Line::END);
		} else {
			EXPECT_TRUE(eventually([] { return fake_calls("connect") > 4; })) << "it pauses";
			fake_remove_devices();
			EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
		}
		EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC, nullptr, is_heard ? 1 : 2));
		EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
		start_over();
		open();
		a = make_vi();
	}
}

TEST_F(Requesting, AnErrorOfAnIdleQueuePairIsForgotten)
{
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp);
	EXPECT_TRUE(eventually([] { return fake_calls("ibv_ack_async_event") == 1; }));
	expect_works(); // an IDLE VI has no connection to lose
}

} // namespace
