// SPDX-License-Identifier: BSD-2-Clause
// Handlers of completion queues: VipCQNotify.
#include "notify.h"

#include <atomic>
#include <list>

using namespace harness;

namespace
{

class NotifyCq : public NicTest
{
      protected:
	void TearDown() override
	{
		nic.close(); // no handler runs after it
	}
	VIP_RETURN notify()
	{
		return VipCQNotify(cq, &calls, Calls::ofCq);
	}
	// The VI is idle, so the send is done at once, flushed.
	void flushSend(size_t slot)
	{
		ASSERT_TRUE(pool.postSend(vi, slot, 64));
	}
	Cq cq{nic, 16};
	const VIP_VI_HANDLE vi = makeVi(nic, cq);
	Pool pool{nic, 32, 64};
	Calls calls;
};

// [functional: VipCQNotify VipRecvDone VipCQDone] When a completion queue has an entry, and not before, the handler is
// called with its VI and queue on another thread; the entry is taken then, and the descriptor is still there for the
// handler to take.
TEST_F(NotifyCq, TakesTheEntryAndLeavesTheDescriptorToTheHandler)
{
	Vi to(nic, reliable(), nullptr, cq), from(nic);
	ASSERT_TRUE(pool.postReceive(to, 0, 64));
	ASSERT_TRUE(harness::connect(to, from));
	auto work = calls.each([&](const Calls::Call &call) {
		EXPECT_TRUE(cq.isEmpty());
		VIP_DESCRIPTOR *d = nullptr;
		EXPECT_EQ(VIP_SUCCESS, VipRecvDone(call.vi, &d));
		EXPECT_EQ(pool.descriptor(0), d);
	});
	ASSERT_EQ(VIP_SUCCESS, notify());
	EXPECT_FALSE(calls.reach(1, kQuiet)) << "nothing is done yet";
	ASSERT_TRUE(pool.send(from, 1, 64));
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(VIP_NIC_HANDLE{nic}, calls[0].nic);
	EXPECT_EQ(VIP_VI_HANDLE{to}, calls[0].vi);
	EXPECT_TRUE(calls[0].isReceive);
	EXPECT_NE(std::this_thread::get_id(), calls[0].thread);
}

// [functional: VipCQNotify VipSendDone] A handler is called, too, for an entry that was there before it was asked for.
TEST_F(NotifyCq, OfAnEntryThatIsThereAlreadyCallsTheHandlerAtOnce)
{
	flushSend(0);
	ASSERT_EQ(VIP_SUCCESS, notify());
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(vi, calls[0].vi);
	EXPECT_FALSE(calls[0].isReceive);
	EXPECT_TRUE(cq.isEmpty());
	VIP_DESCRIPTOR *d = nullptr;
	EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &d));
	EXPECT_EQ(pool.descriptor(0), d) << "the descriptor is the handler's to take";
}

// [functional: VipCQNotify VipCQDone] Several handlers may wait on a completion queue; they are called in the order of
// asking, for one entry each, and the entries beyond stay.
TEST_F(NotifyCq, SeveralOutstandingServeOneEntryEachInOrder)
{
	constexpr size_t count = 16;
	std::vector<Calls> own(count);
	std::list<Calls::Working> works;
	for (size_t i = 0; i < count; i++) {
		works.emplace_back(own[i], [&, i](const Calls::Call &call) {
			VIP_DESCRIPTOR *d = nullptr;
			EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(call.vi, &d));
			EXPECT_EQ(pool.descriptor(i), d);
		});
		ASSERT_EQ(VIP_SUCCESS, VipCQNotify(cq, &own[i], Calls::ofCq));
	}
	for (size_t i = 0; i < count + 3; i++)
		flushSend(i);
	for (Calls &each : own)
		ASSERT_TRUE(each.reach(1));
	for (size_t i = 0; i < 3; i++) { // VipCQDone gets the other completions
		VIP_VI_HANDLE named;
		VIP_BOOLEAN receive;
		EXPECT_EQ(VIP_SUCCESS, VipCQDone(cq, &named, &receive));
	}
	EXPECT_TRUE(cq.isEmpty());
	for (Calls &each : own)
		EXPECT_EQ(1U, each.count());
}

