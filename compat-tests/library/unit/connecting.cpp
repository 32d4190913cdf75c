// SPDX-License-Identifier: BSD-2-Clause
// Clients and servers: each end, whatever the other one does.
#include "line.h"
#include "settings.h"
#include "two_vis.h"

#include <chrono>

using namespace std::chrono_literals;

namespace
{

// ---- VipConnectWait, Accept and Reject ----

class Accepting : public TwoVis
{
      protected:
	// One whose request a wait has got, as `conn`.
	Line make_request(const Described &described = {})
	{
		const std::string door = "door " + std::to_string(doors++);
		auto waited = std::async(std::launch::async, [=] { return wait(door, PATIENCE); });
		Line talker(door);

		EXPECT_TRUE(talker.say(good_message(MESSAGE_REQUEST, door, "", VIP_SERVICE_RELIABLE_DELIVERY, described)));
		EXPECT_EQ(waited.get(), VIP_SUCCESS);
		return talker;
	}
	std::future<VIP_RETURN> accept_async()
	{
		return std::async(std::launch::async, [&] { return VipConnectAccept(conn, b); });
	}
	int doors = 0;
};

TEST_F(Accepting, DiscriminatorsAreWaitedForAtTheSamePortsByEveryProcess)
{
	// FNV-1a: of "" 0x811c9dc5, of "a" 0xe40c292c. All tests look where place_of() says.
	EXPECT_EQ(place_of(""), 0x4000 + (0x811c9dc5 % 4096) * 4);
	EXPECT_EQ(place_of("a"), 0x4000 + (0xe40c292c % 4096) * 4);
	EXPECT_EQ(wait("a", 0), VIP_TIMEOUT);
	EXPECT_TRUE(is_listened_for("a"));
	EXPECT_FALSE(is_listened_for("a", 1));
}

TEST_F(Accepting, ManyRequestsOfAnotherVersionDoNotFillTheLog)
{
	auto waited = std::async(std::launch::async, [=] { return wait("door", PATIENCE); });
	message request = good_message(MESSAGE_REQUEST, "door");
	const std::string line = "refused a request by another version";
	const auto start = std::chrono::steady_clock::now();
	size_t lines = 0;

	request.version++;
	testing::internal::CaptureStderr();
	for (int i = 0; i < 10; i++) {
		Line talker("door");
		EXPECT_TRUE(talker.say(request));
		EXPECT_EQ(talker.next(), MESSAGE_BAD_VERSION);
	}
	const std::string log = testing::internal::GetCapturedStderr();

	for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1))
		lines++;
	/* The log gets one line at once, and one in five seconds. This process has logged no such line before. */
	EXPECT_GE(lines, 1u);
	EXPECT_LE(lines, 1 + (std::chrono::steady_clock::now() - start) / 5s) << log;
	Line other("door"), right("door");
	EXPECT_TRUE(other.say(good_message(MESSAGE_REQUEST, "another one")));
	EXPECT_EQ(other.next(), MESSAGE_NO_MATCH);
	EXPECT_TRUE(right.say(good_message(MESSAGE_REQUEST, "door")));
	EXPECT_EQ(waited.get(), VIP_SUCCESS) << "and the wait goes on";
}

TEST_F(Accepting, ADescriptionThatMakesNoSenseIsNotAccepted)
{
	for (uint8_t mtu : {0, IBV_MTU_4096 + 1}) {
		Described described;
		described.mtu = mtu;
		Line talker = make_request(described);
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_ERROR_RESOURCE);
		EXPECT_EQ(talker.next(), MESSAGE_REJECT);
	}
	expect_works();
}

// The kernel asks where the host is.
TEST_F(Accepting, ARequesterWhoseHostHasDiedIsTimeout)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH}) {
		Line talker = make_request();

		fake_fail("ibv_modify_qp", 2, error); // 1 is INIT, 2 is RTR
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	}
	expect_works();
}

// Both ends know the lesser MTU when they have each other's description.
TEST_F(Accepting, TheLesserMtuIsThatOfTheConnection)
{
	for (ibv_mtu mtu : {IBV_MTU_512, IBV_MTU_4096}) {
		Described described;
		described.mtu = static_cast<uint8_t>(mtu);
		Line talker = make_request(described);
		auto accepted = accept_async();
		ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
		EXPECT_EQ(talker.last.description[36], std::min(mtu, IBV_MTU_1024));
		ASSERT_TRUE(talker.say(MESSAGE_CONFIRM));
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		ibv_qp_attr attributes;
		ibv_qp_init_attr unused;
		ibv_query_qp(fake_qp(newest_qp()), &attributes, IBV_QP_PATH_MTU, &unused);
		EXPECT_EQ(attributes.path_mtu, std::min(mtu, IBV_MTU_1024));
		EXPECT_EQ(attributes.dest_qp_num, described.qp);
		EXPECT_EQ(attributes.rq_psn, described.psn);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	}
}

