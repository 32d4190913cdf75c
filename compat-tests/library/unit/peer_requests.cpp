// SPDX-License-Identifier: BSD-2-Clause
// Peer-to-peer connections: the choice of the other end, time, events at a bad time, and calls in the middle.
#include "peer_requests.h"

#include <memory>

namespace
{

TEST_F(PeerRequests, ConnectInEitherOrder)
{
	ask_both();
	expect_connected();
	ASSERT_EQ(VipDisconnect(a), VIP_SUCCESS);
	ASSERT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_TRUE(eventually([] { return fake_live().ids == 0; }));
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	next_look(8); // a has looked for b in vain
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_SUCCESS);
	EXPECT_EQ(outcome(b), VIP_SUCCESS);
	EXPECT_EQ(fake_live().ids, 2) << "nobody listens any more";
	expect_traffic(a, b);
}

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

TEST_F(PeerRequests, NobodyThereIsATimeoutAtBothEndsAndLeavesNothing)
{
	ASSERT_EQ(ask(a, "a", "c", 100), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "b", "a", 100), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	EXPECT_EQ(outcome(b), VIP_TIMEOUT);
	expect_works();
}

TEST_F(PeerRequests, ASilentOrDeadHostIsATimeout)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 10); // the transport gives up, the library does not
	fake_address("10.9.9.77", FAKE_REACH_TIMEOUT, 10);
	for (const char *ip : {"10.9.9.50", "10.9.9.77"}) {
		uint64_t before = fake_calls("rdma_resolve_addr");
		ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE, ip), VIP_SUCCESS);
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_resolve_addr") > before + 1; }))
			<< "asked once only";
		EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_received(a, d, VIP_STATUS_DESC_FLUSHED_ERROR);
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
		ASSERT_EQ(ask(a, "a", "b", 200, ip), VIP_SUCCESS);
		EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	}
	ask_silence(100);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	expect_works();
}

