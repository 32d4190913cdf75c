// SPDX-License-Identifier: BSD-2-Clause
// Completion queues.
#include "harness.h"

#include <algorithm>
#include <map>
#include <memory>

using namespace harness;

namespace
{

using CompletionQueue = NicTest;

// [functional: VipCreateCQ VipCQWait VipCQDone] A completion queue names the queue of each completion once; that
// queue's head is done then.
TEST_F(CompletionQueue, OverEightVisNamesEachCompletionOnceInOrderWithinAQueue)
{
	constexpr unsigned vis = 8, messages = 16;
	Pool receives(nic, vis * messages, 64), out(nic, 1, 64);
	Cq cq(nic);
	std::vector<std::unique_ptr<Vi>> to, from;
	std::map<VIP_VI_HANDLE, unsigned> seen, index;
	for (unsigned v = 0; v < vis; v++) {
		to.push_back(std::make_unique<Vi>(nic, reliable(), nullptr, cq));
		from.push_back(std::make_unique<Vi>(nic));
		index[*to[v]] = v;
		for (unsigned m = 0; m < messages; m++)
			ASSERT_TRUE(receives.postReceive(*to[v], v * messages + m, 64));
		ASSERT_TRUE(harness::connect(*to[v], *from[v]));
	}
	EXPECT_TRUE(cq.isEmpty());
	for (unsigned m = 0; m < messages; m++)
		for (unsigned v = 0; v < vis; v++) {
			VIP_DESCRIPTOR *d = setImmediate(out.message(0, v), m);
			ASSERT_TRUE(harness::send(*from[v], d, out.handle()));
		}
	for (unsigned i = 0; i < vis * messages; i++) {
		auto [vi, receive, d] = cq.take();
		ASSERT_TRUE(d) << i;
		EXPECT_EQ(VIP_TRUE, receive);
		ASSERT_EQ(1U, index.count(vi)) << "no such VI";
		EXPECT_EQ(receives.descriptor(index[vi] * messages + seen[vi]), d);
		EXPECT_EQ(seen[vi]++, d->CS.ImmediateData);
		EXPECT_EQ(index[vi], d->CS.Length);
	}
	EXPECT_TRUE(cq.isEmpty());
	for (auto &vi : to) {
		EXPECT_EQ(messages, seen[*vi]);
		expectNone(VIP_DESCRIPTOR_ERROR, VipRecvDone, *vi);
	}
}

// The library has seen the completions before the first question, or has not.
// [functional: VipCreateCQ VipCQWait] No completion of as many descriptors as a queue takes is lost, however small the
// completion queue was asked to be.
TEST_F(CompletionQueue, OfOneEntryKeepsAThousandUncollectedCompletions)
{
	auto count = static_cast<unsigned>(std::min<VIP_ULONG>(nic.attributes().MaxDescriptorsPerQueue, 4096));
	ASSERT_GE(count, 1000U);
	for (bool seen : {true, false}) {
		Pool receives(nic, count, 4), out(nic, 1, 4);
		Cq cq(nic, 1);
		Vi to(nic, reliable(), nullptr, cq), from(nic);
		ASSERT_TRUE(receives.postReceives(to, count, 4));
		ASSERT_TRUE(harness::connect(to, from));
		for (unsigned i = 0; i < count; i++)
			ASSERT_TRUE(isSent(from, out.message(0, 4), out.handle(), VIP_STATUS_OP_SEND, Mode::Polling))
				<< i;
		if (seen) {
			ASSERT_TRUE(isDoneWhenAsked(to, receives.descriptor(count - 1)));
		}
		for (unsigned i = 0; i < count; i++) {
			ASSERT_EQ(receives.descriptor(i), cq.take().descriptor) << i;
			ASSERT_EQ(0U, errorOf(receives.descriptor(i)));
		}
		EXPECT_TRUE(cq.isEmpty());
		EXPECT_EQ(VIP_STATE_CONNECTED, to.state());
	}
}

// [functional: VipCQWait] A wait ends with a timeout when the asked time is over, and does not block if that is zero.
TEST_F(CompletionQueue, WaitTimesOutAfterTheAskedTime)
{
	Cq cq(nic);
	Vi vi(nic, reliable(), cq, cq);
	for (VIP_ULONG timeout : {0UL, 200UL, 700UL}) {
		VIP_VI_HANDLE named;
		VIP_BOOLEAN receive;
		EXPECT_TRUE(takesAbout(static_cast<double>(timeout),
				       [&] { EXPECT_EQ(VIP_TIMEOUT, VipCQWait(cq, timeout, &named, &receive)); }));
	}
}

// [functional: VipCQWait] A completion ends a wait.
TEST_F(CompletionQueue, WaitIsWokenByACompletionThatComesLater)
{
	Pool pool(nic, 2, 64);
	Cq cq(nic);
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	ASSERT_TRUE(harness::connect(to, from));
	for (VIP_ULONG forever : {VIP_ULONG{0xFFFFFFFF}, ~VIP_ULONG{0}}) {
		ASSERT_TRUE(pool.postReceive(to, 0, 64));
		Thread later([&] {
			letTimePass(100);
			EXPECT_TRUE(pool.send(from, 1, 64));
		});
		VIP_VI_HANDLE vi = nullptr;
		VIP_BOOLEAN receive = VIP_FALSE;
		EXPECT_EQ(VIP_SUCCESS, VipCQWait(cq, forever, &vi, &receive));
		later.join();
		EXPECT_EQ(to, vi);
		EXPECT_EQ(VIP_TRUE, receive);
		ASSERT_EQ(pool.descriptor(0), takeReceive(to, Mode::Polling));
	}
}

// [functional: VipCQWait VipCreateVi] Both queues of a VI may be on one completion queue, which says for each
// completion which queue it is.
TEST_F(CompletionQueue, SendAndReceiveQueueOnTheSameCq)
{
	constexpr unsigned count = 8;
	Pool pool(nic, 2 * count, 64);
	Cq cq(nic, 2);
	Vi one(nic, reliable(), cq, cq), other(nic, reliable(), cq, cq);
	ASSERT_TRUE(pool.postReceives(other, count, 64));
	ASSERT_TRUE(harness::connect(other, one));
	for (unsigned i = 0; i < count; i++)
		ASSERT_TRUE(pool.postSend(one, count + i, i));
	unsigned sent = 0, received = 0;
	for (unsigned i = 0; i < 2 * count; i++) {
		auto [vi, receive, d] = cq.take();
		ASSERT_TRUE(d);
		EXPECT_EQ(receive ? VIP_VI_HANDLE{other} : VIP_VI_HANDLE{one}, vi);
		EXPECT_EQ(receive ? pool.descriptor(received++) : pool.descriptor(count + sent++), d);
	}
	EXPECT_EQ(count, sent);
	EXPECT_EQ(count, received);
	EXPECT_TRUE(cq.isEmpty());
}

// [functional: VipCreateVi VipCQWait VipCQDone] A VI may have its send queue alone, or its receive queue alone, on a
// completion queue.
TEST_F(CompletionQueue, OnOneQueueOnly)
{
	for (bool onReceives : {false, true}) {
		Pool pool(nic, 4, 64);
		Cq cq(nic);
		Vi one(nic, reliable(), onReceives ? nullptr : VIP_CQ_HANDLE{cq},
		       onReceives ? VIP_CQ_HANDLE{cq} : nullptr),
			other(nic);
		auto expectNamed = [&](VIP_DESCRIPTOR *d) {
			Named named = cq.take();
			EXPECT_EQ(d, named.descriptor);
			EXPECT_EQ(one, named.vi);
			EXPECT_EQ(onReceives ? VIP_TRUE : VIP_FALSE, named.receive);
		};
		ASSERT_TRUE(pool.postReceive(one, 0, 64));
		ASSERT_TRUE(pool.postReceive(other, 1, 64));
		ASSERT_TRUE(harness::connect(other, one));
		ASSERT_TRUE(pool.send(other, 2, 64));
		if (onReceives)
			expectNamed(pool.descriptor(0));
		else
			ASSERT_TRUE(isReceived(one, pool.descriptor(0)));
		EXPECT_TRUE(cq.isEmpty());
		ASSERT_TRUE(pool.postSend(one, 3, 64));
		if (onReceives)
			ASSERT_TRUE(isDone(one, pool.descriptor(3)));
		else
			expectNamed(pool.descriptor(3));
		EXPECT_TRUE(cq.isEmpty());
	}
}

// [functional: VipCQWait VipDisconnect] Flushed descriptors are completions like all others.
TEST_F(CompletionQueue, FlushedDescriptorsAreNamedToo)
{
	Pool pool(nic, 4, 64);
	Cq cq(nic);
	Vi one(nic, reliable(), cq, cq), other(nic);
	ASSERT_TRUE(pool.postReceives(one, 3, 64));
	ASSERT_TRUE(harness::connect(other, one));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(one));
	ASSERT_TRUE(pool.postSend(one, 3, 64));
	unsigned receives = 0, sends = 0;
	for (unsigned i = 0; i < 4; i++) {
		auto [vi, receive, d] = cq.take();
		ASSERT_TRUE(d);
		EXPECT_EQ(VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR}, errorOf(d)) << statusOf(d);
		EXPECT_EQ(receive ? pool.descriptor(receives) : pool.descriptor(3), d);
		++(receive ? receives : sends);
	}
	EXPECT_EQ(3U, receives);
	EXPECT_EQ(1U, sends);
	EXPECT_TRUE(cq.isEmpty());
}

