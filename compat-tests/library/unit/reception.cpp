// SPDX-License-Identifier: BSD-2-Clause
// Reliable Reception on an RC queue pair. Tests the mark (the flush atomic) behind each message,
// and failures with it.
#include "support.h"

#include <cstring>

namespace
{

const VIP_UINT32 FLUSHED = VIP_STATUS_DESC_FLUSHED_ERROR, REMOTE = VIP_STATUS_REMOTE_DESC_ERROR,
		 WRITE = VIP_STATUS_OP_RDMA_WRITE, READ = VIP_STATUS_OP_RDMA_READ;

class Reception : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
	}
	void start()
	{
		open();
		make_pair();
	}
	void by_hand(bool manual)
	{
		options([=](fake_options &o) { o.manual = manual; });
	}
};

// Short queues are in device_limits.cpp.
TEST_F(Reception, ASendIsDoneWhenTheMarkBehindItIs)
{
	start();
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}});
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}}), *done;
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	by_hand(true);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 2);
	EXPECT_EQ(fake_progress(1), 1);
	expect_received(b, r);
	EXPECT_EQ(VipSendDone(a, &done), VIP_NOT_DONE);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, s);
}

TEST_F(Reception, AnRdmaWriteIsDoneWhenTheMarkBehindItIs)
{
	start();
	VIP_DESCRIPTOR *w = write_descriptor(1, memory.data(), {memory.data(100), 8}), *done;
	*memory.data(100) = 'x';
	by_hand(true);
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	EXPECT_EQ(fake_progress(1), 1);
	EXPECT_EQ(*memory.data(), 'x');
	EXPECT_EQ(VipSendDone(a, &done), VIP_NOT_DONE);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, w, WRITE);
}

TEST_F(Reception, WhatBringsNoDataThereHasNoMark)
{
	vi_kind.EnableRdmaRead = VIP_TRUE;
	start();
	EXPECT_EQ(VipDeregisterMem(nic, memory.base, memory.handle), VIP_SUCCESS);
	ASSERT_EQ(memory.add(nic, nullptr, true, true), VIP_SUCCESS);
	VIP_DESCRIPTOR *r = descriptor(0, {}), *s = descriptor(1, {}, VIP_CONTROL_IMMEDIATE, 7);
	VIP_DESCRIPTOR *d = write_descriptor(2, memory.data(), {memory.data(100), 8});
	d->CS.Control = VIP_CONTROL_OP_RDMAREAD;
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	by_hand(true);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, d), VIP_SUCCESS);
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 2);
	EXPECT_EQ(fake_progress(2), 2);
	expect_sent(a, s);
	expect_sent(a, d, READ);
	expect_received(b, r, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
}

TEST_F(Reception, AMarkThatFindsNoRoomFollowsLater)
{
	start();
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}});
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	by_hand(true);
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
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}});
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	by_hand(true);
	posted_send(a, 2, {});
	fake_fail("ibv_post_send", 2, EIO);
	fake_fail("ibv_post_send", 3, EIO);
	fake_fail("ibv_post_send", 4, EIO);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	fake_fail_always("ibv_post_send", EIO);
	EXPECT_TRUE(eventually([&] { return fake_progress(-1), s->CS.Status; }));
	expect_sent(a, at(2));
	expect_sent(a, s, REMOTE); // the first message took the receive
	expect_state(a, VIP_STATE_ERROR);
	expect_state(b, VIP_STATE_ERROR);
}

TEST_F(Reception, ALostPeerBeforeTheMarkIsAnError)
{
	start();
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}});
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	by_hand(true);
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
	open();
	for (bool reception : {true, false})
		for (bool write : {true, false}) {
			vi_kind.ReliabilityLevel = reception ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_RELIABLE_DELIVERY;
			vi_kind.EnableRdmaWrite = write;
			make_pair();
			ibv_qp_attr attr;
			ibv_qp_init_attr init;
			ASSERT_EQ(ibv_query_qp(fake_qp(b.qp), &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
			EXPECT_EQ(attr.qp_access_flags, (reception ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0) |
								(write ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0));
		}
}

TEST_F(Reception, AMarkThatCannotBeRegisteredIsErrorResourceAndLeavesNothing)
{
	VIP_VI_HANDLE vi;

	open();
	int before = fake_live_total();
	fake_fail("ibv_reg_mr", 1, ENOMEM);
	EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_ERROR_RESOURCE);
	EXPECT_EQ(fake_live_total(), before);
	expect_usable();
}

} // namespace
