// SPDX-License-Identifier: BSD-2-Clause
// Threads and handlers that wait: what that costs, what wakes them, and failures of the device or the system.
#include "process.h"

#include <atomic>
#include <poll.h>

namespace
{

class Waiters : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
	}
};

TEST_F(Waiters, PollingBeforeSleepingIsLeftOutMostlyWhereItIsInVain)
{
	constexpr uint64_t without = 3; // before, once the CQ is armed, and at the end
	a = make_vi();
	const auto polls_of_a_wait = [&] {
		const uint64_t before = fake_calls("ibv_poll_cq");

		EXPECT_EQ(recv_wait(a, 1).code, VIP_TIMEOUT);
		return fake_calls("ibv_poll_cq") - before;
	};
	const auto spinning = [&](int waits) {
		int count = 0;

		while (waits--)
			count += polls_of_a_wait() > without;
		return count;
	};

	EXPECT_GT(spinning(8), 0);
	EXPECT_EQ(spinning(63), 0);
	EXPECT_EQ(spinning(64), 1);
}

TEST_F(Waiters, OneThatSleepsAloneReadsTheChannelAtMostOnce)
{
	make_pair();
	posted_receive(b, 0, {{memory.data(), 8}});
	const uint64_t before = fake_calls("ibv_get_cq_event");
	auto waiting = start_call([this] { return recv_wait(b, VIP_INFINITE).code; });
	posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_EQ(waiting.get(), VIP_SUCCESS);
	EXPECT_LE(fake_calls("ibv_get_cq_event") - before, 1U);
}

TEST_F(Waiters, ClosingTheNicEndsAnAccept)
{
	a = make_vi();
	b = make_vi();
	auto requested = request_async(a, "door");

	ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
	fake_fail_always("recvmsg", EAGAIN); // the answer never comes
	auto accepted = start_call([=] { return VipConnectAccept(conn, b); }, "sendmsg");
	EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	nic = nullptr;
	EXPECT_NE(accepted.get(), VIP_SUCCESS);
	EXPECT_NE(requested.get(), VIP_SUCCESS);
}

TEST_F(Waiters, APostWakesWhoWaitsOnAnEmptyQueueOfAViThatIsFlushing)
{
	a = make_vi();
	auto waited = start_call([this] { return send_wait(a, VIP_INFINITE).code; });

	EXPECT_EQ(post_send(a, descriptor(0, {})), VIP_SUCCESS); // not connected, so it is flushed
	EXPECT_EQ(waited.get(), VIP_DESCRIPTOR_ERROR);
}

TEST_F(Waiters, OnAllQueuesOfManyVisEachGetTheirOwn)
{
	constexpr size_t MANY = 40; // CQs: more than there are channels
	std::vector<Vi> from(MANY), to(MANY);
	std::vector<std::future<VIP_RETURN>> received;

	for (size_t i = 0; i < MANY; i++) {
		from[i] = make_vi();
		to[i] = make_vi();
		connect(from[i], to[i], "vi " + std::to_string(i));
		posted_receive(to[i], i, {{memory.data(16 * i), 16}});
	}
	for (const Vi &vi : to)
		received.push_back(std::async(std::launch::async, [=] {
			return recv_wait(vi).code;
		}));
	for (size_t i = MANY; i-- > 0;)
		expect_sent(from[i], posted_send(from[i], 100 + i, {{memory.data(5000), 16}}));
	for (auto &each : received)
		EXPECT_EQ(each.get(), VIP_SUCCESS);
}

// ---- VipRecvNotify and VipCQNotify ----

class Notify : public PairTest
{
      protected:
	static void count(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
	{
		++*static_cast<std::atomic<int> *>(context);
	}
	VIP_RETURN notify(const Vi &vi)
	{
		return VipRecvNotify(vi, &called, count);
	}
	void send_one()
	{
		VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});
		posted_receive(b, 0, {{memory.data(), 8}});
		expect_send(a, s);
	}
	bool reach(int wanted)
	{
		return eventually([&] { return called == wanted; });
	}
	std::atomic<int> called{0};
};

TEST_F(Notify, ACqThatCannotBeArmedIsLookedAtAgainAndAgain)
{
	fake_fail_always("ibv_req_notify_cq", ENOMEM);
	uint64_t before = fake_calls("ibv_req_notify_cq");
	ASSERT_EQ(notify(b), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > before; }));
	send_one();
	EXPECT_TRUE(reach(1));
	fake_forget_faults();
}

TEST_F(Notify, WithoutFileDescriptorsIsAResourceError)
{
	VIP_RETURN rc;
	{
		const FileLimit none(0); // for this call only, since a sanitizer needs file descriptors, too
		rc = VipRecvNotify(b.handle, nullptr, count);
	}
	EXPECT_EQ(rc, VIP_ERROR_RESOURCE);
	EXPECT_EQ(notify(b), VIP_SUCCESS);
	send_one();
	EXPECT_TRUE(reach(1));
}

TEST_F(Notify, ThatHasBeenServedCostsNothingAnyMore)
{
	ASSERT_EQ(notify(b), VIP_SUCCESS);
	send_one();
	ASSERT_TRUE(reach(1));
	uint64_t armed = fake_calls("ibv_req_notify_cq");
	for (int i = 0; i < 50; i++)
		expect_traffic(a, b); // its waits need not sleep
	EXPECT_EQ(fake_calls("ibv_req_notify_cq"), armed);
}

TEST_F(Notify, ThatIsOutstandingSleepsAlsoAfterItWasWokenForNothing)
{
	VIP_CQ_HANDLE cq = make_cq(5);
	Vi on_cq = make_vi(cq, cq);
	auto ignore = [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {};
	uint64_t armed = fake_calls("ibv_req_notify_cq");
	ASSERT_EQ(VipCQNotify(cq, nullptr, ignore), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > armed; }));
	EXPECT_EQ(VipDestroyVi(on_cq), VIP_SUCCESS); // wakes all threads that wait at its CQs
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > armed + 1; }));
	double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
	poll(nullptr, 0, 300);
	EXPECT_LT(seconds(CLOCK_PROCESS_CPUTIME_ID) - before, 0.1);
}

TEST_F(Notify, OneAnnouncementForManyCompletionsServesAllThatWait)
{
	const int COUNT = 10;
	options([](fake_options &o) { o.hold_completions = true; });
	for (int i = 0; i < COUNT; i++)
		ASSERT_EQ(notify(b), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > 0; }));
	for (size_t i = 0; i < COUNT; i++) {
		posted_receive(b, i, {{memory.data(), 8}});
		posted_send(a, 100 + i, {{memory.data(100), 8}});
	}
	EXPECT_EQ(called, 0);
	EXPECT_EQ(fake_release(-1), 2 * COUNT);
	EXPECT_TRUE(reach(COUNT));
	options([](fake_options &o) { o.hold_completions = false; });
}

} // namespace
