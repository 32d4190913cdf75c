// SPDX-License-Identifier: BSD-2-Clause
// Messages of rdma_cm that get lost. The control connection between the two NICs makes up for them.
#include "two_nics.h"

namespace
{

using CmLost = TwoNics;

// Responses and rejections take so long, in ms.
void answer_after(int time)
{
	fake_options options;

	fake_get_options(&options);
	options.response_ms = time;
	fake_set_options(&options);
}

// The last word is put off then. rdma_establish() fails with EINVAL when rdma_cm has an event that says more.
TEST_F(CmLost, RequestIsRepeatedAndTheLastWordIsNotNeeded)
{
	fake_lose_next(FAKE_REQ, 1);
	fake_fail("rdma_establish", 1, EINVAL);
	connect_them();
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_establish") == 1; }));
	expect_messages();
}

// The requester gets no response, and repeats its request. The server accepts that one, too.
TEST_F(CmLost, ResponseIsGivenAgain)
{
	fake_lose_next(FAKE_REP, 1);
	connect_them();
	EXPECT_EQ(fake_calls("rdma_accept"), 2u);
	expect_messages();
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST) + other_errors.count(VIP_ERROR_CONN_LOST), 0);
}

// On a busy machine a response may be late each time. So it is waited for twice as long each time: 0.2, 0.4 and 0.8 s,
// after a question that comes after 0.25 s.
TEST_F(CmLost, ResponsesAreGivenAsOftenAsThatTakes)
{
	const auto begin = std::chrono::steady_clock::now();
	fake_lose_next(FAKE_REP, 3);
	connect_them();
	EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3 * 250 + 1400));
	EXPECT_EQ(fake_calls("rdma_accept"), 4u);
	expect_messages();
}

// The first two are called lost. The third one comes after the question, too, but is not called lost before.
TEST_F(CmLost, ResponsesThatAreLateArriveInTheEnd)
{
	answer_after(1000);
	connect_them();
	expect_messages();
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST) + other_errors.count(VIP_ERROR_CONN_LOST), 0);
}

TEST_F(CmLost, ResponsesThatComeWhenTheNextOneHasBeenCalledLostAreNone)
{
	answer_after(1500);
	connect_them();
	expect_messages();
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST) + other_errors.count(VIP_ERROR_CONN_LOST), 0);
}

TEST_F(CmLost, ResponseIsNotWaitedForAfterADisconnect)
{
	fake_lose_next(FAKE_REP, 1);
	auto served = serve_async();
	auto requested =
		std::async(std::launch::async, [this] { return request(a, "door", 2000, OTHER); });
	ASSERT_TRUE(eventually([] { return fake_calls("rdma_accept") == 1; }));
	ASSERT_TRUE(eventually([] { return fake_calls("rdma_connect") > 1; }));
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_EQ(served.get(), VIP_INVALID_STATE);
	EXPECT_NE(requested.get(), VIP_SUCCESS);
	expect_state(a, VIP_STATE_IDLE);
	expect_state(b, VIP_STATE_IDLE);
}

TEST_F(CmLost, LastWordIsAskedFor)
{
	const auto begin = std::chrono::steady_clock::now();
	fake_lose_next(FAKE_RTU, 1);
	connect_them();
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_notify") == 1; }, 60000));
	EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
		<< "rdma_cm is told though the last word may come yet";
	expect_messages();
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(other_errors.reach(VIP_ERROR_CONN_LOST, b));
}

TEST_F(CmLost, LastWordIsNotNeededForTheEnd)
{
	fake_lose_next(FAKE_RTU, 1);
	connect_them();
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
}

// The end that accepts makes the control connection. If that fails, the requester makes it.
TEST_F(CmLost, ControlConnectionIsMadeByTheOtherEnd)
{
	fake_fail("connect", 1, EHOSTUNREACH);
	connect_them();
	expect_control();
	EXPECT_EQ(fake_calls("connect"), 2u);
	expect_messages();
}

