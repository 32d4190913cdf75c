// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake under several threads. ThreadSanitizer makes them most useful.
#include "fake_test.h"

#include <memory>
#include <thread>

using FakeThreads = FakeTest;

static const uint64_t ROUNDS = 300;

static void play(Node &node, bool first)
{
	for (uint64_t i = 1; i <= ROUNDS; ++i) {
		if (first) {
			ASSERT_EQ(node.send(i), 0);
		}
		ibv_wc wc{};
		while (!wc.wr_id) { // poll, arm, poll again, wait
			if ((wc = poll(node.recv_cq)).wr_id)
				break;
			ASSERT_EQ(ibv_req_notify_cq(node.recv_cq, 0), 0);
			if ((wc = poll(node.recv_cq)).wr_id)
				break;
			ibv_cq *cq;
			void *context;
			ASSERT_EQ(ibv_get_cq_event(node.channel, &cq, &context), 0);
			ibv_ack_cq_events(cq, 1);
		}
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
		ASSERT_EQ(wc.wr_id, i);
		ASSERT_EQ(node.recv(i + 4), 0);
		if (!first) {
			ASSERT_EQ(node.send(i), 0);
		}
		while (!poll(node.send_cq).wr_id)
			std::this_thread::yield();
	}
}

TEST_F(FakeThreads, PingPongsSideBySide)
{
	const int PAIRS = 3;
	std::vector<std::unique_ptr<Node>> nodes;
	std::vector<std::thread> threads;

	for (int i = 0; i < 2 * PAIRS; ++i) {
		nodes.push_back(std::make_unique<Node>());
		for (uint64_t r = 1; r <= 4; ++r)
			nodes.back()->recv(r);
	}
	for (int i = 0; i < 2 * PAIRS; ++i)
		nodes[static_cast<size_t>(i)]->to_rts(
			nodes[static_cast<size_t>(i ^ 1)]->qp->qp_num);
	for (int i = 0; i < 2 * PAIRS; ++i)
		threads.emplace_back([&, i] { play(*nodes[static_cast<size_t>(i)], i & 1); });
	for (auto &thread : threads)
		thread.join();
}

static void serve(rdma_event_channel *channel, int count)
{
	while (count) {
		rdma_cm_event *event;
		ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
		rdma_cm_id *id = event->id;
		bool asks = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		ASSERT_EQ(rdma_ack_cm_event(event), 0);
		if (asks) {
			ASSERT_EQ(rdma_reject(id, "no", 2), 0);
			ASSERT_EQ(rdma_destroy_id(id), 0);
			--count;
		}
	}
}

static void ask(int count, uint32_t qp_num)
{
	rdma_event_channel *channel = rdma_create_event_channel();
	sockaddr_in dst = address("10.9.9.1", 5000);

	for (int i = 0; i < count; ++i) {
		rdma_cm_id *id;
		rdma_cm_event *event;
		rdma_conn_param param{};
		param.qp_num = qp_num;
		ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
		ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&dst), 1000),
			  0);
		ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
		rdma_ack_cm_event(event);
		ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
		ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
		rdma_ack_cm_event(event);
		ASSERT_EQ(rdma_connect(id, &param), 0);
		ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
		EXPECT_EQ(event->event, RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(event->status, 28);
		rdma_ack_cm_event(event);
		ASSERT_EQ(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
}

TEST_F(FakeThreads, ManyAskOneListener)
{
	const int ASKERS = 4, TIMES = 50;
	rdma_event_channel *channel = rdma_create_event_channel();
	rdma_cm_id *listener;
	sockaddr_in sin = address("10.9.9.1", 5000);
	std::vector<std::thread> threads;

	ASSERT_EQ(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), 0);
	ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&sin)), 0);
	ASSERT_EQ(rdma_listen(listener, 2), 0);
	threads.emplace_back([=] { serve(channel, ASKERS * TIMES); });
	for (int i = 0; i < ASKERS; ++i)
		threads.emplace_back([=] { ask(TIMES, static_cast<uint32_t>(100 + i)); });
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}
