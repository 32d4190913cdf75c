// SPDX-License-Identifier: BSD-2-Clause
// Peer-to-peer connections: the choice of the other end, time, answers, calls in the middle, and calls that fail.
#include "faults.h"
#include "peer_requests.h"

namespace
{

// ---- two hosts: see long_addresses.cpp, too ----

TEST_F(TwoHosts, TheSameNamesFromAnotherHostAreNotTaken)
{
	Vi here = make_vi();

	ASSERT_EQ(ask(here, "b", "a", PATIENCE, "10.9.9.1"), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "a", "b", 300, "10.9.9.1"), VIP_SUCCESS);
	EXPECT_EQ(outcome(b), VIP_TIMEOUT);
	EXPECT_EQ(outcome_so_far(here), VIP_NOT_DONE);
	ASSERT_EQ(ask(a, "a", "b", PATIENCE, "10.9.9.1"), VIP_SUCCESS);
	EXPECT_EQ(outcome(here), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_SUCCESS);
}

// ---- time ----

// It may come to life.
TEST_F(PeerRequests, ADeadHostIsAskedAgainUntilTheEnd)
{
	fake_address("10.9.9.77", FAKE_REACH_NOBODY);
	ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE, "10.9.9.77"), VIP_SUCCESS);
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_resolve_addr") > 1; })) << "asked once only";
	EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
	break_off(a);
	ASSERT_EQ(ask(a, "a", "b", 200, "10.9.9.77"), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	fake_address("10.9.9.50", FAKE_REACH_SILENT);
	ASSERT_EQ(ask(a, "a", "b", 200, "10.9.9.50"), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	expect_works();
}

TEST_F(PeerRequests, LooksGetRareAfterTheGraceTime)
{
	ASSERT_EQ(ask(a, "a", "b", 1500), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	// A look asks at four ports. Some 11 looks come in the grace time and 9 after it. At the same rate there would
	// be 90.
	EXPECT_LT(fake_calls("connect"), 4 * 40u);
	EXPECT_GT(fake_calls("connect"), 4 * 4u);
}

// Nobody waits for the result, so the agent has to end the request. It is at another step each time.
TEST_F(PeerRequests, EndAtTheirTimeThoughNoThreadWaits)
{
	const auto ends = [this](const Vi &vi) {
		return eventually([&] { return outcome_so_far(vi) == VIP_TIMEOUT; });
	};

	ASSERT_EQ(ask(b, "b", "a", 200), VIP_SUCCESS);
	EXPECT_TRUE(ends(b)) << "nobody has asked";
	{
		Line other = accepted(200);
		EXPECT_TRUE(ends(b)) << "who asks has not confirmed";
		EXPECT_EQ(other.next(), Line::END);
	}
	{
		Gate door("b");
		ASSERT_EQ(ask(a, "a", "b", 200), VIP_SUCCESS);
		Line other = door.accept();
		ASSERT_EQ(other.next(), MESSAGE_PEER_REQUEST);
		EXPECT_TRUE(other.say(MESSAGE_HERE));
		EXPECT_TRUE(ends(a)) << "who is asked has not answered";
	}
	{
		Line other = accepted(300);
		EXPECT_EQ(outcome(b), VIP_TIMEOUT) << "the same with a thread that waits";
		EXPECT_EQ(other.next(), Line::END);
	}
	expect_works();
}

TEST_F(PeerRequests, WhoWaitsForOneMayStillBeConnectedInTheMeantime)
{
	Gate door("b"); // the agent must not block for the answer
	ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_TRUE(door.has_come());
	Vi x = make_vi(), y = make_vi();
	connect(x, y, "meantime");
	expect_traffic(x, y);
	EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
}

TEST_F(PeerRequests, TheDeviceFailsEndsAllOfThem)
{
	ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_EQ(ask(a, "a", "c", VIP_INFINITE), VIP_SUCCESS);
	EXPECT_TRUE(eventually([] { return fake_calls("connect") > 4; }));
	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	EXPECT_EQ(outcome(a), VIP_ERROR_RESOURCE);
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	EXPECT_TRUE(eventually([] { return !is_listened_for("b"); }));
}

// ---- who asks gets an answer ----

using EachAnswerToAPeer = Each<PeerRequests, Act>;

TEST_P(EachAnswerToAPeer, EndsTheRequestOrItGoesOn)
{
	{
		Gate door("b");
		ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE), VIP_SUCCESS);
		Line other = door.accept();
		ASSERT_EQ(other.next(), MESSAGE_PEER_REQUEST);
		GetParam().act(other);
		if (GetParam().wanted == GOES_ON) {
			EXPECT_TRUE(door.has_come()) << "it asks again";
			EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
			break_off(a);
		} else {
			EXPECT_EQ(outcome(a), GetParam().wanted);
		}
	}
	if (GetParam().wanted != VIP_SUCCESS)
		expect_works();
}