// rdma_notify() fails if the last message of connecting has arrived by then.
TEST_F(CmLost, LastWordIsKnownThoughRdmaCmTakesNoNotice)
{
	fake_lose_next(FAKE_RTU, 1);
	fake_fail("rdma_notify", 1, EINVAL);
	connect_them();
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_notify") == 1; }, 60000));
	expect_messages();
}

TEST_F(CmLost, LastWordIsNotAskedForWhenItComes)
{
	connect_them();
	EXPECT_EQ(fake_calls("rdma_notify"), 0u);
	expect_messages();
}

TEST_F(CmLost, EndIsToldByTheControlConnection)
{
	connect_them();
	expect_control();
	fake_lose_next(FAKE_DREQ, 1);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(other_errors.reach(VIP_ERROR_CONN_LOST, b));
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	expect_state(b, VIP_STATE_IDLE);
}

TEST_F(CmLost, EndOfTheServerIsToldByTheControlConnection)
{
	connect_them();
	expect_control();
	fake_lose_next(FAKE_DREQ, 1);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
}

// This is the same as the end of the process.
TEST_F(CmLost, EndOfANicIsTheEndOfItsControlConnections)
{
	connect_them();
	expect_control();
	fake_lose_next(FAKE_DREQ, 100);
	EXPECT_EQ(VipCloseNic(other_nic), VIP_SUCCESS);
	other_nic = nullptr;
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_usable();
}

// The report of a connection's end must not end the next connection of the same two VIs.
TEST_F(CmLost, EndsDoNotEndTheNextConnection)
{
	for (int round = 0; round < 20; round++) {
		connect_them("door " + std::to_string(round));
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		ASSERT_TRUE(other_errors.reach(VIP_ERROR_CONN_LOST, b, round + 1));
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	}
	EXPECT_EQ(other_errors.count(VIP_ERROR_CONN_LOST), 20);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
	EXPECT_LE(fake_calls("accept4"), 2u) << "one control connection is for all";
}

// ---- without control connections ----

class CmLostUnhelped : public TwoNics
{
      protected:
	void SetUp() override
	{
	}
	void TearDown() override
	{
	}
};

TEST_F(CmLostUnhelped, RequestIsRepeatedAndTheLastWordComesLate)
{
	Child child = in_child({{"VIPL_KEEPALIVE_SEC", "0"}}, [this] {
		TwoNics::SetUp();
		fake_lose_next(FAKE_REQ, 1);
		connect_them();
		expect_messages();
		TwoNics::TearDown();
	});

	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

// ---- peer-to-peer ----

class CmLostBetweenEquals : public TwoNics
{
      protected:
	void ask_each_other()
	{
		ASSERT_EQ(ask(b, "b", "a", VIP_INFINITE, OWN), VIP_SUCCESS);
		ASSERT_EQ(ask(a, "a", "b", VIP_INFINITE, OTHER), VIP_SUCCESS);
		EXPECT_EQ(outcome(a), VIP_SUCCESS);
		EXPECT_EQ(outcome(b), VIP_SUCCESS);
		expect_messages();
	}
};

TEST_F(CmLostBetweenEquals, RequestIsRepeated)
{
	fake_lose_next(FAKE_REQ, 1);
	ask_each_other();
}

TEST_F(CmLostBetweenEquals, ResponseIsGivenAgain)
{
	fake_lose_next(FAKE_REP, 1);
	ask_each_other();
	EXPECT_EQ(fake_calls("rdma_accept"), 2u);
}

TEST_F(CmLostBetweenEquals, LastWordIsAskedFor)
{
	fake_lose_next(FAKE_RTU, 1);
	ask_each_other();
	EXPECT_TRUE(eventually([] { return fake_calls("rdma_notify") == 1; }, 60000));
}

TEST_F(CmLostBetweenEquals, EndIsToldByTheControlConnection)
{
	ask_each_other();
	expect_control();
	fake_lose_next(FAKE_DREQ, 1);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(other_errors.reach(VIP_ERROR_CONN_LOST, b));
}

} // namespace