// [functional: VipCQWait VipCQDone VipDestroyVi] Completions of a destroyed VI are no longer named. Those of other VIs
// are still named, in their order.
TEST_F(CompletionQueue, OthersStayWhenAViIsDestroyed)
{
	constexpr unsigned messages = 4;
	for (bool seen : {true, false}) {
		Cq cq(nic, 1024);
		Vi to(nic, reliable(), nullptr, cq), from(nic);
		Pool in(nic, messages, 16), lost(nic, messages + 1, 16), out(nic, 1, 16);
		ASSERT_TRUE(harness::connect(to, from));
		{
			Vi gone(nic, reliable(), nullptr, cq), other(nic);
			ASSERT_TRUE(harness::connect(gone, other));
			ASSERT_TRUE(lost.postReceives(gone, messages + 1, 16)); // one of them stays posted
			for (unsigned i = 0; i < messages; i++) {
				ASSERT_TRUE(in.postReceive(to, i, 16));
				ASSERT_TRUE(out.send(from, 0, 16));
				ASSERT_TRUE(out.send(other, 0, 16));
				ASSERT_TRUE(!seen || isDoneWhenAsked(to, in.descriptor(i)));
				ASSERT_TRUE(!seen || isDoneWhenAsked(gone, lost.descriptor(i)));
			}
		}
		for (unsigned i = 0; i < messages; i++)
			ASSERT_EQ(in.descriptor(i), cq.take().descriptor) << i;
		EXPECT_TRUE(cq.isEmpty());
	}
}