// [functional: VipCQNotify VipCQWait] A handler and a thread may wait on one completion queue; each entry goes to one
// of them.
TEST_F(NotifyCq, EachEntryGoesEitherToAHandlerOrToAThreadThatTakesItItself)
{
	constexpr unsigned count = 200;
	std::atomic<unsigned> entries{0};
	std::atomic<bool> stop{false};
	auto work = calls.each([&](const Calls::Call &) {
		entries++;
		EXPECT_EQ(VIP_SUCCESS, notify());
	});
	ASSERT_EQ(VIP_SUCCESS, notify());
	Thread waits([&] {
		VIP_VI_HANDLE named;
		VIP_BOOLEAN receive;
		while (!stop)
			if (VipCQWait(cq, 20, &named, &receive) == VIP_SUCCESS)
				entries++;
	});
	for (unsigned i = 0; i < count; i++) {
		VIP_DESCRIPTOR *d = nullptr;
		flushSend(i % 32);
		ASSERT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &d));
	}
	EXPECT_TRUE(eventually([&] { return entries == count; })) << entries;
	stop = true;
	waits.join();
	EXPECT_EQ(count, entries);
}

// [functional: VipCQNotify VipDestroyVi] A destroyed VI's entries call no handler, and use none up.
TEST_F(NotifyCq, EntriesOfADestroyedViCallNobodyAndTheHandlerGoesOnWaiting)
{
	flushSend(0);
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
	ASSERT_EQ(VIP_SUCCESS, notify());
	EXPECT_FALSE(calls.reach(1, kQuiet));
	Vi next(nic, reliable(), cq, nullptr);
	ASSERT_TRUE(pool.postSend(next, 1, 64));
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(VIP_VI_HANDLE{next}, calls[0].vi);
}

// [functional: VipCQNotify VipDestroyCQ] To destroy a completion queue cancels the handlers that wait on it.
TEST_F(NotifyCq, DestroyOfTheCqCancelsWhatIsOutstanding)
{
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, notify());
	ASSERT_EQ(VIP_SUCCESS, VipDestroyVi(vi));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	EXPECT_EQ(VIP_INVALID_PARAMETER, notify());
	EXPECT_FALSE(calls.reach(1, kQuiet));
}

// [functional: VipCQNotify VipDestroyVi] To destroy a VI waits for a completion queue's handler that is about it; none
// about it runs afterwards.
TEST_F(NotifyCq, DestroyOfAViWaitsForAHandlerThatIsAboutIt)
{
	auto ask = [&] {
		for (size_t i = 0; i < 2; i++)
			ASSERT_EQ(VIP_SUCCESS, notify());
		for (size_t i = 0; i < 2; i++)
			flushSend(i);
	};
	expectWaitsForTheHandler(calls, ask, [&] { return VipDestroyVi(vi); });
}

// [functional: VipCQNotify VipDestroyCQ] To destroy a completion queue waits for its handler.
TEST_F(NotifyCq, DestroyOfTheCqWaitsForItsHandler)
{
	auto ask = [&] {
		ASSERT_EQ(VIP_SUCCESS, notify());
		flushSend(0);
	};
	expectWaitsForTheHandler(
		calls, ask, [&] { return VipDestroyCQ(cq); },
		[](const Calls::Call &call) { EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(call.vi)); });
	EXPECT_TRUE(calls.reach(1));
}

// [functional: VipCQNotify VipDestroyVi VipDestroyCQ] A handler may destroy its VI and its completion queue, which
// cancels those that wait there.
TEST_F(NotifyCq, HandlerMayDestroyItsViAndItsCq)
{
	std::atomic<bool> posted{false};
	auto work = calls.each([&](const Calls::Call &call) {
		while (!posted) // both calls run while the VI exists
			std::this_thread::yield();
		EXPECT_EQ(VIP_SUCCESS, VipDestroyVi(call.vi));
		EXPECT_EQ(VIP_SUCCESS, VipDestroyCQ(cq));
	});
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(VIP_SUCCESS, notify());
	flushSend(0);
	flushSend(1);
	posted = true;
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(VIP_INVALID_PARAMETER, notify());
	EXPECT_FALSE(calls.reach(2, kQuiet));
}

// [functional: VipCQNotify VipCloseNic] A completion queue's handler may close its NIC, which cancels those that wait
// there.
TEST_F(NotifyCq, HandlerMayCloseItsNic)
{
	auto work = calls.each([&](const Calls::Call &) { EXPECT_EQ(VIP_SUCCESS, nic.close()); });
	ASSERT_EQ(VIP_SUCCESS, notify());
	ASSERT_EQ(VIP_SUCCESS, notify());
	flushSend(0);
	ASSERT_TRUE(calls.reach(1));
	EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
	EXPECT_FALSE(calls.reach(2, kQuiet));
}

} // namespace
