// SPDX-License-Identifier: BSD-2-Clause
// Completion queues.
#include "harness.h"

#include <map>
#include <memory>

using namespace harness;

namespace
{

class Cq
{
      public:
	explicit Cq(Nic &nic, VIP_ULONG entries = 64)
	{
		EXPECT_EQ(VIP_SUCCESS, VipCreateCQ(nic, entries, &handle_));
	}
	~Cq()
	{
		VipDestroyCQ(handle_);
	}
	Cq(const Cq &) = delete;
	Cq &operator=(const Cq &) = delete;
	operator VIP_CQ_HANDLE() const
	{
		return handle_;
	}

      private:
	VIP_CQ_HANDLE handle_ = nullptr;
};

class CompletionQueue : public NicTest
{
      protected:
	// Asks the CQ and takes the descriptor off the queue that it names. VIA promises that the
	// descriptor is there at once.
	VIP_DESCRIPTOR *takeNamed(VIP_CQ_HANDLE cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *receive)
	{
		*vi = nullptr;
		*receive = 77;
		VIP_RETURN result = VipCQWait(cq, kPatience, vi, receive);
		if (result != VIP_SUCCESS) {
			ADD_FAILURE() << "VipCQWait: " << testing::PrintToString(result);
			return nullptr;
		}
		EXPECT_TRUE(*receive == VIP_TRUE || *receive == VIP_FALSE) << *receive;
		VIP_DESCRIPTOR *d = nullptr;
		result = *receive ? VipRecvDone(*vi, &d) : VipSendDone(*vi, &d);
		EXPECT_TRUE(d) << "the CQ named a queue without a completion: "
			       << testing::PrintToString(result);
		return d;
	}
	void expectEmpty(VIP_CQ_HANDLE cq)
	{
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		EXPECT_EQ(VIP_NOT_DONE, VipCQDone(cq, &vi, &receive));
	}
};

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
			ASSERT_EQ(VIP_SUCCESS,
				  VipPostRecv(*to[v], receives.message(v * messages + m, 64),
					      receives.handle()));
		ASSERT_TRUE(harness::connect(*to[v], *from[v]));
	}
	expectEmpty(cq);
	for (unsigned m = 0; m < messages; m++)
		for (unsigned v = 0; v < vis; v++) {
			VIP_DESCRIPTOR *d = out.message(0, v);
			setImmediate(d, m);
			ASSERT_TRUE(harness::send(*from[v], d, out.handle()));
		}
	for (unsigned i = 0; i < vis * messages; i++) {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		VIP_DESCRIPTOR *d = takeNamed(cq, &vi, &receive);
		ASSERT_TRUE(d) << i;
		EXPECT_EQ(VIP_TRUE, receive);
		ASSERT_EQ(1U, index.count(vi)) << "no such VI";
		EXPECT_EQ(receives.descriptor(index[vi] * messages + seen[vi]), d);
		EXPECT_EQ(seen[vi]++, d->CS.ImmediateData);
		EXPECT_EQ(index[vi], d->CS.Length);
	}
	expectEmpty(cq);
	for (auto &vi : to) {
		EXPECT_EQ(messages, seen[*vi]);
		VIP_DESCRIPTOR *d;
		EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipRecvDone(*vi, &d));
	}
}

TEST_F(CompletionQueue, OfOneEntryKeepsAThousandUncollectedCompletions)
{
	constexpr unsigned count = 1000;
	Pool receives(nic, count, 4), out(nic, 1, 4);
	Cq cq(nic, 1);
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, receives.message(i, 4), receives.handle()));
	ASSERT_TRUE(harness::connect(to, from));
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *d =
			harness::send(from, out.message(0, 4), out.handle(), Mode::Polling);
		ASSERT_TRUE(d);
		ASSERT_EQ(status(VIP_STATUS_OP_SEND), statusOf(d)) << i;
	}
	for (unsigned i = 0; i < count; i++) {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		ASSERT_EQ(receives.descriptor(i), takeNamed(cq, &vi, &receive)) << i;
		ASSERT_EQ(0U, errorOf(receives.descriptor(i)));
	}
	expectEmpty(cq);
	EXPECT_EQ(VIP_STATE_CONNECTED, to.state());
}

TEST_F(CompletionQueue, WaitTimesOutAfterTheAskedTime)
{
	Cq cq(nic);
	Vi vi(nic, reliable(), cq, cq);
	for (VIP_ULONG timeout : {200UL, 700UL}) {
		VIP_VI_HANDLE named;
		VIP_BOOLEAN receive;
		EXPECT_TRUE(takesAbout(static_cast<double>(timeout), [&] {
			EXPECT_EQ(VIP_TIMEOUT, VipCQWait(cq, timeout, &named, &receive));
		}));
	}
}

TEST_F(CompletionQueue, WaitWithTimeoutZeroLooksOnce)
{
	Cq cq(nic);
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN receive;
	EXPECT_TRUE(takesAbout(
		0, [&] { EXPECT_EQ(VIP_TIMEOUT, VipCQWait(cq, 0, &vi, &receive)); }));
}