// Its messages may have arrived already.
TEST_F(Accepting, ARequesterThatDisconnectsAtOnceWasConnected)
{
	for (bool with_a_word : {true, false}) {
		Line talker = make_request();
		auto accepted = accept_async();
		ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
		talker.say(MESSAGE_CONFIRM);
		if (with_a_word)
			talker.say(MESSAGE_DISCONNECT);
		talker.hang_up();
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b, with_a_word ? 1 : 2));
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	}
}

// ---- several threads ----

TEST_F(Accepting, OfTwoAnswersAtOnceOneIsGiven)
{
	for (int round = 0; round < 40; round++) {
		const bool rejects = round % 2;
		Vi x = make_vi();
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
		auto other = std::async(std::launch::async,
					[&] { return rejects ? VipConnectReject(conn) : VipConnectAccept(conn, x); });
		const VIP_RETURN accept = VipConnectAccept(conn, b), answer = other.get();
		EXPECT_EQ((accept == VIP_SUCCESS) + (answer == VIP_SUCCESS), 1);
		EXPECT_TRUE(accept == VIP_INVALID_PARAMETER || answer == VIP_INVALID_PARAMETER);
		EXPECT_EQ(requested.get(), rejects && answer == VIP_SUCCESS ? VIP_REJECT : VIP_SUCCESS);
		disconnect_pair();
		end_vi(x);
	}
}

// ---- answers before the call to connect returns ----

// A first message may arrive before the call returns, and another thread may answer it.
class EarlyAnswers : public Accepting
{
      protected:
	// Has `vi` post a send before this next message of connecting. Its attempt to connect is not over by then.
	void post_before_message(int nth, const Vi &vi)
	{
		answering = vi;
		fake_before("sendmsg", nth, [this] {
			expect_state(answering, VIP_STATE_CONNECT_PENDING);
			EXPECT_EQ(post_send(answering, descriptor(2, {{memory.data(32), 8}})), VIP_SUCCESS);
			EXPECT_EQ(at(2)->CS.Status, 0u);
		});
	}
	Vi answering;
};

TEST_F(EarlyAnswers, OfTheOneWhoAcceptsAreSentWhenItIsConnected)
{
	post_before_message(2, b); // REQUEST, ACCEPT
	connect(a, b);
	expect_sent(b, at(2));
	expect_received(a, d);
}

TEST_F(EarlyAnswers, OfTheRequesterAreSentWhenItIsConnected)
{
	post_before_message(3, a); // CONFIRM
	connect(a, b);
	expect_sent(a, at(2));
	expect_received(b, e);
}

TEST_F(EarlyAnswers, AreFlushedWhenThereIsNoConnection)
{
	Line talker = make_request();

	post_before_message(1, b);
	fake_fail("sendmsg", 1, ECONNABORTED);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	expect_sent(b, at(2), VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(talker.next(), Line::END);
}

// ---- VipConnectRequest, with every answer that may come ----

using Requesting = TwoVis;

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
	const uint64_t before = fake_calls("connect");
	fake_fail_always("connect", ETIMEDOUT);
	EXPECT_EQ(request(a, "x", 300), VIP_TIMEOUT);
	EXPECT_GT(fake_calls("connect"), before + 1) << "a host that TCP gives up is asked again";
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
	other.say(good_message(MESSAGE_ACCEPT, "", "", VIP_SERVICE_RELIABLE_DELIVERY, described));
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

	ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS) << "at the second port";
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

using DeviceFails = Each<Requesting, bool>;

TEST_P(DeviceFails, EndsTheRequestForGood)
{
	const GraceTime grace(PATIENCE); // so that it asks again, however late
	Gate door("door");
	auto requested = request_once(GetParam() ? "door" : "nobody");

	if (GetParam()) {
		Line server = door.accept();
		ASSERT_EQ(server.next(), MESSAGE_REQUEST);
		fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
		EXPECT_EQ(server.next(), Line::END);
	} else {
		EXPECT_TRUE(eventually([] { return fake_calls("connect") > 4; })) << "it pauses";
		fake_remove_devices();
	}
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
}

INSTANTIATE_TEST_SUITE_P(Requesting, DeviceFails, testing::Bool());

TEST_F(Requesting, AnErrorOfAnIdleQueuePairIsForgotten)
{
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp);
	EXPECT_TRUE(eventually([] { return fake_calls("ibv_ack_async_event") == 1; }));
	expect_works(); // an IDLE VI has no connection to lose
}

} // namespace
