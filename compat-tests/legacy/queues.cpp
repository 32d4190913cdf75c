// SPDX-License-Identifier: BSD-2-Clause
// Habits of using queues and descriptors.
#include "harness.h"

#include <memory>
#include <vector>

using namespace harness;

namespace
{

using Queues = NicTest;

// The descriptor of the queue that the CQ names must be there at the first look.
testing::AssertionResult pollTake(Cq &cq, VIP_BOOLEAN wanted)
{
	Named named = cq.take(Mode::Polling);
	if (named.descriptor && !errorOf(named.descriptor) && named.receive == wanted)
		return testing::AssertionSuccess();
	return testing::AssertionFailure() << named.receive << ", and not " << wanted;
}

TEST_F(Queues, WhatCqDoneNamesIsDoneAtTheFirstLook)
{
	constexpr unsigned vis = 4, messages = 50;
	Pool in(nic, vis * messages, 64), out(nic, vis, 64);
	Cq received(nic, 1), sent(nic, 2);
	std::vector<std::unique_ptr<Vi>> to, from;
	for (unsigned v = 0; v < vis; v++) {
		to.push_back(std::make_unique<Vi>(nic, reliable(), nullptr, received));
		from.push_back(std::make_unique<Vi>(nic, reliable(), sent, nullptr));
		for (unsigned m = 0; m < messages; m++)
			ASSERT_TRUE(in.postReceive(*to[v], v * messages + m, 64));
		ASSERT_TRUE(harness::connect(*to[v], *from[v]));
	}
	Thread sender([&] {
		for (unsigned m = 0; m < messages; m++) {
			for (unsigned v = 0; v < vis; v++)
				ASSERT_TRUE(out.postSend(*from[v], v, 64));
			for (unsigned v = 0; v < vis; v++)
				ASSERT_TRUE(pollTake(sent, VIP_FALSE));
		}
	});
	for (unsigned i = 0; i < vis * messages; i++)
		ASSERT_TRUE(pollTake(received, VIP_TRUE)) << i;
}

TEST_F(Queues, OneThatIsOnACqMayBeLookedAtAndWaitedForItself)
{
	Pool pool(nic, 3, 64);
	Cq cq(nic, 8);
	Vi to(nic, reliable(), nullptr, cq), from(nic, reliable(), cq, nullptr);
	ASSERT_TRUE(pool.postReceives(to, 2, 64));
	ASSERT_TRUE(harness::connect(to, from));
	VIP_DESCRIPTOR *d = nullptr;
	EXPECT_EQ(VIP_TIMEOUT, VipRecvWait(to, 1, &d));
	for (Mode mode : {Mode::Waiting, Mode::Polling}) {
		ASSERT_TRUE(pool.postSend(from, 2, 64));
		ASSERT_EQ(pool.descriptor(mode == Mode::Polling), takeReceive(to, mode));
		ASSERT_EQ(pool.descriptor(2), takeSend(from, mode));
	}
}

} // namespace
