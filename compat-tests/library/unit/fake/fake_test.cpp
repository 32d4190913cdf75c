// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: of what it refuses, and of imitations that the library copes with. If it let them go, no test of
// the library would notice.
#include "node.h"

#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

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
	static void options(const std::function<void(fake_options &)> &change)
	{
		fake_options now;

		fake_get_options(&now);
		change(now);
		fake_set_options(&now);
	}
	static void expect_misuse(int count)
	{
		EXPECT_EQ(fake_misuse_count(), count) << "the last: " << fake_misuse(fake_misuse_count() - 1);
		fake_misuse_clear();
	}
};

TEST_F(Fake, RegistrationRules)
{
	Node a;
	auto reg = [&](void *p, size_t n, int access) { return ibv_reg_mr(a.pd, p, n, access); };
	auto expect_error = [&](void *p, size_t n, int access, int error) {
		EXPECT_EQ(reg(p, n, access), nullptr);
		EXPECT_EQ(errno, error);
	};
	ibv_mr *local = reg(a.memory.data(), 100, IBV_ACCESS_LOCAL_WRITE);
	EXPECT_EQ(local->rkey, 0u);
	EXPECT_EQ(a.mr->rkey, a.mr->lkey);
	expect_error(a.memory.data(), 0, 0, EINVAL);
	expect_error(a.memory.data(), 8, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_EQ(ibv_dereg_mr(reg(page, 4096, 0)), 0);
	expect_error(page, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	munmap(page, 4096);
	expect_error(page, 4096, 0, EFAULT);
	EXPECT_EQ(ibv_dereg_mr(local), 0);
	EXPECT_EQ(ibv_dealloc_pd(a.pd), EBUSY);
	expect_misuse(1);
}

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
	EXPECT_EQ(context, &b);
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

TEST_F(Fake, CqsOverflow)
{
	Node a(IBV_QPT_RC, 128);
	ibv_async_event event;

	EXPECT_EQ(ibv_resize_cq(a.recv_cq, 3), 0);
	for (uint64_t i = 1; i <= 4; ++i)
		a.recv(i);
	a.modify(IBV_QPS_ERR);
	expect_misuse(1);
	ASSERT_EQ(ibv_get_async_event(a.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT_EQ(event.element.cq, a.recv_cq);
	ibv_ack_async_event(&event);
}

TEST_F(Fake, InlineDataIsTakenWhenItIsPosted)
{
	Node a, b;
	char text[] = "abcd";

	options([](fake_options &o) { o.manual = true; });
	join(a, b);
	b.recv(1);
	EXPECT_EQ(a.send(1, {{reinterpret_cast<uintptr_t>(text), 4, 0xbad}}, IBV_WR_SEND, 0, 0, IBV_SEND_INLINE), 0);
	memcpy(text, "zzzz", 4);
	EXPECT_EQ(fake_progress(5), 1);
	expect_wc(b.recv_cq, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(memcmp(&b.memory[8192], "abcd", 4), 0);
	EXPECT_EQ(poll(a.send_cq).wr_id, 0u) << "it was not signalled";
}

TEST_F(Fake, PeersReachWhatIsRegisteredForThemOnly)
{
	for (auto [offset, key] : {std::pair(Node::SIZE - 4, 0), {size_t{0}, 1}}) {
		Node a, b;
		join(a, b);
		b.recv(10);
		a.send(5, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(offset), b.mr->rkey + static_cast<uint32_t>(key));
		expect_wc(a.send_cq, 5, IBV_WC_REM_ACCESS_ERR);
		expect_wc(b.recv_cq, 10, IBV_WC_WR_FLUSH_ERR);
	}
}

TEST_F(Fake, AtomicsNeedRightsOfBothTheQueuePairAndTheMemory)
{
	Node a, b;
	uint64_t word = 40;
	auto registered = [&](int access) { return ibv_reg_mr_iova(b.pd, &word, 8, 0, IBV_ACCESS_LOCAL_WRITE | access); };
	auto add = [&](uint64_t remote, uint32_t rkey) {
		ibv_sge result = a.sge(0, 8);
		ibv_send_wr wr{}, *bad;
		wr.wr_id = 1;
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &result;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.compare_add = 2;
		wr.wr.atomic.rkey = rkey;
		return ibv_post_send(a.qp, &wr, &bad);
	};
	ibv_mr *open = registered(IBV_ACCESS_REMOTE_ATOMIC), *closed = registered(IBV_ACCESS_REMOTE_WRITE);

	join(a, b);
	EXPECT_EQ(add(4, open->rkey), EINVAL) << "not aligned";
	expect_misuse(1);
	EXPECT_EQ(add(0, open->rkey), 0);
	expect_wc(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(word, 40u);
	for (Node *node : {&a, &b}) {
		node->modify(IBV_QPS_RESET);
		node->to_init(IBV_ACCESS_REMOTE_ATOMIC);
	}
	join(a, b);
	EXPECT_EQ(add(0, open->rkey), 0);
	expect_wc(a.send_cq, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(word, 42u);
	EXPECT_EQ(add(0, closed->rkey), 0);
	expect_wc(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(word, 42u);
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

TEST_F(Fake, KeysOfAnotherDomainAreNone)
{
	Node a, b, c;
	ibv_sge sge = a.sge(0, 5);

	join(a, b);
	b.recv(1);
	sge.lkey = c.mr->lkey;
	a.send(2, {sge});
	expect_wc(a.send_cq, 2, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_EQ(poll(b.recv_cq).wr_id, 0u) << "the peer does not hear of it";
}

TEST_F(Fake, LateReceivesAreFlushedOnlyByErrToErr)
{
	Node a;

	EXPECT_EQ(a.modify(IBV_QPS_ERR), 0);
	EXPECT_EQ(a.recv(2), 0);
	EXPECT_EQ(poll(a.recv_cq).wr_id, 0u);
	EXPECT_EQ(a.modify(IBV_QPS_ERR), 0);
	expect_wc(a.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
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

TEST_F(Fake, IllegalTransitionsEarlySendsAndFullQueues)
{
	Node a(IBV_QPT_RC, 4);

	EXPECT_EQ(a.modify(IBV_QPS_RTS), EINVAL);
	EXPECT_EQ(a.modify(IBV_QPS_RTR), EINVAL); // attributes missing
	EXPECT_EQ(a.send(1), EINVAL);
	expect_misuse(3);
	for (uint64_t i = 0; i < 4; ++i)
		EXPECT_EQ(a.recv(i), 0);
	expect_misuse(0);
	for (uint64_t i = 0; i < 3; ++i)
		EXPECT_EQ(a.recv(i), 0); // 4 is rounded up to 7, which is not promised
	EXPECT_EQ(a.recv(8), ENOMEM);
	expect_misuse(4);
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
}

TEST_F(Fake, DestroyedQueuePairsLeaveTheirCompletions)
{
	for (bool late : {false, true}) {
		Node node;
		ibv_cq *cq = node.recv_cq;

		options([=](fake_options &o) {
			o.hold_completions = true;
			o.late_completions = late;
		});
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

} // namespace