INSTANTIATE_TEST_SUITE_P(
	PeerRequests, EachAnswerToAPeer,
	testing::Values(Act{"Accept", [](Line &peer) { peer.say(good_message(MESSAGE_ACCEPT, "")); }, VIP_SUCCESS},
			Act{"Reject", [](Line &peer) { peer.say(MESSAGE_REJECT); }, VIP_REJECT},
			Act{"NoMatch", [](Line &peer) { peer.say(MESSAGE_NO_MATCH); }, GOES_ON},
			Act{"Busy", [](Line &peer) { peer.say(MESSAGE_BUSY); }, GOES_ON},
			Act{"End", [](Line &peer) { peer.hang_up(); }, GOES_ON},
			Act{"Nonsense", [](Line &peer) { peer.say_bytes("220", 3); }, GOES_ON}),
	ByName());

// ---- who listens is asked ----

using EachLastWordOfAPeer = Each<PeerRequests, Act>;

TEST_P(EachLastWordOfAPeer, EndsTheRequestOrItGoesOn)
{
	Line other = accepted();
	GetParam().act(other);
	if (GetParam().wanted == GOES_ON) {
		EXPECT_EQ(other.next(), Line::END);
		EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
		ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
		expect_connected();
	} else {
		EXPECT_EQ(outcome(b), GetParam().wanted);
	}
}

INSTANTIATE_TEST_SUITE_P(
	PeerRequests, EachLastWordOfAPeer,
	testing::Values(Act{"Confirm", [](Line &peer) { peer.say(MESSAGE_CONFIRM); }, VIP_SUCCESS},
			Act{"ConfirmAndDisconnect",
				   [](Line &peer) { peer.say(MESSAGE_CONFIRM), peer.say(MESSAGE_DISCONNECT); }, VIP_SUCCESS},
			Act{"Disconnect", [](Line &peer) { peer.say(MESSAGE_DISCONNECT); }, GOES_ON},
			Act{"End", [](Line &peer) { peer.hang_up(); }, GOES_ON},
			Act{"Removal", [](Line &) { fake_remove_devices(); }, VIP_ERROR_RESOURCE}),
	ByName());

