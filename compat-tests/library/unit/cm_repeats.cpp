// SPDX-License-Identifier: BSD-2-Clause
// A request without an answer is made once more, with another id. The attempt goes on with the one of the two that the
// host has.
#include "two_vis.h"

#include <chrono>
#include <thread>

namespace
{

// This is set before main().
const int longer = grace_msec = LONG_GRACE_MSEC;

class CmRepeats : public TwoVis
{
      protected:
	// a makes a request, and b's NIC waits for one.
	void begin(VIP_ULONG patience = PATIENCE)
	{
		uint64_t before = fake_calls("rdma_listen");
		waited = std::async(std::launch::async,
				    [=] { return wait(door, patience, &conn); });
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_listen") > before; }));
		requested = std::async(std::launch::async,
				       [this] { return request(a, door, VIP_INFINITE); });
		requests_reach(1, patience);
	}
	// Waits until `count` requests were made.
	void requests_reach(uint64_t count, VIP_ULONG ms = PATIENCE)
	{
		ASSERT_TRUE(eventually([&] { return fake_calls("rdma_connect") >= count; }, ms));
	}
	// The ids of a that have sent a request, the newest last.
	std::vector<rdma_cm_id *> ids_of_a()
	{
		std::vector<rdma_cm_id *> found(8);

		found.resize(static_cast<size_t>(fake_ids_of_qp(a.qp, found.data(), 8)));
		return found;
	}
	// The host has the first request, so it refuses the second.
	void a_repeat_is_refused()
	{
		requests_reach(2);
		ASSERT_TRUE(eventually([&] { return ids_of_a().size() == 1; }));
	}
	void expect_accepted()
	{
		ASSERT_EQ(waited.get(), VIP_SUCCESS);
		accept();
	}
	void accept()
	{
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
		EXPECT_EQ(requested.get(), VIP_SUCCESS);
		expect_messages();
		EXPECT_EQ(ids_of_a().size(), 1u) << "the other id is still there";
	}
	// b accepts, and a is connected.
	void answer()
	{
		ASSERT_EQ(waited.get(), VIP_SUCCESS);
		accepted = std::async(std::launch::async, VipConnectAccept, conn, b.handle);
		ASSERT_EQ(requested.get(), VIP_SUCCESS);
	}
	void expect_connection()
	{
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		expect_messages();
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
	}
	// Another request of a was given up 0.3 seconds after the beginning or later. It reaches the host right before the
	// last word, which comes a second later.
	void answer_and_expect_a_late_last_word()
	{
		fake_before("rdma_establish", 1, late_request, this);
		answer();
		expect_connection();
		EXPECT_GE(last_word - began, std::chrono::milliseconds(1300));
	}
	static void late_request(void *argument)
	{
		auto *test = static_cast<CmRepeats *>(argument);

		test->last_word = std::chrono::steady_clock::now();
		fake_late_request(test->a.qp);
	}
	const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
	std::chrono::steady_clock::time_point last_word = began;
	std::string door = "door";
	VIP_CONN_HANDLE conn = nullptr;
	std::future<VIP_RETURN> waited, requested, accepted;
};

TEST_F(CmRepeats, OfALostRequestConnect)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	expect_accepted();
	EXPECT_EQ(fake_calls("rdma_connect"), 2u);
}

TEST_F(CmRepeats, OfARequestThatTheHostHasAreRefusedAndTheFirstOneGoesOn)
{
	begin();
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	requests_reach(3);
	EXPECT_EQ(fake_calls("rdma_reject"), 0u) << "rdma_cm has refused them, not the program's NIC";
	accept();
}

// To the host that is connected another request of the queue pair means that the requester has begun anew.
TEST_F(CmRepeats, ThatComeAfterTheAnswerDoNotEndTheConnection)
{
	begin();
	fake_lose_next(FAKE_REQ, 1);
	requests_reach(2);
	answer_and_expect_a_late_last_word();
}

TEST_F(CmRepeats, AreAnsweredAndTheFirstOneThatComesLaterDoesNotEndTheConnection)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	answer_and_expect_a_late_last_word();
}

TEST_F(CmRepeats, AreRefusedAndTheFirstOneThatComesLaterDoesNotEndTheConnection)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	fake_reject_next(1, 8);
	requests_reach(3); // at the next port
	answer_and_expect_a_late_last_word();
}

