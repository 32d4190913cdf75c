// SPDX-License-Identifier: BSD-2-Clause
// VipRecvNotify and VipCQNotify: failures of the device or the system, and their costs.
#include "support.h"

#include <atomic>
#include <poll.h>
#include <sys/resource.h>

namespace
{

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
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_sent(a, s);
	}
	bool reach(int wanted)
	{
		return eventually([&] { return called == wanted; });
	}
	std::atomic<int> called{0};
};

TEST_F(Notify, ACqThatCannotBeArmedIsLookedAtAgainAndAgain)
{
	fake_fail_always("ibv_req_notify_cq", EIO);
	uint64_t before = fake_calls("ibv_req_notify_cq");
	ASSERT_EQ(notify(b), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > before; }));
	send_one();
	EXPECT_TRUE(reach(1));
	fake_forget_faults();
}

TEST_F(Notify, WithoutFileDescriptorsIsAResourceError)
{
	VIP_VI_HANDLE handle = b;
	rlimit before{}, none{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = {0, before.rlim_max};
	// No other call may come in between, since a sanitizer needs file descriptors, too.
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	VIP_RETURN rc = VipRecvNotify(handle, nullptr, count);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
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
