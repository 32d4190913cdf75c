// SPDX-License-Identifier: BSD-2-Clause
// Posting, polling, waiting and disconnecting when a call below fails.
#include "support.h"

#include <cstring>

namespace
{

class FaultsData : public PairTest
{
      protected:
	void SetUp() override
	{
		PairTest::SetUp();
		for (size_t i = 0; i < 3; i++) {
			r[i] = descriptor(i, {{memory.data(100 * i), 8}});
			s[i] = descriptor(10 + i, {{memory.data(1000), 8}});
		}
	}
	VIP_DESCRIPTOR *r[3], *s[3];
};

TEST_F(FaultsData, WhatIsRefusedIsATransportErrorAndBreaksTheConnection)
{
	for (const char *function : {"ibv_post_send", "ibv_post_recv"})
		for (int error : {EINVAL, EIO, ENOMEM}) {
			const bool is_send = !strcmp(function, "ibv_post_send");

			if (!is_send && error == ENOMEM)
				continue;
			fake_fail_always(function, error);
			EXPECT_EQ(is_send ? post_send(a, s[0]) : post_recv(a, r[0]), VIP_SUCCESS)
				<< "told by the descriptor";
			fake_fail_always(function, 0);
			is_send ? expect_sent(a, s[0], VIP_STATUS_TRANSPORT_ERROR)
				: expect_received(a, r[0], VIP_STATUS_TRANSPORT_ERROR);
			expect_state(a, VIP_STATE_ERROR);
			expect_state(b, VIP_STATE_ERROR);
			EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
			expect_again();
		}
}

TEST_F(FaultsData, ASendThatFindsNoRoomWaitsForEarlierOnes)
{
	post_recvs(b, {r[0], r[1], r[2]});
	by_hand(true);
	ASSERT_EQ(post_send(a, s[0]), VIP_SUCCESS);
	fake_fail_always("ibv_post_send", ENOMEM);
	post_sends(a, {s[1], s[2]});
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 1);
	fake_fail_always("ibv_post_send", 0);
	// The program does not ask for the completion of the first send.
	int moved = 0;
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(-1)) == 3; }));
	for (int i = 0; i < 3; i++) {
		expect_received(b, r[i]);
		expect_sent(a, s[i]);
	}
	by_hand(false);
	expect_again();
}

TEST_F(FaultsData, ASendThatIsRefusedIsToldInItsTurn)
{
	post_recvs(b, {r[0], r[1], r[2]});
	by_hand(true);
	ASSERT_EQ(post_send(a, s[0]), VIP_SUCCESS);
	fake_fail_always("ibv_post_send", EINVAL);
	post_sends(a, {s[1], s[2]});
	EXPECT_EQ(fake_progress(-1), 1);
	expect_sent(a, s[0]);
	expect_sent(a, s[1], VIP_STATUS_TRANSPORT_ERROR);
	expect_sent(a, s[2], VIP_STATUS_DESC_FLUSHED_ERROR);
	by_hand(false);
	expect_received(b, r[0]);
	expect_received(b, r[1], VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_received(b, r[2], VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_again();
}

TEST_F(FaultsData, WaitsThatCannotBeArmedAreErrorResource)
{
	ASSERT_EQ(post_recv(a, r[0]), VIP_SUCCESS);
	fake_fail_always("ibv_req_notify_cq", EINVAL);
	EXPECT_EQ(recv_wait(a, 5000), Taken{VIP_ERROR_RESOURCE});
	EXPECT_EQ(send_wait(a, 5000).code, VIP_ERROR_RESOURCE);
	fake_fail_always("ibv_req_notify_cq", 0);
	ASSERT_EQ(post_send(b, s[0]), VIP_SUCCESS);
	expect_received(a, r[0]);
	expect_sent(b, s[0]);
	expect_again();
}

TEST_F(FaultsData, ACqThatCannotBePolledJustHasNothing)
{
	post_both(r[0], s[0]);
	fake_fail_always("ibv_poll_cq", EINVAL);
	EXPECT_EQ(recv_done(b).code, VIP_NOT_DONE);
	EXPECT_EQ(recv_wait(b, 50), Taken{VIP_TIMEOUT});
	fake_fail_always("ibv_poll_cq", 0);
	expect_received(b, r[0]);
	expect_sent(a, s[0]);
	expect_again();
}

TEST_F(FaultsData, ACqThatCannotBePolledDoesNotHoldUpDisconnecting)
{
	ASSERT_EQ(post_recv(b, r[0]), VIP_SUCCESS);
	fake_fail_always("ibv_poll_cq", EINVAL);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	expect_received(b, r[0], VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_again();
}

TEST_F(FaultsData, EventsThatCannotBeReadAreReadLater)
{
	ASSERT_EQ(post_recv(b, r[0]), VIP_SUCCESS);
	for (const char *function : {"ibv_get_cq_event", "rdma_get_cm_event", "ibv_get_async_event"})
		fake_fail(function, 1, EINTR);
	ASSERT_EQ(post_send(a, s[0]), VIP_SUCCESS);
	expect_received(b, r[0]);
	expect_sent(a, s[0]);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_state(b, VIP_STATE_ERROR);
	expect_again();
}

TEST_F(FaultsData, DisconnectingThoughThePeerCannotBeToldSucceeds)
{
	for (int error : {EPIPE, ENOBUFS}) {
		fake_fail("sendmsg", 1, error);
		ASSERT_EQ(post_recv(a, r[0]), VIP_SUCCESS);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
		expect_received(a, r[0], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_state(b, VIP_STATE_ERROR); // the end of the connection reports it
		expect_again();
	}
}

TEST_F(FaultsData, DisconnectingAQueuePairThatCannotBeStoppedOrResetStillFlushesAll)
{
	for (int change : {1, 2}) { // to ERR, to RESET
		post_recvs(a, {r[0], r[1]});
		fake_fail("ibv_modify_qp", change, EIO);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_received(a, r[0], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_received(a, r[1], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_again();
	}
}

} // namespace
