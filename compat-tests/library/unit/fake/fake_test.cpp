// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: of what it refuses. If it let that go, no test of the library would notice. The other
// rights of access are in conformance, by the profiles, and soft-RoCE's ways, which the library copes with, on soft-RoCE.
#include "node.h"

#include <fcntl.h>

namespace
{

class Fake : public testing::Test
{
      protected:
	void SetUp() override
	{
		fake_reset();
	}
	void TearDown() override
	{
		EXPECT_EQ(fake_live_total(), 0);
		expect_misuse(0);
		fake_reset();
	}
	static void expect_misuse(size_t count)
	{
		EXPECT_EQ(fake_take_misuse().size(), count);
	}
};

TEST_F(Fake, OnlyArmedCqsRaiseEventsAndOnlyForWhatComesLater)
{
	Node a, b;
	ibv_cq *cq;
	void *context;

	join(a, b);
	fcntl(b.channel->fd, F_SETFL, O_NONBLOCK);
	b.recv(1);
	b.recv(2);
	for (bool armed : {false, true}) {
		EXPECT_EQ(ibv_get_cq_event(b.channel, &cq, &context), -1);
		EXPECT_EQ(errno, EAGAIN);
		a.send(armed);
		if (!armed) {
			EXPECT_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
		}
	}
	ASSERT_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
	EXPECT_EQ(cq, b.recv_cq);
	ibv_ack_cq_events(cq, 1);
}

TEST_F(Fake, UnacknowledgedEventsAbort)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	EXPECT_DEATH(
		{
			Node b;
			ibv_cq *cq;
			void *context;
			ibv_req_notify_cq(b.recv_cq, 0);
			b.recv(1);
			b.modify(IBV_QPS_ERR);
			ibv_get_cq_event(b.channel, &cq, &context);
			b.close();
		},
		"ibv_destroy_cq would wait");
}

TEST_F(Fake, FullQueuesAndCqsAreMisuse)
{
	Node a(IBV_QPT_RC, 4);
	ibv_async_event event;

	EXPECT_EQ(a.send(1), EINVAL) << "not connected";
	expect_misuse(1);
	for (uint64_t i = 0; i < 7; ++i)
		EXPECT_EQ(a.recv(i), 0);
	expect_misuse(3); // 4 is rounded up to 7, which is not promised
	EXPECT_EQ(a.recv(8), ENOMEM);
	EXPECT_EQ(ibv_resize_cq(a.recv_cq, 3), 0);
	a.modify(IBV_QPS_ERR);
	expect_misuse(2);
	ASSERT_EQ(ibv_get_async_event(a.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT_EQ(event.element.cq, a.recv_cq);
	ibv_ack_async_event(&event);
}

TEST_F(Fake, DifferentKeysDoNotReplaceEachOther)
{
	fake_device d;

	d.keys = FAKE_KEYS_DIFFERENT;
	fake_set_devices(1, &d);
	Node a, b;
	join(a, b);
	for (uint32_t key : {b.mr->rkey, b.mr->lkey}) {
		a.send(1, 5, IBV_WR_RDMA_WRITE, b.sge(0, 5).addr, key);
		expect_wc(a.send_cq, 1, key == b.mr->rkey ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	}
}

TEST_F(Fake, AtomicsNeedAnAlignedWordAndTheRightsOfBothTheQueuePairAndTheMemory)
{
	const unsigned right = IBV_ACCESS_REMOTE_ATOMIC, other = IBV_ACCESS_REMOTE_WRITE;

	for (auto [of_qp, of_memory] : {std::pair(right, right), {right, other}, {other, right}}) {
		Node a, b(IBV_QPT_RC, 16, of_qp);
		uint64_t word = 40;
		ibv_mr *mr = ibv_reg_mr(b.pd, &word, 8, static_cast<int>(IBV_ACCESS_LOCAL_WRITE | of_memory));
		const auto add_two = [&](uint64_t offset) {
			ibv_sge result = a.sge(0, 8);
			ibv_send_wr wr{}, *bad;
			wr.wr_id = 1;
			wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			wr.send_flags = IBV_SEND_SIGNALED;
			wr.sg_list = &result;
			wr.num_sge = 1;
			wr.wr.atomic = {reinterpret_cast<uintptr_t>(&word) + offset, 2, 0, mr->rkey};
			return ibv_post_send(a.qp, &wr, &bad);
		};
		const bool allowed = of_qp == right && of_memory == right;

		join(a, b);
		EXPECT_EQ(add_two(4), EINVAL) << "not aligned";
		expect_misuse(1);
		EXPECT_EQ(add_two(0), 0);
		expect_wc(a.send_cq, 1, allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(word, allowed ? 42u : 40u);
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
	}
}

} // namespace
