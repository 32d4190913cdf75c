// SPDX-License-Identifier: BSD-2-Clause
// Tests of the fake itself: connections.
#include "fake_test_cm.h"

TEST_F(FakeCm, ConnectAndPingPong)
{
	b->recv(1);
	establish();
	EXPECT_EQ(rdma_establish(client), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(child->context, this);
	auto *peer = reinterpret_cast<sockaddr_in *>(rdma_get_peer_addr(child));
	EXPECT_EQ(ntohl(peer->sin_addr.s_addr), 0x0a090901u);
	EXPECT_EQ(fake_id_of_qp(b->qp->qp_num), child);
	a->recv(2);
	a->send(3);
	EXPECT_EQ(poll(b->recv_cq).wr_id, 1u);
	b->send(4);
	EXPECT_EQ(poll(a->recv_cq).wr_id, 2u);
	EXPECT_EQ(to_rts(client, a),
		  EINVAL); // the attributes are still given, but the transition is wrong
	fake_misuse_clear();
}

TEST_F(FakeCm, RequestDataIsPadded)
{
	request();
	EXPECT_EQ(last.listen_id, listener);
	EXPECT_EQ(data.size(), 56u);
	EXPECT_EQ(data.substr(0, 8), std::string("request\0", 8));
	EXPECT_EQ(last.param.conn.qp_num, a->qp->qp_num);
}

TEST_F(FakeCm, PrivateDataTooLong)
{
	char big[200] = {};
	request();
	rdma_conn_param p = param(b, big, 197);
	EXPECT_EQ(rdma_reject(child, big, 149), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_accept(child, &p), -1);
	EXPECT_EQ(errno, EINVAL);
	expect_rejected(28); // the client gets a rejection at once
	EXPECT_EQ(accept(), -1);
	destroy(client);
	resolve();
	p = param(a, big, 57);
	EXPECT_EQ(rdma_connect(client, &p), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(connect(), 0);
}

TEST_F(FakeCm, NobodyListens)
{
	resolve();
	ASSERT_EQ(connect(), 0);
	expect_rejected(8);
	EXPECT_EQ(connect(), -1); // an id connects once only
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(FakeCm, RejectedByTheActiveSide)
{
	request();
	ASSERT_EQ(accept(), 0);
	ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_CONNECT_RESPONSE);
	ASSERT_EQ(rdma_reject(client, "sorry", 5), 0);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(data.substr(0, 6), std::string("sorry\0", 6));
}

TEST_F(FakeCm, ListenerGoneWithTheRequestUnread)
{
	listen();
	resolve();
	ASSERT_EQ(connect(), 0);
	destroy(listener);
	expect_rejected(28);
}

TEST_F(FakeCm, ChildGoneUnaccepted)
{
	request();
	destroy(child);
	expect_rejected(28);
}

TEST_F(FakeCm, ClientGivesUpBeforeAccept)
{
	request();
	destroy(client);
	EXPECT_EQ(next(server_channel), -1); // the server gets no event
	EXPECT_EQ(to_rts(child, b), EINVAL);
	EXPECT_EQ(accept(), -1);
	EXPECT_EQ(errno, EINVAL);
}

TEST_F(FakeCm, ClientGivesUpAfterAccept)
{
	request();
	ASSERT_EQ(accept(), 0);
	destroy(client);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(last.status, 28);
}

TEST_F(FakeCm, DisconnectNeedsTheOtherSideToo)
{
	establish();
	ASSERT_EQ(rdma_disconnect(client), 0);
	EXPECT_EQ(next(client_channel), -1);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(a->state(), IBV_QPS_RTS); // the program moves the queue pairs
	ASSERT_EQ(rdma_disconnect(child), 0);
	ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(next(server_channel), -1);
}

TEST_F(FakeCm, DestroyDisconnectsAndTimewaitEnds)
{
	fake_options options;
	fake_options_rxe(&options);
	options.timewait_ms = 0;
	fake_set_options(&options);
	establish();
	destroy(client);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_DISCONNECTED);
	ASSERT_EQ(rdma_disconnect(child), 0);
	EXPECT_EQ(next(server_channel), RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(FakeCm, StaleUntilTheServerHasDisconnected)
{
	establish();
	destroy(client);
	resolve();
	ASSERT_EQ(connect(), 0);
	expect_rejected(10);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_DISCONNECTED);
	destroy(child);
	destroy(client);
	resolve();
	ASSERT_EQ(connect(), 0);
	ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_CONNECT_REQUEST);
	child = last.id;
}
