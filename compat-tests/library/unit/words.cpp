// SPDX-License-Identifier: BSD-2-Clause
// On via_lo threads and the notifier sleep at words in memory. Who wakes one there does not know what it waits for.
//
// The sleeps are long, so a test in which nobody wakes the right thread fails.
#include "long_sleeps.h"
#include "old_kernel.h"
#include "shim.h"
#include "support.h"

#include <atomic>

namespace
{

// Runs until the test says so.
class LongHandler
{
      public:
	static void run(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
	{
		auto *self = static_cast<LongHandler *>(context);
		auto may_return = self->may_return_.get_future();

		self->has_begun_.set_value();
		may_return.wait();
	}
	void await()
	{
		has_begun_.get_future().wait();
	}
	void end()
	{
		may_return_.set_value();
	}

      private:
	std::promise<void> has_begun_, may_return_;
};

class Words : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
	}
	static void count(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
	{
		++*static_cast<std::atomic<int> *>(context);
	}
	static void count_entry(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN)
	{
		++*static_cast<std::atomic<int> *>(context);
	}
	struct Pair {
		Vi from, to;
	};
	// The second one receives into the CQ, or into one of its own.
	Pair pair(size_t number, VIP_CQ_HANDLE cq)
	{
		Pair made = {make_vi(), make_vi(nullptr, cq)};

		connect(made.from, made.to, "words " + std::to_string(number));
		return made;
	}
	void send(const Pair &pair, size_t number)
	{
		posted_receive(pair.to, number, {{memory.data(), 8}});
		expect_sent(pair.from, posted_send(pair.from, 300 + number, {{memory.data(100), 8}}));
	}
	static std::future<VIP_RETURN> wait_for_one(const Vi &vi)
	{
		const unsigned before = long_sleepers();
		auto waited = std::async(std::launch::async, [handle = vi.handle] {
			return recv_wait(handle, VIP_INFINITE).code;
		});

		EXPECT_TRUE(eventually([&] { return long_sleepers() > before; }));
		return waited;
	}
	bool reach(int wanted) const
	{
		return eventually([&] { return called == wanted; });
	}

	const LongSleeps sleeps;
	std::atomic<int> called{0};
};

TEST_F(Words, WakeTheThreadThatWaitsForAQueueOfACqAlthoughOthersSleepThere)
{
	VIP_CQ_HANDLE cq = make_cq(64);
	const Pair one = pair(1, cq), other = pair(2, cq);

	auto first = wait_for_one(one.to), second = wait_for_one(other.to);
	send(other, 0);
	EXPECT_EQ(second.get(), VIP_SUCCESS);
	send(one, 1);
	EXPECT_EQ(first.get(), VIP_SUCCESS);
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

TEST_F(Words, WakeTheThreadThatWaitsForAQueueOfACqAlthoughAHandlerDoes)
{
	VIP_CQ_HANDLE cq = make_cq(64);
	const Pair one = pair(1, cq);

	ASSERT_EQ(VipCQNotify(cq, &called, count_entry), VIP_SUCCESS);
	EXPECT_TRUE(eventually(notifier_sleeps));
	auto first = wait_for_one(one.to);
	send(one, 0);
	EXPECT_EQ(first.get(), VIP_SUCCESS);
	EXPECT_TRUE(reach(1));
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// The first message wakes the notifier, and the second one has to wake the thread while the handler runs.
TEST_F(Words, AreLeftToOthersWhileAHandlerRuns)
{
	const Pair one = pair(1, nullptr);
	LongHandler handler;

	ASSERT_EQ(VipRecvNotify(one.to, &handler, LongHandler::run), VIP_SUCCESS);
	EXPECT_TRUE(eventually(notifier_sleeps));
	auto waited = wait_for_one(one.to);
	shim_agent_hold(nic, true); // it may wake the thread for the first message
	send(one, 0);
	EXPECT_TRUE(eventually([] { return !notifier_sleeps(); }));
	send(one, 1);
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
	shim_agent_hold(nic, false);
	handler.await();
	handler.end();
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// Both messages wake the notifier, which slept there first. The kernel tells it of one. The other one is the thread's.
TEST_F(Words, AreLeftToOthersWhileAHandlerOfAnotherQueueRuns)
{
	const Pair one = pair(1, nullptr), other = pair(2, nullptr);
	LongHandler handler;

	ASSERT_EQ(VipRecvNotify(one.to, &handler, LongHandler::run), VIP_SUCCESS);
	ASSERT_EQ(VipRecvNotify(other.to, &called, count), VIP_SUCCESS);
	EXPECT_TRUE(eventually([] { return notifier_sleeps() == 2; }));
	auto waited = wait_for_one(other.to);
	shim_agent_hold(nic, true); // it would wake the thread, a bit later
	notifier_hold();
	send(other, 0);
	EXPECT_TRUE(eventually(notifier_is_held));
	send(one, 1);
	notifier_go_on(1);
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
	shim_agent_hold(nic, false);
	handler.await();
	handler.end();
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// The kernel lets a thread sleep at 128. For the others the agent calls.
TEST_F(Words, AreFewerThanTheVisWhoseHandlersAreCalled)
{
	constexpr size_t MANY = 140;
	std::vector<Pair> pairs;

	for (size_t i = 0; i < MANY; i++)
		pairs.push_back(pair(i, nullptr));
	for (int round = 1; round <= 2; round++) {
		for (const Pair &each : pairs)
			ASSERT_EQ(VipRecvNotify(each.to, &called, count), VIP_SUCCESS);
		for (size_t i = MANY; i-- > 0;)
			send(pairs[i], i);
		EXPECT_TRUE(reach(round * static_cast<int>(MANY)));
	}
	EXPECT_EQ(sleeps_in_vain(), 0u);
}

// Before Linux 5.16. The agent calls the notifier, which cannot sleep at several words.
class NoWords : public Words
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
	}
	void open_without_words()
	{
		ASSERT_TRUE(refuse_call(449, ENOSYS)); // futex_waitv()
		open("via_lo");
	}
};

TEST_F(NoWords, TheAgentCallsHandlers)
{
	passing_child({}, [this] {
		open_without_words();
		const Pair one = pair(1, nullptr);
		for (int i = 1; i <= 20; i++) {
			ASSERT_EQ(VipRecvNotify(one.to, &called, count), VIP_SUCCESS);
			send(one, 0);
			EXPECT_TRUE(reach(i));
		}
		close();
	});
}

TEST_F(NoWords, TheAgentTakesAMessageThatAHandlerWaitsForWhileAnotherOneRuns)
{
	passing_child({}, [this] {
		open_without_words();
		const Pair one = pair(1, nullptr), other = pair(2, nullptr);
		LongHandler handler;

		ASSERT_EQ(VipRecvNotify(one.to, &handler, LongHandler::run), VIP_SUCCESS);
		ASSERT_EQ(VipRecvNotify(other.to, &called, count), VIP_SUCCESS);
		send(one, 0);
		handler.await();
		await_rest();
		const VIP_DESCRIPTOR *r = posted_receive(other.to, 1, {{memory.data(), 8}});
		posted_send(other.from, 301, {{memory.data(100), 8}}); // it does not poll
		EXPECT_TRUE(eventually([&] { return is_done(r); }));
		EXPECT_EQ(called, 0);
		handler.end();
		EXPECT_TRUE(reach(1));
		close();
	});
}

} // namespace
