/* SPDX-License-Identifier: BSD-2-Clause */
// The base class of the tests of connections by rdma_cm.
#pragma once

#include "fake_test.h"

#include <fcntl.h>
#include <string>

// Two sides, each with its event channel; the server listens on 10.9.9.1:5000.
class FakeCm : public FakeTest
{
      protected:
	void SetUp() override
	{
		FakeTest::SetUp();
		client_channel = rdma_create_event_channel();
		server_channel = rdma_create_event_channel();
		fcntl(client_channel->fd, F_SETFL, O_NONBLOCK);
		fcntl(server_channel->fd, F_SETFL, O_NONBLOCK);
		a = new Node;
		b = new Node;
	}

	void TearDown() override
	{
		for (rdma_cm_id *id : {client, child, listener})
			if (id)
				rdma_destroy_id(id);
		rdma_destroy_event_channel(client_channel);
		rdma_destroy_event_channel(server_channel);
		delete a;
		delete b;
		FakeTest::TearDown();
	}

	// Returns the next event's type (-1: none). Its details are in last and data.
	int next(rdma_event_channel *channel)
	{
		rdma_cm_event *event;
		if (rdma_get_cm_event(channel, &event)) {
			EXPECT_EQ(errno, EAGAIN);
			return -1;
		}
		last = *event;
		auto *bytes = static_cast<const char *>(event->param.conn.private_data);
		data.assign(bytes ? bytes : "", bytes ? event->param.conn.private_data_len : 0);
		EXPECT_EQ(rdma_ack_cm_event(event), 0);
		return last.event;
	}

	void listen()
	{
		sockaddr_in sin = address("10.9.9.1", 5000);
		ASSERT_EQ(rdma_create_id(server_channel, &listener, this, RDMA_PS_TCP), 0);
		ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr *>(&sin)), 0);
		EXPECT_STREQ(listener->verbs->device->name, "fake0");
		ASSERT_EQ(rdma_listen(listener, 10), 0);
	}

	void resolve(const char *ip = "10.9.9.1")
	{
		sockaddr_in src = address("10.9.9.1", 0), dst = address(ip, 5000);
		ASSERT_EQ(rdma_create_id(client_channel, &client, nullptr, RDMA_PS_TCP), 0);
		ASSERT_EQ(rdma_resolve_addr(client, reinterpret_cast<sockaddr *>(&src),
					    reinterpret_cast<sockaddr *>(&dst), 50),
			  0);
		ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_ADDR_RESOLVED);
		ASSERT_EQ(rdma_resolve_route(client, 50), 0);
		ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_ROUTE_RESOLVED);
	}

	static rdma_conn_param param(const Node *node, const char *text, size_t length)
	{
		rdma_conn_param p{};
		p.private_data = text;
		p.private_data_len = static_cast<uint8_t>(length);
		p.qp_num = node->qp->qp_num;
		p.responder_resources = p.initiator_depth = 1;
		p.retry_count = 6;
		return p;
	}

	int connect()
	{
		rdma_conn_param p = param(a, "request", 7);
		return rdma_connect(client, &p);
	}

	int accept()
	{
		rdma_conn_param p = param(b, "response", 8);
		return rdma_accept(child, &p);
	}

	void request()
	{
		listen();
		resolve();
		ASSERT_EQ(connect(), 0);
		ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_CONNECT_REQUEST);
		child = last.id;
	}

	static int to_rts(rdma_cm_id *id, Node *node)
	{
		int mask, err = 0;
		for (ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
			ibv_qp_attr attr{};
			attr.qp_state = state;
			if (rdma_init_qp_attr(id, &attr, &mask))
				return errno;
			EXPECT_EQ(mask, state == IBV_QPS_RTR ? 0x129181 : 0x12e01);
			if (!err)
				err = ibv_modify_qp(node->qp, &attr, mask);
		}
		return err;
	}

	void establish()
	{
		request();
		ASSERT_EQ(to_rts(child, b), 0);
		ASSERT_EQ(accept(), 0);
		ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_CONNECT_RESPONSE);
		EXPECT_EQ(data.size(), 196u);
		EXPECT_EQ(data.substr(0, 9), std::string("response\0", 9));
		EXPECT_EQ(last.param.conn.qp_num, b->qp->qp_num);
		ASSERT_EQ(to_rts(client, a), 0);
		ASSERT_EQ(rdma_establish(client), 0);
		ASSERT_EQ(next(server_channel), RDMA_CM_EVENT_ESTABLISHED);
		EXPECT_EQ(next(client_channel), -1);
	}

	void destroy(rdma_cm_id *&id)
	{
		EXPECT_EQ(rdma_destroy_id(id), 0);
		id = nullptr;
	}

	void expect_rejected(int status, const std::string &text = "")
	{
		ASSERT_EQ(next(client_channel), RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(last.status, status);
		std::string padded = text;
		padded.resize(148);
		EXPECT_EQ(data, padded);
	}

	rdma_event_channel *client_channel, *server_channel;
	rdma_cm_id *client = nullptr, *child = nullptr, *listener = nullptr;
	Node *a, *b;
	rdma_cm_event last{};
	std::string data;
};