TEST_F(PeerRequests, StrangersAreNotTakenForTheOtherEnd)
{
	struct {
		const char *wanted, *own;
		message_code code;
	} cases[] = {{"b", "a", MESSAGE_REQUEST}, // right, but not a peer-to-peer request
		     {"b", "", MESSAGE_PEER_REQUEST},
		     {"b", "b", MESSAGE_PEER_REQUEST},
		     {"b", "aa", MESSAGE_PEER_REQUEST},
		     {"bb", "a", MESSAGE_PEER_REQUEST},
		     {"a", "b", MESSAGE_PEER_REQUEST}};

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	for (const auto &each : cases) {
		Line talker("b");
		ASSERT_TRUE(talker.say(good_message(each.code, each.wanted, each.own)));
		EXPECT_EQ(talker.next(), MESSAGE_NO_MATCH) << each.wanted << " " << each.own;
	}
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

TEST_F(PeerRequests, OddAttributesAreRejectedAndEndTheRequest)
{
	for (bool reliability : {false, true}) {
		ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
		message request = good_message(MESSAGE_PEER_REQUEST, "b", "a");
		if (reliability)
			request.flags |= 0x0f;
		else
			request.max_transfer[0] = 255;
		Line talker("b");
		ASSERT_TRUE(talker.say(request));
		EXPECT_EQ(talker.next(), MESSAGE_REJECT);
		EXPECT_EQ(outcome(b), VIP_REJECT);
	}
	expect_works();
}

TEST_F(PeerRequests, OnlyOneIsTakenAtATimeAndTheNextWhenItHasGone)
{
	Line first = accepted(), second("b");

	ASSERT_TRUE(second.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	EXPECT_EQ(second.next(), MESSAGE_NO_MATCH);
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	first.hang_up();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

// ---- calls while it goes on ----

TEST_F(PeerRequests, DisconnectEndsThemInEveryStep)
{
	{
		Gate door("b");
		ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE), VIP_SUCCESS);
		ASSERT_TRUE(door.has_come());
		break_off(a);
	}
	{
		ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
		Line silent("b");
		break_off(b);
		EXPECT_EQ(silent.next(), Line::END);
	}
	Line talker = accepted(VIP_INFINITE);
	break_off(b);
	EXPECT_EQ(talker.next(), Line::END);
	expect_works();
}

TEST_F(PeerRequests, ClosingTheNicEndsThemInEveryStep)
{
	Vi third = make_vi();
	Gate door("c");

	ASSERT_EQ(ask(a, "a", "c", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_TRUE(door.has_come());
	ASSERT_EQ(ask(third, "y", "x", VIP_INFINITE), VIP_SUCCESS);
	Line talker = accepted(VIP_INFINITE);
	std::vector<std::future<VIP_RETURN>> waits;
	for (const Vi &vi : {a, b, third})
		waits.push_back(std::async(std::launch::async, [=] { return outcome(vi); }));
	close();
	for (auto &each : waits)
		EXPECT_EQ(each.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(talker.next(), Line::END);
}

// ---- a call below fails: that end is told the documented code, and the other one goes on ----

TEST_F(PeerRequests, WhoCannotListenIsToldAtOnce)
{
	for (const char *function : {"socket", "bind", "listen"}) {
		fake_fail(function, 1, ENOMEM);
		EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE) << function;
		EXPECT_EQ(outcome_so_far(b), VIP_INVALID_STATE) << function;
	}
	fake_fail_always("bind", EADDRINUSE); // as if four processes waited there
	EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE);
	expect_works();
}

TEST_F(PeerRequests, AQueuePairThatCannotBeUsedIsToldAtOnce)
{
	for (Vi *vi : {&a, &b}) {
		fake_fail("ibv_modify_qp", 1, ENOMEM);
		fake_fail("ibv_create_qp", 1, ENOMEM);
		EXPECT_EQ(ask(*vi, vi == &a ? "a" : "b", vi == &a ? "b" : "a"), VIP_ERROR_RESOURCE);
	}
	expect_works();
}

// A call that fails when both ask. The end where it fails is told so, and the other one is rejected, or it goes on.
struct MeetingFault : Fault {
	VIP_RETURN listener; // what b is told, and `wanted` is what a is told
};

using MeetingFails = Each<PeerRequests, MeetingFault>;

TEST_P(MeetingFails, WithTheDocumentedCodesOrBothGoOnUntilTheyMeet)
{
	const MeetingFault &fault = GetParam();

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fake_fail(fault.function, fault.nth, fault.error);
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	if (fault.wanted != VIP_SUCCESS) {
		EXPECT_EQ(outcome(a), fault.wanted);
		EXPECT_EQ(fault.listener == GOES_ON ? outcome_so_far(b) : outcome(b), fault.listener);
	}
	if (fault.listener == VIP_ERROR_RESOURCE) {
		expect_works();
		return;
	}
	if (fault.listener == GOES_ON) {
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECT_PENDING);
		ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	}
	expect_connected();
}

// The transitions after b's request: INIT of a; RTR, RTS of b; RTR, RTS of a. The messages: REQUEST, ACCEPT, CONFIRM.
// Where both connect the error has said that the other end has gone again, and it may come back.
INSTANTIATE_TEST_SUITE_P(
	PeerRequests, MeetingFails,
	testing::Values(MeetingFault{{"ibv_query_gid_ex", 3, EIO, VIP_REJECT}, VIP_ERROR_RESOURCE},
			MeetingFault{{"ibv_modify_qp", 2, ENOMEM, VIP_REJECT}, VIP_ERROR_RESOURCE},
			MeetingFault{{"ibv_modify_qp", 3, ENOMEM, VIP_REJECT}, VIP_ERROR_RESOURCE},
			MeetingFault{{"ibv_modify_qp", 4, ENOMEM, VIP_ERROR_RESOURCE}, GOES_ON},
			MeetingFault{{"ibv_modify_qp", 5, ENOMEM, VIP_ERROR_RESOURCE}, GOES_ON},
			MeetingFault{{"accept4", 1, ECONNABORTED, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"accept4", 1, EMFILE, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"sendmsg", 1, EPIPE, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"sendmsg", 2, EPIPE, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"sendmsg", 3, EPIPE, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"recvmsg", 1, ECONNRESET, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"recvmsg", 2, ECONNRESET, VIP_SUCCESS}, VIP_SUCCESS},
			MeetingFault{{"ibv_modify_qp", 2, ETIMEDOUT, VIP_SUCCESS}, VIP_SUCCESS}),
	[](const testing::TestParamInfo<MeetingFault> &of) { return testing::PrintToString<Fault>(of.param); });

TEST_F(PeerRequests, WhoCannotGoOnIsErrorResource)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fake_fail("sendmsg", 1, EPIPE);	       // ACCEPT
	fake_fail("ibv_modify_qp", 5, ENOMEM); // after RTR, RTS, ERR, ERR again to drain: INIT
	fake_fail("ibv_create_qp", 1, ENOMEM);
	Line talker("b");
	ASSERT_TRUE(talker.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	expect_works();
}

} // namespace
