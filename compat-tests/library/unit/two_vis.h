/* SPDX-License-Identifier: BSD-2-Clause */
// Two VIs that are not connected, each with a receive that is posted.
#pragma once

#include "support.h"

class TwoVis : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		a = make_vi();
		b = make_vi();
		d = descriptor(0, {{memory.data(), 64}});
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
		e = descriptor(1, {{memory.data(64), 64}});
		ASSERT_EQ(post_recv(b, e), VIP_SUCCESS);
	}
	// Sends a message each way, into these receives.
	void expect_messages()
	{
		VIP_DESCRIPTOR *s = posted_send(a, 2, {{memory.data(128), 8}});
		expect_sent(a, s);
		expect_received(b, e);
		EXPECT_EQ(e->CS.Length, 8U);
		ASSERT_EQ(post_send(b, s), VIP_SUCCESS);
		expect_sent(b, s);
		expect_received(a, d);
	}
	std::future<VIP_RETURN> request_once(const std::string &door)
	{
		return std::async(std::launch::async, [=] { return request(a, door, PATIENCE); });
	}
	// Checks that the VIs are IDLE, and that they connect and work, with these receives, which are posted again.
	void expect_works()
	{
		fake_forget_faults();
		expect_state(a, VIP_STATE_IDLE);
		expect_state(b, VIP_STATE_IDLE);
		connect(a, b, "again");
		expect_messages();
		disconnect_pair();
		ASSERT_EQ(post_recv(a, d), VIP_SUCCESS);
		ASSERT_EQ(post_recv(b, e), VIP_SUCCESS);
	}
	VIP_DESCRIPTOR *d = nullptr, *e = nullptr; // receives of a, of b
};
