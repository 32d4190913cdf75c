// SPDX-License-Identifier: BSD-2-Clause
// Peer-to-peer connections: the choice of the other end, time, answers, and calls in the middle.
#include "peer_requests.h"

#include <memory>

namespace
{

// ---- two hosts ----

TEST_F(TwoHosts, WithTheSameNameAreToldApartByTheirAddresses)
{
	ASSERT_EQ(ask(a, "same", "same", PATIENCE, "10.9.9.2"), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "same", "same", PATIENCE, "10.9.9.1"), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_SUCCESS);
	EXPECT_EQ(outcome(b), VIP_SUCCESS);
}

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
	next_look(4);
	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	EXPECT_EQ(outcome(a), VIP_ERROR_RESOURCE);
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	EXPECT_TRUE(eventually([] { return !is_listened_for("b"); }));
}

// ---- who asks gets an answer ----

constexpr VIP_RETURN GOES_ON = VIP_NOT_DONE;

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
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	Line other("b");
	ASSERT_TRUE(other.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	ASSERT_EQ(other.next(), MESSAGE_ACCEPT);
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
	const message request = good_message(MESSAGE_PEER_REQUEST, "b", "a");

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	Line first("b"), second("b");
	ASSERT_TRUE(first.say(request));
	ASSERT_EQ(first.next(), MESSAGE_ACCEPT);
	ASSERT_TRUE(second.say(request));
	EXPECT_EQ(second.next(), MESSAGE_NO_MATCH);
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	first.hang_up();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

TEST_F(PeerRequests, OneThatNeverSaysTheLastWordIsATimeout)
{
	ASSERT_EQ(ask(b, "b", "a", 300), VIP_SUCCESS);
	Line talker("b");
	ASSERT_TRUE(talker.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
	EXPECT_EQ(outcome(b), VIP_TIMEOUT);
	EXPECT_EQ(talker.next(), Line::END);
	expect_works();
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
	for (bool has_accepted : {false, true}) {
		ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
		Line talker("b");
		if (has_accepted) {
			ASSERT_TRUE(talker.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
			ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
		}
		break_off(b);
		EXPECT_EQ(talker.next(), Line::END);
	}
	expect_works();
}

TEST_F(PeerRequests, ClosingTheNicEndsThemInEveryStep)
{
	Vi third = make_vi();
	Gate door("c");

	ASSERT_EQ(ask(a, "a", "c", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_TRUE(door.has_come());
	ASSERT_EQ(ask(third, "y", "x", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
	Line talker("b");
	ASSERT_TRUE(talker.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
	std::vector<std::future<VIP_RETURN>> waits;
	for (const Vi &vi : {a, b, third})
		waits.push_back(std::async(std::launch::async, [=] { return outcome(vi); }));
	close();
	for (auto &each : waits)
		EXPECT_EQ(each.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(talker.next(), Line::END);
}

} // namespace