// [functional: VipDestroyCQ] A completion queue cannot be destroyed while a VI uses it.
TEST_F(CompletionQueue, DestroyFailsWhileAViUsesIt)
{
	VIP_CQ_HANDLE cq = makeCq(nic, 1);
	{
		Vi sends(nic, reliable(), cq, nullptr);
		EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
	}
	{
		Vi receives(nic, reliable(), nullptr, cq);
		EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyCQ(cq));
	}
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
}

// [full: VipResizeCQ VipCQWait] Resizing a completion queue loses no completion.
TEST_F(CompletionQueue, ResizeKeepsTheEntries)
{
	constexpr unsigned count = 20;
	Pool pool(nic, count + 1, 64);
	Cq cq(nic, 32);
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	ASSERT_TRUE(pool.postReceives(to, count, 64));
	ASSERT_TRUE(harness::connect(to, from));
	for (unsigned i = 0; i < count; i++)
		ASSERT_TRUE(pool.send(from, count, 64));
	EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 1024));
	for (unsigned i = 0; i < count; i++) {
		if (i == 5) {
			EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 1));
		}
		ASSERT_EQ(pool.descriptor(i), cq.take().descriptor) << i;
	}
	EXPECT_TRUE(cq.isEmpty());
}

// [functional: VipSendNotify VipRecvNotify] A queue that is on a completion queue has no handler of its own.
TEST_F(CompletionQueue, NotifyOnAQueueThatIsOnACqIsRefused)
{
	Cq cq(nic);
	Vi vi(nic, reliable(), cq, cq);
	auto handler = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {};
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipSendNotify(vi, nullptr, handler));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipRecvNotify(vi, nullptr, handler));
}

} // namespace
