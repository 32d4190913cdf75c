// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: addresses, and messages that get lost.
#include "fake_test_cm.h"

#include <chrono>
#include <poll.h>

TEST_F(FakeCm, PortRules)
{
	listen();
	rdma_cm_id *other;
	sockaddr_in same = address("10.9.9.1", 5000), any = address("0.0.0.0", 5000);
	sockaddr_in local = address("127.0.0.1", 5000), foreign = address("10.1.1.1", 5000);
	ASSERT_EQ(rdma_create_id(server_channel, &other, nullptr, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_bind_addr(other, reinterpret_cast<sockaddr *>(&same)), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_bind_addr(other, reinterpret_cast<sockaddr *>(&any)), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	EXPECT_EQ(rdma_bind_addr(other, reinterpret_cast<sockaddr *>(&foreign)), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	EXPECT_EQ(rdma_bind_addr(other, reinterpret_cast<sockaddr *>(&local)), 0);
	EXPECT_STREQ(other->verbs->device->name, "fake0");
	EXPECT_EQ(rdma_destroy_id(other), 0);
	ASSERT_EQ(rdma_create_id(server_channel, &other, nullptr, RDMA_PS_TCP), 0);
	same.sin_port = 0;
	EXPECT_EQ(rdma_bind_addr(other, reinterpret_cast<sockaddr *>(&same)), 0);
	EXPECT_GE(ntohs(other->route.addr.src_sin.sin_port), 32768);
	EXPECT_EQ(rdma_destroy_id(other), 0);
}

TEST_F(FakeCm, AddressesThatDoNotAnswer)
{
	sockaddr_in dst = address("10.9.9.77", 5000);
	auto *sa = reinterpret_cast<sockaddr *>(&dst);
	ASSERT_EQ(rdma_create_id(client_channel, &client, nullptr, RDMA_PS_TCP), 0);
	auto start = std::chrono::steady_clock::now();
	ASSERT_EQ(rdma_resolve_addr(client, nullptr, sa, 60), 0);
	EXPECT_EQ(next(client_channel), -1);
	pollfd p = {client_channel->fd, POLLIN, 0};
	EXPECT_EQ(::poll(&p, 1, 5000), 1);
	ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_ADDR_ERROR);
	EXPECT_EQ(last.status, -110);
	EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60));
	EXPECT_EQ(::poll(&p, 1, 0), 0);
	fake_address("10.9.9.77", FAKE_REACH_UNREACHABLE, -1);
	EXPECT_EQ(rdma_resolve_addr(client, nullptr, sa, 60), -1);
	EXPECT_EQ(errno, ENETUNREACH);
	fake_address("10.9.9.77", FAKE_REACH_TIMEOUT, 0);
	ASSERT_EQ(rdma_resolve_addr(client, nullptr, sa, 60000), 0);
	EXPECT_EQ(next(client_channel), RDMA_CM_EVENT_ADDR_ERROR);
	ASSERT_EQ(rdma_resolve_addr(client, nullptr, sa, 60000), 0); // again
	destroy(client);
	EXPECT_EQ(next(client_channel), -1); // the event has gone with the id
}

TEST_F(FakeCm, PeerDies)
{
	establish();
	fake_kill_peer_of(a->qp->qp_num);
	ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(next(server_channel), -1);
	b->recv(1);
	a->send(1);
	EXPECT_EQ(poll(a->send_cq).wr_id, 0u); // no answer comes, and no error
	EXPECT_EQ(a->modify(IBV_QPS_ERR), 0);
	EXPECT_EQ(poll(a->send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(FakeCm, UnacknowledgedEventAborts)
{
	GTEST_FLAG_SET(death_test_style, "threadsafe");
	resolve();
	fake_cm_event(client, RDMA_CM_EVENT_ADDR_CHANGE, 0, nullptr, 0);
	rdma_cm_event *event;
	ASSERT_EQ(rdma_get_cm_event(client_channel, &event), 0);
	EXPECT_DEATH(rdma_destroy_id(client), "rdma_destroy_id would wait");
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
}

// ---- messages that get lost ----

TEST_F(FakeCm, ALostRequestHasNoAnswer)
{
	listen();
	resolve();
	fake_lose_next(FAKE_REQ, 1);
	ASSERT_EQ(connect(), 0);
	EXPECT_EQ(next(server_channel), -1);
	EXPECT_EQ(next(client_channel), -1);
	destroy(client);
	resolve();
	ASSERT_EQ(connect(), 0);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_CONNECT_REQUEST);
	child = last.id;
}

TEST_F(FakeCm, ALostResponseEndsWithTheRequester)
{
	fake_lose_next(FAKE_REP, 1);
	request();
	ASSERT_EQ(accept(), 0);
	EXPECT_EQ(next(client_channel), -1);
	destroy(client);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(last.status, 4);
}

TEST_F(FakeCm, AfterALostLastWordTheServerMayBeNotified)
{
	fake_lose_next(FAKE_RTU, 1);
	request();
	ASSERT_EQ(accept(), 0);
	ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_CONNECT_RESPONSE);
	ASSERT_EQ(rdma_establish(client), 0);
	EXPECT_EQ(next(server_channel), -1);
	EXPECT_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), 0);
	EXPECT_EQ(next(server_channel), RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), -1);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(FakeCm, ALostEndIsNotHeardOf)
{
	fake_lose_next(FAKE_DREQ, 1);
	establish();
	EXPECT_EQ(rdma_disconnect(client), 0);
	destroy(client);
	EXPECT_EQ(next(server_channel), -1);
}

// This holds without a listener, too.
TEST_F(FakeCm, ASecondRequestOfAQueuePairIsStale)
{
	request();
	destroy(listener);
	rdma_cm_id *first = client;
	resolve();
	ASSERT_EQ(connect(), 0);
	expect_rejected(10);
	destroy(client);
	client = first;
	ASSERT_EQ(accept(), 0);
	EXPECT_EQ(next(client_channel), RDMA_CM_EVENT_CONNECT_RESPONSE) << "the first one goes on";
}
