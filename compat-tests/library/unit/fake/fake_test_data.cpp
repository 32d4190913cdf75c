// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: data, and errors with it.
#include "fake_test.h"

using Fake = FakeTest;

TEST_F(Fake, SendReceiveGatherScatter)
{
	Node a, b;
	join(a, b);
	memcpy(a.memory.data(), "hello, world", 12);
	EXPECT_EQ(b.recv(7, {b.sge(100, 3), b.sge(200, 0), b.sge(300, 50)}), 0);
	EXPECT_EQ(a.send(1, {a.sge(0, 7), a.sge(7, 5)}, IBV_WR_SEND_WITH_IMM), 0);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	ibv_wc wc = poll(b.recv_cq);
	EXPECT_EQ(wc.wr_id, 7u);
	EXPECT_EQ(wc.byte_len, 12u);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.qp_num, b.qp->qp_num);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT_EQ(wc.imm_data, htonl(0xabcd));
	EXPECT_EQ(memcmp(&b.memory[100], "hel", 3), 0);
	EXPECT_EQ(memcmp(&b.memory[300], "lo, world", 9), 0);
}

static void move_by_hand(bool manual)
{
	fake_options options;

	fake_get_options(&options);
	options.manual = manual;
	fake_set_options(&options);
}

TEST_F(Fake, SendsThatWaitGoOnWhenTheyAreNotMovedByHandAnyMore)
{
	Node a, b;
	move_by_hand(true);
	join(a, b);
	EXPECT_EQ(a.send(1), 0);
	EXPECT_EQ(a.send(2), 0);
	b.recv(1);
	b.recv(2);
	EXPECT_EQ(fake_posted(a.qp->qp_num, FAKE_SEND), 2);
	move_by_hand(false);
	expect_wc(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect_wc(b.recv_cq, 2, IBV_WC_SUCCESS);
}

TEST_F(Fake, InlineIsTakenWhenPosted)
{
	Node a, b;
	move_by_hand(true);
	join(a, b);
	char text[] = "abcd";
	ibv_sge sge = {reinterpret_cast<uintptr_t>(text), 4, 0xbad};
	b.recv(1);
	EXPECT_EQ(a.send(1, {sge}, IBV_WR_SEND, 0, 0, IBV_SEND_INLINE), 0); // not signalled
	memcpy(text, "zzzz", 4);
	EXPECT_EQ(poll(b.recv_cq).wr_id, 0u);
	EXPECT_EQ(fake_posted(a.qp->qp_num, FAKE_SEND), 1);
	EXPECT_EQ(fake_progress(5), 1);
	expect_wc(b.recv_cq, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(&b.memory[8192], "abcd", 4), 0);
	EXPECT_EQ(poll(a.send_cq).wr_id, 0u);
}

TEST_F(Fake, WriteReadAndTheirChecks)
{
	Node a, b;
	join(a, b);
	memcpy(a.memory.data(), "12345", 5);
	a.send(1, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(50), b.mr->rkey);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(&b.memory[50], "12345", 5), 0);
	a.send(2, {a.sge(1000, 3)}, IBV_WR_RDMA_READ, b.addr(52), b.mr->rkey);
	expect_wc(a.send_cq, 2, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(&a.memory[1000], "345", 3), 0);
	a.send(3, {}, IBV_WR_RDMA_WRITE, 0, 0); // empty: its key does not matter
	expect_wc(a.send_cq, 3, IBV_WC_SUCCESS);
	b.recv(9);
	a.send(4, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE_WITH_IMM, b.addr(60), b.mr->rkey);
	ibv_wc wc = poll(b.recv_cq);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.byte_len, 5u);
	expect_wc(a.send_cq, 4, IBV_WC_SUCCESS);
	b.recv(10);
	a.send(5, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(Node::SIZE - 4), b.mr->rkey);
	expect_wc(a.send_cq, 5, IBV_WC_REM_ACCESS_ERR);
	expect_wc(b.recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.state(), IBV_QPS_ERR);
	EXPECT_EQ(b.state(), IBV_QPS_ERR);
}

