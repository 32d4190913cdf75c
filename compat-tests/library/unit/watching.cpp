// SPDX-License-Identifier: BSD-2-Clause
// VIPL_PROGRESS=on, and a program that watches its descriptors in memory and makes no call.
#include "settings.h"
#include "support.h"

namespace
{

class Watching : public NicTest
{
      protected:
	const Setting progress{&config::progress, 1};

	static bool becomes(const VIP_DESCRIPTOR *descriptor, VIP_UINT32 status)
	{
		return eventually([&] {
			return __atomic_load_n(&descriptor->CS.Status, __ATOMIC_ACQUIRE) == (status | VIP_STATUS_DONE);
		});
	}
	// Sends one message. Both sides see its completion in memory.
	void expect_seen(Vi &from, Vi &to, size_t number)
	{
		VIP_DESCRIPTOR *r = posted_receive(to, number, {{memory.data(), 8}});
		VIP_DESCRIPTOR *s = posted_send(from, number + 1, {{memory.data(100), 8}});

		EXPECT_TRUE(becomes(s, VIP_STATUS_OP_SEND));
		EXPECT_TRUE(becomes(r, VIP_STATUS_OP_RECEIVE));
		expect_sent(from, s);
		expect_received(to, r);
	}
};

TEST_F(Watching, SendsAndReceivesOfAVipCqAreDoneWithoutACall)
{
	open();
	VIP_CQ_HANDLE cq = make_cq(10);
	make_pair(cq, cq);
	VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 8}}), *s = posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_TRUE(becomes(s, VIP_STATUS_OP_SEND));
	EXPECT_TRUE(becomes(r, VIP_STATUS_OP_RECEIVE));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(cq_done(cq).code, VIP_SUCCESS);
	EXPECT_EQ(cq_done(cq).code, VIP_NOT_DONE);
	expect_sent(a, s);
	expect_received(b, r);
}

// There are fewer channels than CQs.
TEST_F(Watching, SoAreThoseOfManyVisWithoutACommonCq)
{
	constexpr size_t PAIRS = 40;
	std::vector<std::pair<Vi, Vi>> pairs(PAIRS);

	open();
	for (size_t i = 0; i < PAIRS; i++) {
		pairs[i] = {make_vi(), make_vi()};
		connect(pairs[i].first, pairs[i].second, "pair " + std::to_string(i));
	}
	for (size_t i = 0; i < PAIRS; i++)
		expect_seen(pairs[i].first, pairs[i].second, 2 * i);
}

TEST_F(Watching, AnErrorThatOnlyACompletionTellsBreaksTheVi)
{
	open();
	make_pair();
	VIP_DESCRIPTOR *s = posted_send(a, 0, {{memory.data(), 8}}); // b has no receive
	EXPECT_TRUE(becomes(s, VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR));
	EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
}

TEST_F(Watching, ACqThatCouldNotBeArmedIsArmedLater)
{
	open();
	fake_fail_always("ibv_req_notify_cq", ENOMEM);
	make_pair();
	fake_fail_always("ibv_req_notify_cq", 0);
	expect_seen(a, b, 0);
}

// This holds once the agent has armed the CQ. The thread that posts takes the completion, and no thread is woken for
// it.
TEST_F(Watching, OnTheLoopbackDeviceASendIsDoneWhenItIsPosted)
{
	size_t number = 0;

	open("via_lo");
	make_pair();
	auto is_done_at_once = [&] {
		VIP_DESCRIPTOR *r = posted_receive(b, number++ % 64, {{memory.data(), 8}});
		VIP_DESCRIPTOR *s = posted_send(a, number++ % 64, {{memory.data(100), 8}});

		bool at_once = is_done(s);
		EXPECT_TRUE(becomes(s, VIP_STATUS_OP_SEND));
		EXPECT_TRUE(becomes(r, VIP_STATUS_OP_RECEIVE));
		expect_sent(a, s);
		expect_received(b, r);
		return at_once;
	};
	ASSERT_TRUE(eventually(is_done_at_once));
	for (int i = 0; i < 100; i++)
		EXPECT_TRUE(is_done_at_once()) << i;
}

} // namespace
