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

// Receives are posted again as they came back, and sends change only in the segment. All other
// fields keep what the library has written into them.
TEST_F(Queues, DescriptorsArePostedAgainAsTheyCameBack)
{
	constexpr unsigned ring = 4, messages = 100;
	Pool in(nic, ring, 256), out(nic, 1, 256);
	Vi to(nic), from(nic);
	ASSERT_TRUE(in.postReceives(to, ring, 256));
	ASSERT_TRUE(harness::connect(to, from));
	VIP_DESCRIPTOR *d = out.message(0, 256);
	for (unsigned i = 0; i < messages; i++) {
		VIP_UINT32 length = i % 3 ? (i * 37) % 257 : 0;
		bool immediate = i % 5 == 0;
		paint(out.buffer(0), length, i);
		d->DS[0].Local.Length = length;
		d->CS.Control = VIP_CONTROL_OP_SENDRECV;
		if (immediate)
			setImmediate(d, i);
		ASSERT_TRUE(isSent(from, d, out.handle()));
		VIP_DESCRIPTOR *got = takeReceive(to);
		ASSERT_EQ(in.descriptor(i % ring), got);
		ASSERT_EQ(status(immediate ? VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE
					   : VIP_STATUS_OP_RECEIVE),
			  statusOf(got));
		ASSERT_EQ(length, got->CS.Length) << i;
		ASSERT_TRUE(painted(in.buffer(i % ring), length, i));
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, got, in.handle()));
	}
}

TEST_F(Queues, OneRegionIsWrittenThroughTheHandleThatMayAndReceivedIntoThroughTheOther)
{
	VIP_MEM_ATTRIBUTES mayWrite = memory(nullptr, VIP_TRUE);
	Region closed(nic, 4096);
	VIP_MEM_HANDLE open = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, closed.data(), 4096, &mayWrite, &open));
	Pool pool(nic, 2, 64);
	paint(pool.buffer(0), 64, 1);
	for (bool allowed : {true, false}) {
		Pair pair(nic, writable());
		VIP_DESCRIPTOR *in = pool.empty(1);
		in->CS.SegCount = 1;
		setSegment(in, 0, closed.data() + 1000, 64, allowed ? closed.handle() : open);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_TRUE(pool.send(pair.a, 0, 64));
		ASSERT_TRUE(isReceived(pair.b, in));
		VIP_DESCRIPTOR *d = pool.write(0, 64, closed.data() + (allowed ? 0 : 2000),
					       allowed ? open : closed.handle());
		ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
		EXPECT_EQ(allowed ? 0U : VIP_UINT32{VIP_STATUS_RDMA_PROT_ERROR}, errorOf(d));
		// Data that was written before the end of the connection is there afterwards.
		EXPECT_TRUE(eventually([&] { return painted(closed.data(), 64, 1); }));
		EXPECT_TRUE(untouched(closed.data() + 2000, 64));
	}
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, closed.data(), open));
}

} // namespace
