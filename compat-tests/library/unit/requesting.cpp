// SPDX-License-Identifier: BSD-2-Clause
// VipConnectRequest, with every answer that may come.
#include "talking.h"
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
		ASSERT_EQ(post_send(b, descriptor(2, {{memory.data(128), 8}})), VIP_SUCCESS);
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

TEST_F(Requesting, AnAddressThatIsNotThereIsNotReachable)
{
	fake_address("10.9.9.77", FAKE_REACH_NOBODY);
	EXPECT_EQ(request(a, "x", VIP_INFINITE, "10.9.9.77"), VIP_NOT_REACHABLE);
	EXPECT_EQ(fake_calls("rdma_resolve_addr"), 1u) << "Linux has asked three times";
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

TEST_F(Requesting, NoRouteIsNotReachable)
{
	fake_address("10.9.9.77", FAKE_REACH_UNREACHABLE);
	EXPECT_EQ(request(a, "x", 5000, "10.9.9.77"), VIP_NOT_REACHABLE);
	fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
	EXPECT_EQ(request(a, "x", 5000), VIP_NOT_REACHABLE) << "the local link is down";
	fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0");
	expect_works();
}

TEST_F(Requesting, AddressesAndTimeoutsThatAreNoneAreRefused)
{
	Address local("0.0.0.0", "me"), remote("10.9.9.1", "x");
	VIP_VI_ATTRIBUTES out;

	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 0, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, nullptr, remote.get(), 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, local.get(), nullptr, 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 9, nullptr), VIP_INVALID_PARAMETER);
	remote.get()->HostAddressLen = 4;
	EXPECT_EQ(VipConnectRequest(a, local.get(), remote.get(), 9, &out), VIP_INVALID_PARAMETER);
	EXPECT_EQ(request(a, "x", 9, "0.0.0.0"), VIP_NOT_REACHABLE);
	expect_works();
}

// ---- answers ----

constexpr VIP_RETURN NEXT_PORT = VIP_NOT_DONE; // who answers is not the one, and the next port is asked

struct Answer {
	const char *name;
	void (*give)(Talker &talker);
	VIP_RETURN wanted;
};

void PrintTo(const Answer &answer, std::ostream *out)
{
	*out << answer.name;
}

using EachAnswer = Each<Requesting, Answer>;

TEST_P(EachAnswer, HasItsDocumentedCode)
{
	Door door("door"), next("door", 1);
	auto requested = request_once("door");
	Talker server = door.accept();

	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	GetParam().give(server);
	if (GetParam().wanted == NEXT_PORT) {
		Talker other = next.accept();
		EXPECT_EQ(other.next(), MESSAGE_REQUEST);
		EXPECT_EQ(server.next(), +Talker::END);
		other.say(MESSAGE_REJECT);
		EXPECT_EQ(requested.get(), VIP_REJECT);
	} else {
		EXPECT_EQ(requested.get(), GetParam().wanted);
		EXPECT_FALSE(next.has_come(0));
	}
	if (GetParam().wanted == VIP_SUCCESS) {
		EXPECT_EQ(server.next(), MESSAGE_CONFIRM);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(server.next(), MESSAGE_DISCONNECT);
		EXPECT_TRUE(server.say(MESSAGE_DISCONNECT));
		expect_received(a, d, VIP_STATUS_DESC_FLUSHED_ERROR);
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
	}
	EXPECT_EQ(server.next(), +Talker::END);
	expect_works();
}

void accept_as(Talker &talker, VIP_RELIABILITY_LEVEL level, uint8_t mtu)
{
	Described described;

	described.mtu = mtu;
	talker.say(good_message(MESSAGE_ACCEPT, "", "", level, 65536, described));
}

void say_in_another_version(Talker &talker)
{
	message answer = good_message(MESSAGE_ACCEPT, "");

	answer.version = RDMA_VERSION + 1;
	talker.say(answer);
}

void say_in_pieces(Talker &talker)
{
	const message answer = good_message(MESSAGE_ACCEPT, "");

	for (size_t i = 0; i < sizeof(answer); i++)
		EXPECT_TRUE(talker.say_bytes(reinterpret_cast<const char *>(&answer) + i, 1));
}