TEST_F(CmRepeats, OfAnEarlierAttemptDoNotEndTheConnection)
{
	fake_lose_next(FAKE_REQ, 1);
	EXPECT_NE(request(a, "door", 300), VIP_SUCCESS);
	begin();
	answer_and_expect_a_late_last_word();
}

TEST_F(CmRepeats, ThatTheHostHasRefusedDoNotPutOffTheLastWord)
{
	begin();
	a_repeat_is_refused();
	answer();
	EXPECT_EQ(fake_calls("rdma_establish"), 1u);
	expect_connection();
}

TEST_F(CmRepeats, AreNotWaitedForWhereTheFirstOneWasRefused)
{
	fake_reject_next(1, 8);
	begin();
	requests_reach(2); // at the next port
	answer();
	EXPECT_EQ(fake_calls("rdma_establish"), 1u);
	expect_connection();
}

TEST_F(CmRepeats, OfAnotherQueuePairDoNotPutOffTheLastWord)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	answer();
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	door = "another";
	begin();
	answer();
	EXPECT_EQ(fake_calls("rdma_establish"), 2u) << "with the one before the disconnect";
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
}

TEST_F(CmRepeats, ThatTheHostHasRefusedDoNotPutOffTheLastWordOfTheNextAttempt)
{
	begin();
	a_repeat_is_refused();
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_INVALID_STATE);
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	door = "another";
	begin();
	answer();
	EXPECT_EQ(fake_calls("rdma_establish"), 1u);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
}

TEST_F(CmRepeats, ThatAreKeptAndGivenUpPutOffTheLastWord)
{
	fake_lose_next(FAKE_REQ, 2);
	begin();
	requests_reach(2);
	ASSERT_EQ(ids_of_a().size(), 2u);
	fake_cm_event(ids_of_a().front(), RDMA_CM_EVENT_REJECTED, 8, nullptr, 0);
	answer_and_expect_a_late_last_word(); // to the third one
}

TEST_F(CmRepeats, AreNotWaitedForByTheRequestersDisconnect)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	answer();
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
}

TEST_F(CmRepeats, AreNotWaitedForByTheServersDisconnect)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	answer();
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
}

TEST_F(CmRepeats, AreNotWaitedForByTheNicsEnd)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	answer();
	close();
	EXPECT_EQ(fake_live().ids, 0);
}

// rdma_cm tells the other side of it, but not this one.
TEST_F(CmRepeats, AndALastWordThatFailsAfterwardsIsTheEnd)
{
	fake_lose_next(FAKE_REQ, 1);
	fake_fail("rdma_establish", 1, ENOMEM);
	begin();
	answer();
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
}

// The first request was late, so the host took the second one first.
TEST_F(CmRepeats, AreKeptWhenTheFirstOneIsRefusedAsStale)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	ASSERT_EQ(ids_of_a().size(), 2u);
	fake_cm_event(ids_of_a().front(), RDMA_CM_EVENT_REJECTED, 10, nullptr, 0);
	EXPECT_TRUE(eventually([&] { return ids_of_a().size() == 1; })) << "the refused one stays";
	accept();
}

TEST_F(CmRepeats, AreAnsweredForTheFirstOneWhereNobodyWaits)
{
	fake_lose_next(FAKE_REQ, 1);
	EXPECT_EQ(request(a, "nobody", VIP_INFINITE), VIP_NO_MATCH);
	EXPECT_GE(fake_calls("rdma_connect"), 5u) << "the second one of the first port, and three ports";
	expect_state(a, VIP_STATE_IDLE);
	EXPECT_EQ(fake_live().ids, 0);
}

TEST_F(CmRepeats, OfAllPortsFollowUntilTheGraceTimeIsOver)
{
	EXPECT_EQ(request(a, "nobody", VIP_INFINITE), VIP_NO_MATCH);
	EXPECT_GE(fake_calls("rdma_connect"), 8u) << "each of four ports was asked more than once";
	expect_state(a, VIP_STATE_IDLE);
}

TEST_F(CmRepeats, MayBeRejectedByTheProgram)
{
	fake_lose_next(FAKE_REQ, 1);
	begin();
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_REJECT);
	expect_state(a, VIP_STATE_IDLE);
}

// An error of the way to the host, for the second request, must not end the first one.
using EachEventOfARepeat = Each<CmRepeats, int>;

