// SPDX-License-Identifier: BSD-2-Clause
// Reliable Reception on an RC queue pair. Tests the mark (the flush atomic) behind each message,
// and failures with it.
#include "support.h"

#include <cstring>

namespace
{

class Reception : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
		open();
	}
	// Makes a pair, with a receive r at b for a send s. From then on sends wait for fake_progress().
	void start()
	{
		make_pair();
		r = posted_receive(b, 0, {{memory.data(), 8}});
		s = descriptor(1, {{memory.data(100), 8}});
		by_hand(true);
	}
	VIP_DESCRIPTOR *r = nullptr, *s = nullptr;
};

// Short queues are in device_limits.cpp.
TEST_F(Reception, WhatBringsDataIsDoneWhenTheMarkBehindItIs)
{
	start();
	*memory.data(100) = 'x';
	for (bool is_write : {false, true}) {
		if (is_write)
			s = write_descriptor(1, memory.data(), {memory.data(100), 8});
		*memory.data() = 0;
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 2);
		EXPECT_EQ(fake_progress(1), 1);
		EXPECT_EQ(*memory.data(), 'x');
		if (!is_write)
			expect_received(b, r);
		EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
		EXPECT_EQ(fake_progress(1), 1);
		expect_sent(a, s, is_write ? VIP_STATUS_OP_RDMA_WRITE : 0);
	}
}

TEST_F(Reception, WhatBringsNoDataThereHasNoMark)
{
	allow_reads();
	start();
	s = posted_send(a, 1, {}, VIP_CONTROL_IMMEDIATE, 7);
	VIP_DESCRIPTOR *d = write_descriptor(2, memory.data(), {memory.data(100), 8});
	d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
	ASSERT_EQ(post_send(a, d), VIP_SUCCESS);
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 2);
	EXPECT_EQ(fake_progress(2), 2);
	expect_sent(a, s);
	expect_sent(a, d, VIP_STATUS_OP_RDMA_READ);
	expect_received(b, r, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
}

TEST_F(Reception, AMarkThatFindsNoRoomFollowsLater)
{
	start();
	fake_fail("ibv_post_send", 2, ENOMEM);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	int moved = 0;
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(-1)) == 2; }));
	by_hand(false);
	expect_received(b, r);
	expect_sent(a, s);
	expect_traffic(a, b);
}

TEST_F(Reception, AMarkThatIsRefusedForGoodBreaksTheConnection)
{
	start();
	posted_send(a, 2, {});
	for (int nth : {2, 3, 4})
		fake_fail("ibv_post_send", nth, EIO);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	fake_fail_always("ibv_post_send", EIO);
	EXPECT_TRUE(eventually([&] { return fake_progress(-1), s->CS.Status; }));
	expect_sent(a, at(2));
	expect_sent(a, s, VIP_STATUS_REMOTE_DESC_ERROR); // the first message took the receive
	expect_state(a, VIP_STATE_ERROR);
	expect_state(b, VIP_STATE_ERROR);
}

TEST_F(Reception, ALostPeerBeforeTheMarkIsAnError)
{
	start();
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	EXPECT_EQ(fake_progress(1), 1);
	fake_complete_next(a.qp, FAKE_SEND, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, s, VIP_STATUS_TRANSPORT_ERROR);
	expect_state(a, VIP_STATE_ERROR);
}

// The mark gives the peer no other right: the queue pair does not allow RDMA that the VI does not
// allow.
TEST_F(Reception, OpensNothingElseToThePeer)
{
	for (bool reception : {true, false})
		for (bool write : {true, false}) {
			vi_kind.ReliabilityLevel =
				reception ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_RELIABLE_DELIVERY;
			vi_kind.EnableRdmaWrite = write;
			make_pair();
			EXPECT_EQ(qp_attributes(b).qp_access_flags,
				  (reception ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0) |
					  (write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0));
		}
}

TEST_F(Reception, AMarkThatCannotBeRegisteredIsErrorResourceAndLeavesNothing)
{
	VIP_VI_HANDLE vi;
	int before = fake_live_total();

	fake_fail("ibv_reg_mr", 1, ENOMEM);
	EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_ERROR_RESOURCE);
	EXPECT_EQ(fake_live_total(), before);
	expect_usable();
}

} // namespace
