/* SPDX-License-Identifier: BSD-2-Clause */
// Two Unreliable VIs, and names for the statuses of their descriptors.
#pragma once

#include "node.h"
#include "line.h"

const VIP_UINT32 LENGTH = VIP_STATUS_LENGTH_ERROR, PROTECTION = VIP_STATUS_PROTECTION_ERROR,
		 FLUSHED = VIP_STATUS_DESC_FLUSHED_ERROR, WRITE = VIP_STATUS_OP_RDMA_WRITE;
const VIP_UINT32 WRITTEN = VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE;

class Unreliable : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
	}
	void start()
	{
		open();
		make_pair();
	}
	// Posts receives 0 .. count - 1 at b, of 8 bytes each.
	void post_receives(size_t count)
	{
		for (size_t i = 0; i < count; i++)
			receives.push_back(posted_receive(b, i, {{memory.data(8 * i), 8}}));
	}
	VIP_DESCRIPTOR *message(size_t bytes)
	{
		return descriptor(100, {{memory.data(1000), bytes}});
	}
	void send(Vi &from, size_t bytes)
	{
		VIP_DESCRIPTOR *s = message(bytes);
		ASSERT_EQ(post_send(from, s), VIP_SUCCESS);
		expect_sent(from, s);
	}
	void expect_unharmed()
	{
		EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
		expect_traffic(a, b);
	}
	void expect_lost(Vi &vi)
	{
		expect_state(vi, VIP_STATE_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, vi));
	}
	std::vector<VIP_DESCRIPTOR *> receives;
};