TEST_F(Fake, FetchAndAddAndItsChecks)
{
	Node a, b;
	join(a, b);
	std::vector<uint64_t> word = {40};
	auto registered = [&](int access) {
		return ibv_reg_mr_iova(b.pd, word.data(), 8, 0, IBV_ACCESS_LOCAL_WRITE | access);
	};
	auto add = [&](uint64_t wr_id, uint64_t remote, uint32_t rkey) {
		ibv_sge result = a.sge(0, 8);
		ibv_send_wr wr{}, *bad;
		wr.wr_id = wr_id;
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &result;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.compare_add = 2;
		wr.wr.atomic.rkey = rkey;
		return ibv_post_send(a.qp, &wr, &bad);
	};
	ibv_mr *open = registered(IBV_ACCESS_REMOTE_ATOMIC);
	EXPECT_EQ(add(1, 4, open->rkey), EINVAL) << "not aligned";
	fake_misuse_clear();
	EXPECT_EQ(add(2, 0, open->rkey), 0);
	expect_wc(a.send_cq, 2, IBV_WC_REM_ACCESS_ERR); // the queue pair does not allow it
	EXPECT_EQ(word[0], 40u);
	for (Node *node : {&a, &b}) {
		node->modify(IBV_QPS_RESET);
		node->to_init(IBV_ACCESS_REMOTE_ATOMIC);
	}
	join(a, b);
	EXPECT_EQ(add(3, 0, open->rkey), 0);
	expect_wc(a.send_cq, 3, IBV_WC_SUCCESS);
	EXPECT_EQ(word[0], 42u);
	EXPECT_EQ(a.memory[0], 40);
	ibv_mr *closed = registered(IBV_ACCESS_REMOTE_WRITE);
	EXPECT_EQ(add(4, 0, closed->rkey), 0);
	expect_wc(a.send_cq, 4, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(word[0], 42u);
	EXPECT_EQ(ibv_dereg_mr(open), 0);
	EXPECT_EQ(ibv_dereg_mr(closed), 0);
}

TEST_F(Fake, DifferentKeysDoNotReplaceEachOther)
{
	fake_device d;
	fake_device_default(&d);
	d.keys = FAKE_KEYS_DIFFERENT;
	fake_set_devices(1, &d);
	Node a, b;
	join(a, b);
	ASSERT_NE(b.mr->lkey, b.mr->rkey);
	a.send(1, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(0), b.mr->rkey);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	a.send(2, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(0), b.mr->lkey);
	expect_wc(a.send_cq, 2, IBV_WC_REM_ACCESS_ERR);
}

static void too_long(ibv_wc_status sender, ibv_wc_status receiver)
{
	Node a, b;
	join(a, b);
	b.recv(1, 0, 4);
	b.recv(2);
	a.send(3, 5);
	expect_wc(a.send_cq, 3, sender);
	expect_wc(b.recv_cq, 1, receiver);
	expect_wc(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.state(), IBV_QPS_ERR);
	EXPECT_EQ(a.qp->state, IBV_QPS_ERR); // libibverbs knows the state since the query
}

TEST_F(Fake, LengthErrorLikeRxe)
{
	too_long(IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(Fake, LengthErrorLikeTheSpecification)
{
	fake_options options;
	fake_options_mlx5(&options);
	options.async_errors = false;
	fake_set_options(&options);
	too_long(IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
}

TEST_F(Fake, LocalErrorsLeaveThePeerAlone)
{
	Node a, b, c;
	join(a, b);
	b.recv(1);
	ibv_sge sge = a.sge(0, 5);
	sge.lkey = c.mr->lkey; // another domain
	a.send(2, {sge});
	expect_wc(a.send_cq, 2, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_EQ(a.state(), IBV_QPS_ERR);
	EXPECT_EQ(b.state(), IBV_QPS_RTS);
	EXPECT_EQ(poll(b.recv_cq).wr_id, 0u);
}

TEST_F(Fake, NoReceiveEndsTheSenderOnly)
{
	Node a, b;
	join(a, b);
	a.send(1);
	a.send(2);
	expect_wc(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_wc(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(b.state(), IBV_QPS_RTS);
	b.send(3); // the peer is in ERR and does not answer
	EXPECT_EQ(poll(b.send_cq).wr_id, 0u);
}

TEST_F(Fake, EndlessRnrRetryWaitsForTheReceive)
{
	Node a, b;
	join(a, b, 7);
	a.send(1);
	a.send(2);
	EXPECT_EQ(poll(a.send_cq).wr_id, 0u);
	b.recv(1);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(poll(a.send_cq).wr_id, 0u);
	b.recv(2);
	expect_wc(a.send_cq, 2, IBV_WC_SUCCESS);
}

TEST_F(Fake, SendWaitsForAPeerNotReadyYet)
{
	Node a, b;
	a.to_rts(b.qp->qp_num);
	b.recv(1);
	a.send(1);
	EXPECT_EQ(poll(a.send_cq).wr_id, 0u);
	b.to_rts(a.qp->qp_num);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
}

TEST_F(Fake, LateReceivesAreFlushedOnlyByErrToErr)
{
	Node a;
	a.recv(1);
	EXPECT_EQ(a.modify(IBV_QPS_ERR), 0);
	expect_wc(a.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.recv(2), 0);
	EXPECT_EQ(poll(a.recv_cq).wr_id, 0u);
	EXPECT_EQ(a.modify(IBV_QPS_ERR), 0);
	expect_wc(a.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(a.send(3), 0);
	expect_wc(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Fake, ResetDropsWorkAndKeepsCompletions)
{
	Node a;
	a.recv(1);
	a.modify(IBV_QPS_ERR);
	a.recv(2);
	EXPECT_EQ(a.modify(IBV_QPS_RESET), 0);
	expect_wc(a.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(poll(a.recv_cq).wr_id, 0u);
	a.to_init();
}

TEST_F(Fake, EarlySendIsRefusedRecordedAndSentLater)
{
	Node a, b;
	EXPECT_EQ(a.send(66), EINVAL);
	EXPECT_EQ(fake_misuse_count(), 1);
	fake_misuse_clear();
	b.recv(1);
	b.to_rts(a.qp->qp_num);
	a.to_rts(b.qp->qp_num);
	expect_wc(b.recv_cq, 1, IBV_WC_SUCCESS);
	expect_wc(a.send_cq, 66, IBV_WC_SUCCESS);
}

TEST_F(Fake, IllegalTransitionsAndFullQueues)
{
	Node a(IBV_QPT_RC, 4);
	EXPECT_EQ(a.modify(IBV_QPS_RTS), EINVAL);
	EXPECT_EQ(a.modify(IBV_QPS_RTR), EINVAL); // attributes missing
	EXPECT_EQ(fake_misuse_count(), 2);
	for (uint64_t i = 0; i < 4; ++i)
		EXPECT_EQ(a.recv(i), 0);
	EXPECT_EQ(fake_misuse_count(), 2);
	for (uint64_t i = 0; i < 3; ++i)
		EXPECT_EQ(a.recv(i), 0); // 4 is rounded up to 7, which is not promised
	EXPECT_EQ(a.recv(8), ENOMEM);
	EXPECT_EQ(fake_misuse_count(), 6);
	fake_misuse_clear();
}

TEST_F(Fake, UnreliableLosesAndRecovers)
{
	Node a(IBV_QPT_UC), b(IBV_QPT_UC);
	join(a, b);
	a.send(1);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	b.recv(1);
	a.send(3);
	expect_wc(a.send_cq, 3, IBV_WC_SUCCESS);
	expect_wc(b.recv_cq, 1, IBV_WC_SUCCESS);
	a.send(4, {a.sge(0, 4)}, IBV_WR_RDMA_WRITE, b.addr(0), 0x123456);
	expect_wc(a.send_cq, 4, IBV_WC_SUCCESS);
	EXPECT_EQ(b.state(), IBV_QPS_RTS);
	b.recv(2, 0, 3);
	a.send(5);
	expect_wc(a.send_cq, 5, IBV_WC_SUCCESS);
	expect_wc(b.recv_cq, 2, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_EQ(b.state(), IBV_QPS_ERR);
}

TEST_F(Fake, UnreliableGoesDeafUntilReset)
{
	Node a(IBV_QPT_UC), b(IBV_QPT_UC);
	join(a, b);
	a.send(1, {a.sge(0, 5000)}, IBV_WR_RDMA_WRITE_WITH_IMM, b.addr(0), b.mr->rkey);
	b.recv(1);
	a.send(2);
	EXPECT_EQ(poll(b.recv_cq).wr_id, 0u);
	b.modify(IBV_QPS_RESET);
	b.to_init();
	b.recv(2);
	b.to_rts(a.qp->qp_num);
	a.send(3);
	expect_wc(b.recv_cq, 2, IBV_WC_SUCCESS);
	a.send(4, {a.sge(0, 4)}, IBV_WR_RDMA_READ, b.addr(0), b.mr->rkey);
	for (uint64_t i = 1; i <= 3; ++i)
		expect_wc(a.send_cq, i, IBV_WC_SUCCESS);
	expect_wc(a.send_cq, 4, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(Fake, DestroyedQueuePairsLeaveTheirCompletions)
{
	for (bool late : {false, true}) {
		Node node;
		fake_options options;
		ibv_cq *cq = node.recv_cq;

		fake_get_options(&options);
		options.hold_completions = true;
		options.late_completions = late;
		fake_set_options(&options);
		EXPECT_EQ(node.recv(7), 0);
		EXPECT_EQ(node.modify(IBV_QPS_ERR), 0);
		EXPECT_EQ(poll(cq).wr_id, 0u);
		EXPECT_EQ(ibv_destroy_qp(node.qp), 0);
		EXPECT_EQ(fake_release(-1), late ? 1 : 0);
		expect_wc(cq, 7, IBV_WC_WR_FLUSH_ERR);
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq;
		init.qp_type = IBV_QPT_RC;
		init.cap.max_send_wr = init.cap.max_recv_wr = 1;
		node.qp = ibv_create_qp(node.pd, &init);
	}
}
