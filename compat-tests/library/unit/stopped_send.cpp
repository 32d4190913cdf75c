// SPDX-License-Identifier: BSD-2-Clause
// A thread that stops amid a send on via_lo, by a debugger or because another one has the processor. Its message is
// published, and the send is not done. It has its place in the order of the CQ, so what completes after it waits for it.
// Whoever waits for that sleeps, and is woken when the send is done.
#include <atomic>

#include "long_sleeps.h"
#include "shim.h"
#include "support.h"

struct loopback_endpoint;
struct lane_message;
struct device_send;

namespace
{

std::function<void()> amid; // called once, in the next send
std::atomic<bool> is_set{false};

} // namespace

extern "C" {
// The linker has all calls of send_publish() come here.
void __real_send_publish(loopback_endpoint *, lane_message *, int kind, uint32_t length, const device_send *);
void __wrap_send_publish(loopback_endpoint *endpoint, lane_message *message, int kind, uint32_t length,
			 const device_send *send)
{
	__real_send_publish(endpoint, message, kind, length, send);
	if (is_set.exchange(false))
		amid();
}
}

namespace
{

class StoppedSend : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open("via_lo");
		cq = make_cq(64);
		make_pair(cq, nullptr); // their sends complete there
		other = make_vi(nullptr, cq);
		to_other = make_vi();
		connect(to_other, other, "other");
		while (cq_wait(cq, 100).code == VIP_SUCCESS)
			;
	}
	void TearDown() override
	{
		go_on();
		NicTest::TearDown();
	}
	// Has a thread stop amid a send of a.
	void stop()
	{
		std::promise<void> stopped;

		posted_receive(b, 0, {{memory.data(), 64}});
		// Two segments, because this does not concern the shortest way.
		VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}, {memory.data(200), 8}});
		amid = [&, goes_on = may_go_on.get_future().share()] {
			stopped.set_value();
			goes_on.wait();
		};
		is_set = true;
		posted = std::async(std::launch::async, [=] { return post_send(a, s); });
		stopped.get_future().wait();
	}
	void go_on()
	{
		if (!posted.valid())
			return;
		may_go_on.set_value();
		EXPECT_EQ(posted.get(), VIP_SUCCESS);
	}
	// A message that completes after the send.
	void send_to_other()
	{
		posted_receive(other, 2, {{memory.data(300), 64}});
		expect_sent(to_other, posted_send(to_other, 3, {{memory.data(400), 8}}));
	}

	static constexpr VIP_ULONG kWait = 300;
	static constexpr unsigned kFew = 10; // the agent may come in between
	VIP_CQ_HANDLE cq = nullptr;
	Vi other, to_other;
	std::promise<void> may_go_on;
	std::future<VIP_RETURN> posted;
};

TEST_F(StoppedSend, IsWaitedForAsleep)
{
	stop();
	const unsigned before = sleeps_begun();
	EXPECT_EQ(cq_wait(cq, kWait).code, VIP_TIMEOUT);
	send_to_other();
	EXPECT_EQ(cq_wait(cq, kWait).code, VIP_TIMEOUT) << "the message comes after the send";
	EXPECT_LE(sleeps_begun() - before, kFew);
}

TEST_F(StoppedSend, IsWaitedForAsleepAlsoByWhoWantsOneQueue)
{
	stop();
	const unsigned before = sleeps_begun();
	EXPECT_EQ(recv_wait(other, kWait).code, VIP_TIMEOUT);
	send_to_other();
	EXPECT_EQ(recv_wait(other, kWait).code, VIP_TIMEOUT);
	EXPECT_LE(sleeps_begun() - before, kFew);
}

TEST_F(StoppedSend, IsWaitedForAsleepAlsoByAHandlerWhichIsCalledThen)
{
	static std::atomic<int> called;

	called = 0;
	stop();
	const unsigned before = shim_cq_announced(cq);
	ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) { called++; }), VIP_SUCCESS);
	EXPECT_EQ(recv_wait(to_other, kWait).code, VIP_TIMEOUT); // meanwhile
	EXPECT_LE(shim_cq_announced(cq) - before, kFew);
	EXPECT_EQ(called, 0);
	go_on();
	EXPECT_TRUE(eventually([] { return called == 1; }));
}

TEST_F(StoppedSend, WakesWhoWaitsWhenItIsDone)
{
	LongSleeps last;

	stop();
	auto waited = std::async(std::launch::async, [this] { return cq_wait(cq, VIP_INFINITE); });
	ASSERT_TRUE(eventually([] { return long_sleepers() == 1; }));
	go_on();
	const auto [code, vi, is_receive] = waited.get();
	EXPECT_EQ(code, VIP_SUCCESS);
	EXPECT_EQ(vi, a.handle);
	EXPECT_FALSE(is_receive);
	EXPECT_EQ(sleeps_in_vain(), 0U);
}

// The message itself wakes nobody who can take it.
TEST_F(StoppedSend, WakesWhoWaitsForWhatComesAfterIt)
{
	LongSleeps last;

	stop();
	auto first = std::async(std::launch::async, [this] { return recv_wait(other).code; });
	auto second = std::async(std::launch::async, [this] { return cq_wait(cq).code; });
	ASSERT_TRUE(eventually([] { return long_sleepers() == 2; }));
	send_to_other();
	ASSERT_TRUE(eventually([] { return long_sleepers() == 2; }));
	go_on();
	EXPECT_EQ(first.get(), VIP_SUCCESS);
	EXPECT_EQ(second.get(), VIP_SUCCESS);
	EXPECT_EQ(send_done(a).code, VIP_SUCCESS);
	EXPECT_EQ(sleeps_in_vain(), 0U);
}

} // namespace