TEST_P(EachEventOfARepeat, ChangesNothing)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
	requested = std::async(std::launch::async,
			       [this] { return request(a, "door", VIP_INFINITE, "10.9.9.50"); });
	requests_reach(2);
	ASSERT_TRUE(eventually([&] { return ids_of_a().size() == 2; }));
	rdma_cm_id *first = ids_of_a().front();
	uint64_t before = fake_calls("rdma_destroy_id");
	fake_cm_event(ids_of_a().back(), static_cast<rdma_cm_event_type>(GetParam()), -ETIMEDOUT,
		      nullptr, 0);
	EXPECT_TRUE(eventually([&] { return fake_calls("rdma_destroy_id") > before; }))
		<< "it is of no use";
	EXPECT_EQ(ids_of_a().front(), first);
	expect_state(a, VIP_STATE_CONNECT_PENDING);
	requests_reach(3); // and a third request follows
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_INVALID_STATE);
	EXPECT_EQ(fake_live().ids, 0);
}

INSTANTIATE_TEST_SUITE_P(CmRepeats, EachEventOfARepeat,
			 testing::Values(RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR,
					 RDMA_CM_EVENT_UNREACHABLE));

using EachCallOfARepeat = Each<CmRepeats, const char *>;

TEST_P(EachCallOfARepeat, MayFailAndTheFirstOneGoesOn)
{
	begin();
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	uint64_t before = fake_calls(GetParam());
	fake_fail(GetParam(), 1, ENOMEM);
	ASSERT_TRUE(eventually([&] { return fake_calls(GetParam()) > before; }));
	accept();
}

INSTANTIATE_TEST_SUITE_P(CmRepeats, EachCallOfARepeat,
			 testing::Values("rdma_create_id", "rdma_resolve_addr", "rdma_resolve_route",
					 "rdma_connect"));

TEST_F(CmRepeats, EndWithTheCallersTime)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
	auto timed = std::async(std::launch::async,
				[this] { return request(a, "door", 1000, "10.9.9.50"); });
	requests_reach(2);
	EXPECT_EQ(timed.get(), VIP_TIMEOUT);
	EXPECT_EQ(fake_live().ids, 0);
	connect(a, b, "again");
	expect_messages();
}

TEST_F(CmRepeats, EndWithTheNic)
{
	fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
	requested = std::async(std::launch::async,
			       [this] { return request(a, "door", VIP_INFINITE, "10.9.9.50"); });
	requests_reach(2);
	close();
	EXPECT_NE(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(fake_live().ids, 0);
}

// Linux would wait for its answer for more than a minute.
TEST_F(CmRepeats, AndTheFirstOneEndWithSilenceAndAllBeginsAnew)
{
	fake_address("10.9.9.1", FAKE_REACH_SILENT, 1000000);
	requested = std::async(std::launch::async,
			       [this] { return request(a, "door", VIP_INFINITE); });
	requests_reach(2);
	const auto begin = std::chrono::steady_clock::now();
	requests_reach(3, 30000);
	EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6))
		<< "of two it is not known which one the host has, so there is no third one";
	fake_address("10.9.9.1", FAKE_REACH_OK, 0); // the host is back
	EXPECT_EQ(wait("door", 30000, &conn), VIP_SUCCESS);
	accept();
}

// On a busy machine the NIC's thread may get no processor for longer than the time of silence.
TEST_F(CmRepeats, AreNotInVainWhereTheNicsThreadHasNotRunForLong)
{
	fake_before("rdma_connect", 1, [](void *) { std::this_thread::sleep_for(std::chrono::seconds(10)); },
		    nullptr);
	begin(30000);
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	requests_reach(2);
	accept();
}

TEST_F(CmRepeats, ThatNobodyHearsGoWithTheAnswerToTheFirstOne)
{
	begin();
	fake_lose_next(FAKE_REQ, 1);
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	requests_reach(2);
	accept();
}

// A host that refuses the repetitions is alive. It will answer the first request.
TEST_F(CmRepeats, KeepARequestThatTheHostHasBeyondTheTimeOfSilence)
{
	begin();
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	rdma_cm_id *first = ids_of_a().front();
	requests_reach(8, 30000); // the seventh comes after some nine seconds, the eighth after eleven
	EXPECT_EQ(ids_of_a().front(), first);
	accept();
}

} // namespace