TEST_F(PeerRequests, LooksGetRareAfterTheGraceTime)
{
	ASSERT_EQ(ask(a, "a", "b", 1500), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	// A look takes four requests. Some 11 looks come in the grace time and 9 after it. At the same rate there would
	// be 90.
	EXPECT_LT(fake_calls("rdma_connect"), 4 * 40u);
	EXPECT_GT(fake_calls("rdma_connect"), 4 * 4u);
}

TEST_F(PeerRequests, WhoWaitsForOneMayStillBeConnectedInTheMeantime)
{
	ask_silence(VIP_INFINITE); // the agent must not block for the answer
	Vi x = make_vi(), y = make_vi();
	connect(x, y, "meantime");
	expect_traffic(x, y);
	EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
}

// ---- events ----

using EachEventWhileAsking = Each<PeerRequests, std::pair<int, VIP_RETURN>>;

TEST_P(EachEventWhileAsking, EndsTheLookOrTheRequest)
{
	auto [type, wanted] = GetParam();

	ask_silence();
	fake_cm_event(id_of(a), static_cast<rdma_cm_event_type>(type), -ENETUNREACH, nullptr, 0);
	if (wanted == VIP_NOT_DONE) {
		next_look(1);
		EXPECT_EQ(outcome_so_far(a), VIP_NOT_DONE);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_received(a, d, VIP_STATUS_DESC_FLUSHED_ERROR);
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
	} else {
		EXPECT_EQ(outcome(a), wanted);
	}
	if (type != RDMA_CM_EVENT_DEVICE_REMOVAL)
		expect_works();
}

INSTANTIATE_TEST_SUITE_P(
	PeerRequests, EachEventWhileAsking,
	testing::Values(std::make_pair(RDMA_CM_EVENT_ADDR_ERROR, VIP_NOT_REACHABLE),
			std::make_pair(RDMA_CM_EVENT_CONNECT_ERROR, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_DISCONNECTED, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_UNREACHABLE, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_DEVICE_REMOVAL, VIP_ERROR_RESOURCE)));

using EachEventWhileAccepting = Each<PeerRequests, std::pair<int, VIP_RETURN>>;

TEST_P(EachEventWhileAccepting, EndsTheRequestOrItGoesOn)
{
	auto [type, wanted] = GetParam();
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	Stranger s("b", &message, sizeof(message), a.qp);
	ASSERT_EQ(s.next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	fake_cm_event(id_of(b), static_cast<rdma_cm_event_type>(type), -EIO, nullptr, 0);
	if (wanted == VIP_NOT_DONE) {
		ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
		expect_connected();
	} else {
		EXPECT_EQ(outcome(b), wanted);
	}
}

INSTANTIATE_TEST_SUITE_P(
	PeerRequests, EachEventWhileAccepting,
	testing::Values(std::make_pair(RDMA_CM_EVENT_REJECTED, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_UNREACHABLE, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_CONNECT_ERROR, VIP_NOT_DONE),
			std::make_pair(RDMA_CM_EVENT_ESTABLISHED, VIP_SUCCESS),
			std::make_pair(RDMA_CM_EVENT_DISCONNECTED, VIP_SUCCESS),
			std::make_pair(RDMA_CM_EVENT_DEVICE_REMOVAL, VIP_ERROR_RESOURCE)));

TEST_F(PeerRequests, TheDeviceFailsEndsAllOfThem)
{
	ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_EQ(ask(a, "a", "c", VIP_INFINITE), VIP_SUCCESS);
	next_look(4);
	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	EXPECT_EQ(outcome(a), VIP_ERROR_RESOURCE);
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	EXPECT_TRUE(eventually([] { return fake_live().ids == 0; })) << "one still goes on";
}

// ---- strangers ----

class Answers : public PeerRequests
{
      protected:
	// Reports RDMA_CM_EVENT_REJECTED with this message, or with none.
	void answer(int status, int code, int version = WIRE_VERSION)
	{
		wire_message message;

		wire_write(&message, static_cast<wire_code>(code), nullptr, nullptr);
		message.version = static_cast<uint8_t>(version);
		fake_cm_event(id_of(a), RDMA_CM_EVENT_REJECTED, status, &message,
			      code ? sizeof(message) : 0);
	}
};

TEST_F(Answers, ThatRefuseAreReject)
{
	ask_silence();
	answer(28, WIRE_REJECT);
	EXPECT_EQ(outcome(a), VIP_REJECT);
	ask_silence();
	answer(28, WIRE_BAD_VERSION);
	EXPECT_EQ(outcome(a), VIP_REJECT);
	expect_works();
}

TEST_F(Answers, ThatNobodyIsThereMoveTheLookToTheNextPort)
{
	ask_silence(2000);
	answer(8, 0);
	next_look(1);
	answer(28, 0);
	next_look(2);
	answer(28, WIRE_NO_MATCH);
	next_look(3);
	answer(28, WIRE_NO_MATCH);
	next_look(4); // the next look begins
	EXPECT_EQ(outcome(a), VIP_TIMEOUT);
	expect_works();
}

TEST_F(Answers, OfAStaleConnectionAreTriedAgainBeyondTheGraceTime)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fake_reject_next(14, 10);
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

TEST_F(PeerRequests, StrangersAreNotTakenForTheOtherEnd)
{
	struct {
		const char *wanted, *own;
		wire_code code;
	} cases[] = {{"b", "a", WIRE_REQUEST}, // right, but not a peer-to-peer request
		     {"b", "", WIRE_PEER_REQUEST},
		     {"b", "b", WIRE_PEER_REQUEST},
		     {"b", "aa", WIRE_PEER_REQUEST},
		     {"bb", "a", WIRE_PEER_REQUEST},
		     {"a", "b", WIRE_PEER_REQUEST}};

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	for (const auto &each : cases) {
		wire_message message = good_request(each.wanted, each.own, each.code);
		Stranger s("b", &message, sizeof(message));
		EXPECT_EQ(s.next(), RDMA_CM_EVENT_REJECTED) << each.wanted << " " << each.own;
		EXPECT_EQ(s.code, WIRE_NO_MATCH);
	}
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

TEST_F(PeerRequests, OneThatWaitsForAnybodyDoesNotTakeARequestBetweenEquals)
{
	VIP_CONN_HANDLE conn = nullptr;
	auto waited = std::async(std::launch::async, [&] { return wait("b", PATIENCE, &conn); });
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_listen") > 0; }));
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);
	{
		Stranger s("b", &message, sizeof(message));
		EXPECT_EQ(s.next(), RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(s.code, WIRE_NO_MATCH);
	}
	message = good_request("b", "a");
	Stranger s("b", &message, sizeof(message));
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
}

TEST_F(PeerRequests, OddAttributesAreRejectedAndEndTheRequest)
{
	for (bool reliability : {false, true}) {
		ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
		wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);
		if (reliability)
			message.flags |= 0x0f;
		else
			message.max_transfer[0] = 255;
		Stranger s("b", &message, sizeof(message));
		EXPECT_EQ(s.next(), RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(s.code, WIRE_REJECT);
		EXPECT_EQ(outcome(b), VIP_REJECT);
		s.give_up();
	}
	expect_works();
}

TEST_F(PeerRequests, OnlyOneIsTakenAtATimeAndTheNextWhenItHasGone)
{
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	Stranger first("b", &message, sizeof(message), 998);
	ASSERT_EQ(first.next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	{
		Stranger second("b", &message, sizeof(message), 999);
		EXPECT_EQ(second.next(), RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(second.code, WIRE_NO_MATCH);
	}
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	first.give_up();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

TEST_F(PeerRequests, OneThatNeverSaysTheLastWordIsATimeout)
{
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);

	ASSERT_EQ(ask(b, "b", "a", 300), VIP_SUCCESS);
	Stranger s("b", &message, sizeof(message));
	ASSERT_EQ(s.next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(outcome(b), VIP_TIMEOUT);
	s.give_up();
	expect_works();
}

// ---- calls while it goes on ----

TEST_F(PeerRequests, DisconnectEndsThemInEveryStep)
{
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);

	for (int step = 0; step < 3; step++) {
		Vi &vi = step ? b : a;
		if (step)
			ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
		else
			ask_silence(VIP_INFINITE);
		std::unique_ptr<Stranger> s;
		if (step == 2) {
			s = std::make_unique<Stranger>("b", &message, sizeof(message));
			ASSERT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
		}
		EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
		EXPECT_EQ(outcome_so_far(vi), VIP_INVALID_STATE);
		EXPECT_EQ(state_of(vi), VIP_STATE_IDLE);
		expect_received(vi, step ? e : d, VIP_STATUS_DESC_FLUSHED_ERROR);
		ASSERT_EQ(post_recv(vi, step ? e : d), VIP_SUCCESS);
	}
	expect_works();
}

TEST_F(PeerRequests, ClosingTheNicEndsThemInEveryStep)
{
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);
	Vi third = make_vi();

	ask_silence(VIP_INFINITE);
	ASSERT_EQ(ask(third, "y", "x", VIP_INFINITE), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE), VIP_SUCCESS);
	Stranger s("b", &message, sizeof(message));
	ASSERT_EQ(s.next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	std::vector<std::future<VIP_RETURN>> waits;
	for (const Vi &vi : {a, b, third})
		waits.push_back(std::async(std::launch::async, [=] { return outcome(vi); }));
	close();
	for (auto &each : waits)
		EXPECT_EQ(each.get(), VIP_INVALID_PARAMETER);
	s.give_up();
}

} // namespace
