/* SPDX-License-Identifier: BSD-2-Clause */
// A NIC with control connections to strangers.
#pragma once

#include <map>
#include <set>

#include "control_peer.h"

constexpr uint32_t PEER_QP = 999;

// b is connected with strangers. They have control connections.
class ControlConnections : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		options([](fake_options &to) { to.sockets = true; });
		open();
		b = make_vi();
	}
	// Makes a request to this VI. It is answered, and not confirmed.
	std::unique_ptr<Stranger> answer_to(const Vi &vi, uint16_t port, uint32_t qp = PEER_QP,
					    const char *host = "10.9.9.1")
	{
		const std::string door = "door " + std::to_string(++doors);
		uint64_t before = fake_calls("rdma_listen");
		accepted = std::async(std::launch::async, [=] {
			VIP_CONN_HANDLE conn;
			VIP_RETURN rc = wait(door, PATIENCE, &conn);

			return rc == VIP_SUCCESS ? VipConnectAccept(conn, vi) : rc;
		});
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_listen") > before; }));
		wire_message message = good_request(door, "", WIRE_REQUEST, port);
		auto s = std::make_unique<Stranger>(door, &message, sizeof(message), qp, host);
		EXPECT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
		ibv_qp_attr attributes{};
		int mask;
		attributes.qp_state = IBV_QPS_RTS;
		EXPECT_EQ(rdma_init_qp_attr(s->id, &attributes, &mask), 0);
		psn = psns[qp] = attributes.sq_psn;
		return s;
	}
	std::unique_ptr<Stranger> connect_to(const Vi &vi, uint16_t port, uint32_t qp = PEER_QP,
					     const char *host = "10.9.9.1")
	{
		auto s = answer_to(vi, port, qp, host);

		EXPECT_EQ(rdma_establish(s->id), 0);
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		return s;
	}
	// Checks that b is still connected with PEER_QP, after all messages that were sent before on this connection.
	void expect_connected(Control &control)
	{
		control.send(WIRE_ASK, {0, PEER_QP, b.qp, psns[PEER_QP]});
		ASSERT_EQ(control.next_answer(), WIRE_CONNECTED);
		EXPECT_EQ(control.fields.from, b.qp);
		EXPECT_EQ(control.fields.to, PEER_QP);
		EXPECT_EQ(control.fields.number, psns[PEER_QP]);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, b), 0);
	}
	void expect_lost(const Vi &vi)
	{
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, vi));
		EXPECT_EQ(state_of(vi), VIP_STATE_ERROR);
	}
	std::future<VIP_RETURN> accepted;
	uint32_t psn = 0; // of the last stranger: the number that names its connection
	std::map<uint32_t, uint32_t> psns; // of all strangers, by their queue pairs
	int doors = 0;
};
