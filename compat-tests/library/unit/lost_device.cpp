// SPDX-License-Identifier: BSD-2-Clause
// A device that the kernel takes away while it is used: it is unplugged, its firmware is reset, or its driver unbound.
#include "process.h"
#include "shim.h"

#include <filesystem>

namespace
{

// How the kernel tells it: by the files of its events only, whose reads fail with an error, or by an event as well.
struct Way : Named {
	int error;
	bool is_told;
};

class LostDevice : public Each<NicTest, Way>
{
      protected:
	void lose()
	{
		if (GetParam().is_told)
			fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
		fake_disassociate("fake0", GetParam().error);
	}
	// No thread of the process does anything. A thread that looks at something for ever uses all of its processor.
	static void expect_rest()
	{
		const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);

		poll(nullptr, 0, 500);
		EXPECT_LT(seconds(CLOCK_PROCESS_CPUTIME_ID) - before, 0.1);
	}
	void expect_closed_and_usable()
	{
		ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		nic = nullptr;
		EXPECT_EQ(fake_live_total(), 0);
		open();
		expect_usable();
	}
};

TEST_P(LostDevice, EndsEveryWaitAndCanBeOpenedAgain)
{
	open();
	make_pair();
	const VIP_CQ_HANDLE cq = make_cq(8), empty = make_cq(8);
	Vi x = make_vi(nullptr, cq), y = make_vi(), idle = make_vi();
	connect(x, y, "more");
	by_hand(true);
	VIP_DESCRIPTOR *r = posted_receive(a, 0, {}), *of_cq = posted_receive(x, 1, {}), *s = posted_send(b, 2, {});
	auto receives = start_call([&] { return recv_wait(a, VIP_INFINITE); });
	auto sends = start_call([&] { return send_wait(b, VIP_INFINITE); });
	auto in_cq = start_call([&] { return cq_wait(cq, VIP_INFINITE); });
	auto in_empty = start_call([&] { return cq_wait(empty, VIP_INFINITE).code; });
	auto unposted = start_call([&] { return recv_wait(y, VIP_INFINITE).code; });
	auto idles = start_call([&] { return recv_wait(idle, VIP_INFINITE).code; });
	auto listens = std::async(std::launch::async, [&] { return wait("nobody", VIP_INFINITE); });
	auto asks = request_async(make_vi(), "somebody");

	lose();
	EXPECT_EQ(receives.get(), (Taken{VIP_DESCRIPTOR_ERROR, r}));
	EXPECT_EQ(sends.get(), (Taken{VIP_DESCRIPTOR_ERROR, s}));
	EXPECT_EQ(in_cq.get(), (CqEntry{VIP_SUCCESS, x.handle, VIP_TRUE}));
	for (auto *each : {&in_empty, &unposted, &idles, &listens, &asks})
		EXPECT_EQ(each->get(), VIP_ERROR_RESOURCE);
	expect_received(x, of_cq, VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	for (const Vi &each : {a, b, x, y})
		expect_lost(each);
	EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 1);
	by_hand(false);
	EXPECT_FALSE(shim_agent_is_lost(nic)) << "it answers vip_stat";
	expect_rest();
	expect_closed_and_usable();
}

TEST_P(LostDevice, FailsWhatIsBegunLater)
{
	VIP_VI_HANDLE vi;
	VIP_CQ_HANDLE cq;

	open();
	make_pair();
	const Vi idle = make_vi();
	lose();
	for (const Vi &each : {a, b})
		expect_state(each, VIP_STATE_ERROR);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	VIP_DESCRIPTOR *s = posted_send(a, 0, {{memory.data(), 8}}), *r = posted_receive(a, 1, {});
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(send_wait(a, VIP_INFINITE).code, VIP_ERROR_RESOURCE);
	EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_ERROR_RESOURCE);
	EXPECT_EQ(VipCreateCQ(nic, 8, &cq), VIP_ERROR_RESOURCE);
	EXPECT_EQ(wait("nobody", VIP_INFINITE), VIP_ERROR_RESOURCE);
	EXPECT_EQ(request(idle, "nobody", VIP_INFINITE), VIP_ERROR_RESOURCE);
	end_vi(a);
	expect_closed_and_usable();
}

TEST_P(LostDevice, LetsTheThreadThatCallsHandlersSleep)
{
	std::promise<VIP_DESCRIPTOR *> called;
	const auto tell = [](VIP_PVOID to, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *done) {
		static_cast<std::promise<VIP_DESCRIPTOR *> *>(to)->set_value(done);
	};

	open();
	make_pair();
	VIP_DESCRIPTOR *r = posted_receive(a, 0, {});
	ASSERT_EQ(VipRecvNotify(a, &called, tell), VIP_SUCCESS);
	ASSERT_EQ(VipRecvNotify(b, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}), VIP_SUCCESS);
	lose();
	EXPECT_EQ(called.get_future().get(), r);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	expect_rest();
	expect_closed_and_usable();
}

TEST_P(LostDevice, LetsTheAgentSleepThatPollsForTheProgram)
{
	passing_child({{"VIPL_PROGRESS", "on"}}, [this] {
		open();
		make_pair();
		VIP_DESCRIPTOR *r = posted_receive(a, 0, {});
		lose();
		expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
		expect_rest();
		expect_closed_and_usable();
		close();
	});
}

// Some kernels tell rdma_cm first, and the files die later.
TEST_P(LostDevice, MayBeToldOfTwice)
{
	open();
	make_pair();
	fake_remove_devices();
	EXPECT_TRUE(errors.reach(VIP_ERROR_CATASTROPHIC));
	lose();
	expect_rest();
	EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 1);
	expect_closed_and_usable();
}

INSTANTIATE_TEST_SUITE_P(Kernels, LostDevice,
			 testing::Values(Way{{"ReadFails"}, EIO, false}, Way{{"OnlyPollTells"}, EAGAIN, false},
					 Way{{"EventFirst"}, EIO, true}),
			 ByName());

} // namespace