TEST_F(CompletionQueue, WaitIsWokenByACompletionThatComesLater)
{
	Pool pool(nic, 2, 64);
	Cq cq(nic);
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	ASSERT_TRUE(harness::connect(to, from));
	for (VIP_ULONG forever : {VIP_ULONG{0xFFFFFFFF}, ~VIP_ULONG{0}}) {
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, pool.message(0, 64), pool.handle()));
		Thread later([&] {
			letTimePass(100);
			EXPECT_TRUE(harness::send(from, pool.message(1, 64), pool.handle()));
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

TEST_F(CompletionQueue, SendAndReceiveQueueOnTheSameCq)
{
	constexpr unsigned count = 8;
	Pool pool(nic, 2 * count, 64);
	Cq cq(nic, 2);
	Vi one(nic, reliable(), cq, cq), other(nic, reliable(), cq, cq);
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(other, pool.message(i, 64), pool.handle()));
	ASSERT_TRUE(harness::connect(other, one));
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(one, pool.message(count + i, i), pool.handle()));
	unsigned sent = 0, received = 0;
	for (unsigned i = 0; i < 2 * count; i++) {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		VIP_DESCRIPTOR *d = takeNamed(cq, &vi, &receive);
		ASSERT_TRUE(d);
		EXPECT_EQ(receive ? VIP_VI_HANDLE{other} : VIP_VI_HANDLE{one}, vi);
		EXPECT_EQ(receive ? pool.descriptor(received++) : pool.descriptor(count + sent++),
			  d);
	}
	EXPECT_EQ(count, sent);
	EXPECT_EQ(count, received);
	expectEmpty(cq);
}

TEST_F(CompletionQueue, OnTheSendQueueOnly)
{
	Pool pool(nic, 3, 64);
	Cq cq(nic);
	Vi one(nic, reliable(), cq, nullptr), other(nic);
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(one, pool.message(0, 64), pool.handle()));
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(other, pool.message(1, 64), pool.handle()));
	ASSERT_TRUE(harness::connect(other, one));
	ASSERT_TRUE(harness::send(other, pool.message(2, 64), pool.handle()));
	ASSERT_EQ(pool.descriptor(0), takeReceive(one));
	expectEmpty(cq);
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(one, pool.message(2, 64), pool.handle()));
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN receive;
	EXPECT_EQ(pool.descriptor(2), takeNamed(cq, &vi, &receive));
	EXPECT_EQ(one, vi);
	EXPECT_EQ(VIP_FALSE, receive);
	expectEmpty(cq);
}

TEST_F(CompletionQueue, OnTheReceiveQueueOnly)
{
	Pool pool(nic, 2, 64);
	Cq cq(nic);
	Vi one(nic, reliable(), nullptr, cq), other(nic, reliable(), nullptr, cq);
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(one, pool.message(0, 64), pool.handle()));
	ASSERT_TRUE(harness::connect(other, one));
	ASSERT_TRUE(harness::send(other, pool.message(1, 64), pool.handle()));
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN receive;
	EXPECT_EQ(pool.descriptor(0), takeNamed(cq, &vi, &receive));
	EXPECT_EQ(one, vi);
	EXPECT_EQ(VIP_TRUE, receive);
	expectEmpty(cq);
}

TEST_F(CompletionQueue, FlushedDescriptorsAreNamedToo)
{
	Pool pool(nic, 4, 64);
	Cq cq(nic);
	Vi one(nic, reliable(), cq, cq), other(nic);
	for (unsigned i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(one, pool.message(i, 64), pool.handle()));
	ASSERT_TRUE(harness::connect(other, one));
	ASSERT_EQ(VIP_SUCCESS, VipDisconnect(one));
	ASSERT_EQ(VIP_SUCCESS, VipPostSend(one, pool.message(3, 64), pool.handle()));
	unsigned receives = 0, sends = 0;
	for (unsigned i = 0; i < 4; i++) {
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		VIP_DESCRIPTOR *d = takeNamed(cq, &vi, &receive);
		ASSERT_TRUE(d);
		EXPECT_EQ(VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR}, errorOf(d)) << statusOf(d);
		EXPECT_EQ(receive ? pool.descriptor(receives) : pool.descriptor(3), d);
		++(receive ? receives : sends);
	}
	EXPECT_EQ(3U, receives);
	EXPECT_EQ(1U, sends);
	expectEmpty(cq);
}

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

TEST_F(CompletionQueue, EntriesOfADestroyedViAreDropped)
{
	Pool pool(nic, 3, 64);
	Cq cq(nic);
	{
		Vi to(nic, reliable(), nullptr, cq), from(nic);
		for (unsigned i = 0; i < 2; i++)
			ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, pool.message(i, 64), pool.handle()));
		ASSERT_TRUE(harness::connect(to, from));
		ASSERT_TRUE(harness::send(from, pool.message(2, 64), pool.handle()));
	}
	expectEmpty(cq);
}

TEST_F(CompletionQueue, ResizeKeepsTheEntries)
{
	constexpr unsigned count = 20;
	Pool pool(nic, count + 1, 64);
	Cq cq(nic, 32);
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	for (unsigned i = 0; i < count; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(to, pool.message(i, 64), pool.handle()));
	ASSERT_TRUE(harness::connect(to, from));
	for (unsigned i = 0; i < count; i++)
		ASSERT_TRUE(harness::send(from, pool.message(count, 64), pool.handle()));
	EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 1024));
	for (unsigned i = 0; i < count; i++) {
		if (i == 5) {
			EXPECT_EQ(VIP_SUCCESS, VipResizeCQ(cq, 1));
		}
		VIP_VI_HANDLE vi;
		VIP_BOOLEAN receive;
		ASSERT_EQ(pool.descriptor(i), takeNamed(cq, &vi, &receive)) << i;
	}
	expectEmpty(cq);
}

TEST_F(CompletionQueue, NotifyOnAQueueThatIsOnACqIsRefused)
{
	Cq cq(nic);
	Vi vi(nic, reliable(), cq, cq);
	auto handler = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {};
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipSendNotify(vi, nullptr, handler));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipRecvNotify(vi, nullptr, handler));
}

} // namespace
