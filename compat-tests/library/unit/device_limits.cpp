// SPDX-License-Identifier: BSD-2-Clause
// Devices with little room. Work that does not fit is held back and posted later, and none is lost.
#include "support.h"

namespace
{

class DeviceLimits : public NicTest
{
      protected:
	// Posts `count` receives at b and sends at a. All messages arrive, in order.
	void expect_all_arrive(size_t count)
	{
		for (size_t i = 0; i < count; i++)
			posted_receive(b, i, {{memory.data(16 * i), 16}});
		for (size_t i = 0; i < count; i++) {
			*reinterpret_cast<size_t *>(memory.data(100000 + 16 * i)) = i;
			posted_send(a, 500 + i, {{memory.data(100000 + 16 * i), 16}});
		}
		for (size_t i = 0; i < count; i++) {
			expect_received(b, at(i));
			if (HasFatalFailure())
				return;
			EXPECT_EQ(*reinterpret_cast<size_t *>(memory.data(16 * i)), i);
		}
		for (size_t i = 0; i < count; i++)
			expect_sent(a, at(500 + i));
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 0);
	}
};

class ByLevel : public Each<DeviceLimits, VIP_RELIABILITY_LEVEL>
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.ReliabilityLevel = GetParam();
	}
};

// With room for one request only, the mark behind a message of Reliable Reception is posted when the message is done.
TEST_P(ByLevel, ShortWorkQueuesAndSmallCqsCarryAllThatIsPosted)
{
	for (int size : {1, 2, 3, 15, 16, 63, 100})
		for (bool is_cq : {false, true}) {
			SCOPED_TRACE(testing::Message() << size << (is_cq ? " entries" : " requests"));
			if (is_cq)
				open_with_cqs_of(size);
			else
				open_with([=](fake_device &d) { d.max_qp_wr = size; });
			make_pair();
			options([=](fake_options &o) { o.exact_depths = !is_cq; });
			expect_all_arrive(static_cast<size_t>(size));
			expect_traffic(a, b);
			start_over();
		}
}

INSTANTIATE_TEST_SUITE_P(DeviceLimits, ByLevel,
			 testing::Values(VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION));

TEST_F(DeviceLimits, MoreReceivesThanTheDeviceHoldsAreFedAsOthersComplete)
{
	open_with([](fake_device &d) { d.max_qp_wr = 16; });
	make_pair();
	for (size_t i = 0; i < 200; i++)
		posted_receive(b, i, {{memory.data(16 * i), 16}});
	for (size_t i = 0; i < 200; i++) {
		*reinterpret_cast<size_t *>(memory.data(100000)) = i;
		expect_sent(a, posted_send(a, 500, {{memory.data(100000), 16}}));
		expect_received(b, at(i));
		ASSERT_FALSE(HasFatalFailure()) << i;
		EXPECT_EQ(*reinterpret_cast<size_t *>(memory.data(16 * i)), i);
	}
}

// 8 VIs have 20 receives each on a CQ of 31 entries, so some receives must wait for a place.
TEST_F(DeviceLimits, ManyVisOnASmallCqTakeTurns)
{
	std::vector<Vi> senders, receivers;
	const size_t VIS = 8, EACH = 20;

	open_with_cqs_of(31);
	VIP_CQ_HANDLE cq = make_cq(16);
	for (size_t i = 0; i < VIS; i++) {
		senders.push_back(make_vi());
		receivers.push_back(make_vi(nullptr, cq));
		connect(senders[i], receivers[i], "vi " + std::to_string(i));
	}
	for (size_t i = 0; i < VIS * EACH; i++)
		posted_receive(receivers[i / EACH], i, {{memory.data(), 4}});
	// A message may go only to a VI with a receive at the device. The order of the VIs is open.
	std::vector<size_t> received(VIS);
	for (size_t total = 0, i = 0; total < VIS * EACH; total++) {
		ASSERT_TRUE(eventually([&] {
			for (i = 0; i < VIS && !fake_posted(receivers[i].qp, FAKE_RECV);)
				i++;
			return i < VIS;
		})) << "after "
		    << total << " receives none reached the device";
		expect_sent(senders[i], posted_send(senders[i], 900, {{memory.data(100), 4}}));
		ASSERT_EQ(cq_wait(cq), (CqEntry{VIP_SUCCESS, receivers[i].handle, VIP_TRUE}));
		expect_received(receivers[i], at(i * EACH + received[i]++));
	}
	for (size_t i = 0; i < VIS; i++)
		EXPECT_EQ(received[i], EACH) << "VI " << i;
}

TEST_F(DeviceLimits, RoomThatAViLeavesIsGivenToOthers)
{
	open_with_cqs_of(15);
	VIP_CQ_HANDLE cq = make_cq(14);
	make_pair(nullptr, cq);
	for (size_t i = 0; i < 20; i++)
		posted_receive(a, i, {{memory.data(), 4}});
	Vi x = make_vi(), y = make_vi(nullptr, cq);
	connect(x, y, "late");
	VIP_DESCRIPTOR *r = posted_receive(y, 30, {{memory.data(), 4}});
	EXPECT_EQ(fake_posted(y.qp, FAKE_RECV), 0);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_posted(y.qp, FAKE_RECV) == 1; }));
	posted_send(x, 31, {{memory.data(), 4}});
	expect_received(y, r);
}

TEST_F(DeviceLimits, ResizingACqMakesRoomForThoseThatHadNone)
{
	options([](fake_options &o) { o.exact_depths = true; });
	open_with([](fake_device &d) { d.max_cqe = 20000; });
	VIP_CQ_HANDLE cq = make_cq(1);
	std::vector<Vi> vis;
	fake_fail_always("ibv_resize_cq", ENOMEM);
	EXPECT_EQ(VipResizeCQ(cq, 10000), VIP_ERROR_RESOURCE);
	for (size_t i = 0; i < 5; i++) { // 5 * 1000 receives, but 4094 entries
		Vi other = make_vi();
		vis.push_back(make_vi(nullptr, cq));
		connect(other, vis[i], "vi " + std::to_string(i));
		for (size_t n = 0; n < 1000; n++)
			posted_receive(vis[i], n, {{memory.data(), 4}});
	}
	auto posted = [&] {
		int sum = 0;
		for (Vi &vi : vis)
			sum += fake_posted(vi.qp, FAKE_RECV);
		return sum;
	};
	EXPECT_EQ(posted(), 4094);
	EXPECT_EQ(VipResizeCQ(cq, 4094), VIP_SUCCESS) << "it has so many already";
	EXPECT_EQ(VipResizeCQ(cq, 4095), VIP_ERROR_RESOURCE);
	EXPECT_EQ(posted(), 4094);
	fake_forget_faults();
	EXPECT_EQ(VipResizeCQ(cq, 10000), VIP_SUCCESS);
	EXPECT_EQ(posted(), 5000);
	EXPECT_EQ(VipResizeCQ(cq, 1), VIP_SUCCESS);
	EXPECT_EQ(VipResizeCQ(cq, 20001), VIP_ERROR_RESOURCE);
}

} // namespace