INSTANTIATE_TEST_SUITE_P(
	Requesting, EachAnswer,
	testing::Values(
		Answer{"Accept", [](Talker &peer) { peer.say(good_message(MESSAGE_ACCEPT, "")); }, VIP_SUCCESS},
		Answer{"AcceptBehindHere", [](Talker &peer) { peer.say(MESSAGE_HERE), peer.say(good_message(MESSAGE_ACCEPT, "")); }, VIP_SUCCESS},
		Answer{"AcceptInPieces", say_in_pieces, VIP_SUCCESS},
		Answer{"AcceptAtAnotherLevel", [](Talker &peer) { accept_as(peer, VIP_SERVICE_UNRELIABLE, IBV_MTU_1024); }, VIP_NOT_REACHABLE},
		Answer{"AcceptWithoutMtu", [](Talker &peer) { accept_as(peer, VIP_SERVICE_RELIABLE_DELIVERY, 0); }, VIP_NOT_REACHABLE},
		Answer{"AcceptWithOddMtu", [](Talker &peer) { accept_as(peer, VIP_SERVICE_RELIABLE_DELIVERY, 6); }, VIP_NOT_REACHABLE},
		Answer{"Reject", [](Talker &peer) { peer.say(MESSAGE_REJECT); }, VIP_REJECT},
		Answer{"AnotherVersion", say_in_another_version, VIP_REJECT},
		Answer{"NoMatch", [](Talker &peer) { peer.say(MESSAGE_NO_MATCH); }, NEXT_PORT},
		Answer{"Busy", [](Talker &peer) { peer.say(MESSAGE_BUSY); }, NEXT_PORT},
		Answer{"Confirm", [](Talker &peer) { peer.say(MESSAGE_CONFIRM); }, NEXT_PORT},
		Answer{"Request", [](Talker &peer) { peer.say(good_message(MESSAGE_REQUEST, "door")); }, NEXT_PORT},
		Answer{"Nonsense", [](Talker &peer) { peer.say_bytes("HTTP/1.1 400", 12); }, NEXT_PORT},
		Answer{"HalfAWord", [](Talker &peer) { peer.say_bytes("VIPL\3", 5), peer.hang_up(); }, NEXT_PORT},
		Answer{"End", [](Talker &peer) { peer.hang_up(); }, NEXT_PORT},
		Answer{"Reset", [](Talker &peer) { peer.reset(); }, NEXT_PORT}),
	[](const auto &each) { return each.param.name; });

// The answer may come before the route is known. So nobody who has not been asked can accept.
TEST_F(Requesting, AnAnswerBeforeTheRequestIsNone)
{
	Door door("door"), next("door", 1);

	fake_fail_always("rdma_get_cm_event", EAGAIN); // the route stays unknown
	auto requested = request_once("door");
	Talker early = door.accept();
	early.say(good_message(MESSAGE_ACCEPT, ""));
	Talker other = next.accept();
	fake_fail_always("rdma_get_cm_event", 0);
	EXPECT_EQ(other.next(), MESSAGE_REQUEST);
	other.say(MESSAGE_REJECT);
	EXPECT_EQ(requested.get(), VIP_REJECT);
	expect_works();
}

// It may be another program's, or a process that is stopped.
TEST_F(Requesting, APortWhoseOwnerSaysNothingIsPassedOver)
{
	Door door("door");
	auto requested = request_async(a, "door");
	VIP_CONN_HANDLE conn;

	ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS) << "at the second port";
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_messages();
}

TEST_F(Requesting, AServerThatIsThereMayTakeItsTime)
{
	Door door("door");
	auto requested = request_once("door", 1500);
	Talker server = door.accept();

	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	ASSERT_TRUE(server.say(MESSAGE_HERE));
	EXPECT_EQ(requested.get(), VIP_TIMEOUT);
	EXPECT_EQ(server.next(), +Talker::END);
	EXPECT_FALSE(door.has_come(0)) << "it is not asked again";
	expect_works();
}

TEST_F(Requesting, AnAcceptWithAnEndBehindItWasAConnection)
{
	Door door("door");
	auto requested = request_once("door");
	Talker server = door.accept();

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
		Door door("door");
		auto requested = request_once(is_heard ? "door" : "nobody");

		if (is_heard) {
			Talker server = door.accept();
			ASSERT_EQ(server.next(), MESSAGE_REQUEST);
			fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
			EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
			EXPECT_EQ(server.next(), +Talker::END);
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

TEST_F(Requesting, LooksAreBoundedThoughTheTransportGivesUpAtOnce)
{
	fake_fail_always("connect", ETIMEDOUT);
	auto requested = request_once("x", 100);

	bool ended = requested.wait_for(std::chrono::milliseconds(PATIENCE)) == std::future_status::ready;
	EXPECT_TRUE(ended) << "the agent goes round and round with the NIC locked";
	fake_fail_always("connect", ENETUNREACH); // ends the request
	requested.get();
}

} // namespace
