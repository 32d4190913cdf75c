/* SPDX-License-Identifier: BSD-2-Clause */
// A queue pair with everything it needs, of a test that calls verbs itself.
#pragma once

#include "fake_rdma.h"

#include <gtest/gtest.h>
#include <vector>

struct Node {
	ibv_context *ctx = nullptr;
	ibv_pd *pd = nullptr;
	ibv_comp_channel *channel = nullptr;
	ibv_cq *send_cq = nullptr, *recv_cq = nullptr;
	ibv_qp *qp = nullptr;
	ibv_mr *mr = nullptr;
	std::vector<char> memory = std::vector<char>(16384);
	const unsigned rights; // of peers, and of the device

	explicit Node(ibv_qp_type type = IBV_QPT_RC, uint32_t depth = 16, unsigned more_rights = 0)
	    : rights(more_rights | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
	{
		int n = 0;
		ibv_device **list = ibv_get_device_list(&n);
		ctx = ibv_open_device(list[0]);
		ibv_free_device_list(list);
		pd = ibv_alloc_pd(ctx);
		channel = ibv_create_comp_channel(ctx);
		send_cq = ibv_create_cq(ctx, 64, nullptr, channel, 0);
		recv_cq = ibv_create_cq(ctx, 64, nullptr, channel, 0);
		ibv_qp_init_attr init{};
		init.send_cq = send_cq;
		init.recv_cq = recv_cq;
		init.qp_type = type;
		init.cap.max_send_wr = init.cap.max_recv_wr = depth;
		init.cap.max_send_sge = init.cap.max_recv_sge = 1;
		qp = ibv_create_qp(pd, &init);
		mr = ibv_reg_mr(pd, memory.data(), memory.size(), static_cast<int>(rights));
		EXPECT_EQ(modify(IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			  0);
	}

	~Node()
	{
		close();
	}

	void close()
	{
		if (!ctx)
			return;
		EXPECT_EQ(ibv_destroy_qp(qp), 0);
		EXPECT_EQ(ibv_dereg_mr(mr), 0);
		EXPECT_EQ(ibv_destroy_cq(send_cq), 0);
		EXPECT_EQ(ibv_destroy_cq(recv_cq), 0);
		EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
		EXPECT_EQ(ibv_dealloc_pd(pd), 0);
		EXPECT_EQ(ibv_close_device(ctx), 0);
		ctx = nullptr;
	}

	int modify(ibv_qp_state state, int mask = IBV_QP_STATE)
	{
		ibv_qp_attr attr{};
		attr.qp_state = state;
		attr.port_num = 1;
		attr.qp_access_flags = rights;
		return ibv_modify_qp(qp, &attr, mask);
	}

	void to_rts(uint32_t peer)
	{
		bool uc = qp->qp_type == IBV_QPT_UC;
		ibv_qp_attr attr{};
		attr.qp_state = IBV_QPS_RTR;
		attr.ah_attr.is_global = 1;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer;
		attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
		attr.retry_cnt = 6;
		ASSERT_EQ(ibv_modify_qp(qp, &attr, uc ? 0x101181 : 0x129181), 0);
		attr.qp_state = IBV_QPS_RTS;
		ASSERT_EQ(ibv_modify_qp(qp, &attr, uc ? 0x10001 : 0x12e01), 0);
	}

	ibv_sge sge(size_t offset, uint32_t length) const
	{
		return {reinterpret_cast<uintptr_t>(memory.data()) + offset, length, mr->lkey};
	}

	int recv(uint64_t wr_id)
	{
		ibv_sge room = sge(8192, 4096);
		ibv_recv_wr wr{}, *bad;
		wr.wr_id = wr_id;
		wr.sg_list = &room;
		wr.num_sge = 1;
		return ibv_post_recv(qp, &wr, &bad);
	}

	int send(uint64_t wr_id, uint32_t length = 5, ibv_wr_opcode opcode = IBV_WR_SEND, uint64_t remote = 0,
		 uint32_t rkey = 0)
	{
		ibv_sge data = sge(0, length);
		ibv_send_wr wr{}, *bad;
		wr.wr_id = wr_id;
		wr.opcode = opcode;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &data;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
		return ibv_post_send(qp, &wr, &bad);
	}
};

inline void join(Node &a, Node &b)
{
	a.to_rts(b.qp->qp_num);
	b.to_rts(a.qp->qp_num);
}

inline void expect_wc(ibv_cq *cq, uint64_t wr_id, ibv_wc_status status)
{
	ibv_wc wc{};
	EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
	EXPECT_EQ(wc.wr_id, wr_id);
	EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
}
