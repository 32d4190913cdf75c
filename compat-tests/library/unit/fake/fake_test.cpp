// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: memory and events.
#include "fake_test.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

using Fake = FakeTest;

TEST_F(Fake, DevicesHaveOnePortAndTheirListEndsWithNull)
{
	Node a;
	ibv_port_attr port;
	EXPECT_EQ(ibv_query_port(a.ctx, 2, &port), EINVAL);
	fake_set_devices(0, nullptr);
	ibv_device **list = ibv_get_device_list(nullptr);
	EXPECT_EQ(list[0], nullptr);
	ibv_free_device_list(list);
}

TEST_F(Fake, RegistrationRules)
{
	Node a;
	auto reg = [&](void *p, size_t n, int access) { return ibv_reg_mr(a.pd, p, n, access); };
	ibv_mr *local = reg(a.memory.data(), 100, IBV_ACCESS_LOCAL_WRITE);
	EXPECT_EQ(local->rkey, 0u);
	EXPECT_EQ(a.mr->rkey, a.mr->lkey);
	EXPECT_EQ(reg(a.memory.data(), 0, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(reg(a.memory.data(), 8, IBV_ACCESS_REMOTE_WRITE), nullptr);
	EXPECT_EQ(errno, EINVAL);
	void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ibv_mr *readable = reg(page, 4096, 0);
	EXPECT_NE(readable, nullptr);
	EXPECT_EQ(reg(page, 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(ibv_dereg_mr(readable), 0);
	munmap(page, 4096);
	EXPECT_EQ(reg(page, 4096, 0), nullptr);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(ibv_dereg_mr(local), 0);
	EXPECT_EQ(ibv_dealloc_pd(a.pd), EBUSY);
	EXPECT_EQ(fake_misuse_count(), 1);
	fake_misuse_clear();
}

TEST_F(Fake, CompletionEvents)
{
	Node a, b;
	join(a, b);
	ibv_cq *cq;
	void *context;
	fcntl(b.channel->fd, F_SETFL, O_NONBLOCK);
	b.recv(1);
	b.recv(2);
	a.send(1); // the CQ is not armed: no event
	EXPECT_EQ(ibv_get_cq_event(b.channel, &cq, &context), -1);
	EXPECT_EQ(errno, EAGAIN);
	EXPECT_EQ(ibv_req_notify_cq(b.recv_cq, 0), 0);
	EXPECT_EQ(ibv_get_cq_event(b.channel, &cq, &context),
		  -1); // a completion that is there already raises none
	a.send(2);
	pollfd p = {b.channel->fd, POLLIN, 0};
	EXPECT_EQ(::poll(&p, 1, 0), 1);
	ASSERT_EQ(ibv_get_cq_event(b.channel, &cq, &context), 0);
	EXPECT_EQ(cq, b.recv_cq);
	EXPECT_EQ(context, &b);
	EXPECT_EQ(::poll(&p, 1, 0), 0);
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

TEST_F(Fake, CqOverflowAndResize)
{
	Node a(IBV_QPT_RC, 128);
	EXPECT_EQ(ibv_resize_cq(a.recv_cq, 100), 0);
	EXPECT_EQ(a.recv_cq->cqe, 127);
	EXPECT_EQ(ibv_resize_cq(a.recv_cq, 3), 0);
	for (uint64_t i = 1; i <= 4; ++i)
		a.recv(i);
	a.modify(IBV_QPS_ERR);
	EXPECT_EQ(fake_misuse_count(), 1);
	fake_misuse_clear();
	ibv_async_event event;
	ASSERT_EQ(ibv_get_async_event(a.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT_EQ(event.element.cq, a.recv_cq);
	ibv_ack_async_event(&event);
}

TEST_F(Fake, AsyncEvents)
{
	Node a;
	ibv_async_event event;
	fcntl(a.ctx->async_fd, F_SETFL, O_NONBLOCK);
	EXPECT_EQ(ibv_get_async_event(a.ctx, &event), -1);
	EXPECT_EQ(errno, EAGAIN);
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp->qp_num);
	fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
	ASSERT_EQ(ibv_get_async_event(a.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
	EXPECT_EQ(event.element.qp, a.qp);
	ibv_ack_async_event(&event);
	ASSERT_EQ(ibv_get_async_event(a.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp->qp_num); // it goes with the queue pair
}

TEST_F(Fake, HardwareLikeAsyncErrors)
{
	fake_options options;
	fake_options_mlx5(&options);
	fake_set_options(&options);
	Node a, b;
	join(a, b);
	a.send(1, {a.sge(0, 5)}, IBV_WR_RDMA_WRITE, b.addr(0), 0x777777);
	expect_wc(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	ibv_async_event event;
	ASSERT_EQ(ibv_get_async_event(b.ctx, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	ibv_ack_async_event(&event);
	EXPECT_EQ(b.recv(1), 0); // posted in ERR: here it is flushed at once
	expect_wc(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Fake, ResetFreesWhatIsLeft)
{
	auto *a = new Node;
	a->recv(1);
	fake_reset();
	a->ctx = nullptr; // it is freed already
	delete a;
}
