// SPDX-License-Identifier: BSD-2-Clause
// Devices that differ from rxe: in keys, in segments, and in the work of queue pairs in ERR and
// RESET.
#include "support.h"

#include <set>

namespace
{

class Devices : public NicTest
{
      protected:
	void expect_rdma(VIP_UINT16 operation)
	{
		const bool writes = operation == VIP_CONTROL_OP_RDMAWRITE;
		VIP_DESCRIPTOR *d = write_descriptor(50, memory.data(9000), {memory.data(8000), 700});

		d->CS.Control = operation;
		memset(memory.data(8000), writes ? 'w' : 0, 700);
		memset(memory.data(9000), writes ? 0 : 'r', 700);
		ASSERT_EQ(post_send(a, d), VIP_SUCCESS);
		expect_sent(a, d, writes ? VIP_STATUS_OP_RDMA_WRITE : VIP_STATUS_OP_RDMA_READ);
		EXPECT_EQ(memcmp(memory.data(8000), memory.data(9000), 700), 0);
		EXPECT_EQ(*memory.data(8000), writes ? 'w' : 'r');
	}
};

// The profiles have the other kinds of keys.
TEST_F(Devices, WhoseKeysOfOneRegionDiffer)
{
	std::set<VIP_MEM_HANDLE> handles;

	open_with([](fake_device &d) { d.keys = FAKE_KEYS_DIFFERENT; });
	EXPECT_EQ(VipDeregisterMem(nic, memory.base, memory.handle), VIP_SUCCESS);
	ASSERT_EQ(memory.add(nic, nullptr, true, true), VIP_SUCCESS);
	vi_kind.EnableRdmaRead = VIP_TRUE;
	for (VIP_RELIABILITY_LEVEL level : {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}) {
		vi_kind.ReliabilityLevel = level;
		make_pair();
		expect_traffic(a, b);
		expect_rdma(VIP_CONTROL_OP_RDMAWRITE);
		expect_rdma(VIP_CONTROL_OP_RDMAREAD);
	}
	for (int i = 0; i < 500; i++) {
		VIP_MEM_ATTRIBUTES attributes{};
		VIP_MEM_HANDLE handle = 0;
		attributes.EnableRdmaWrite = i % 3 == 0;
		ASSERT_EQ(VipRegisterMem(nic, memory.data(), 64, &attributes, &handle), VIP_SUCCESS);
		EXPECT_TRUE(handle && handle != 0xFFFFFFFF);
		EXPECT_TRUE(handles.insert(handle).second);
	}
}

TEST_F(Devices, WithoutInlineDataTakeShortMessages)
{
	open_with([](fake_device &d) { d.max_inline = 0; });
	make_pair();
	expect_traffic(a, b);
	VIP_DESCRIPTOR *r = posted_receive(b, 0, {}), *s = posted_send(a, 1, {}, VIP_CONTROL_IMMEDIATE, 7);
	expect_received(b, r, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
	expect_sent(a, s);
}

struct Habit : Named {
	void (*set)(fake_options &options);
};

using Habits = Each<Devices, Habit>;

TEST_P(Habits, ErrorsFlushAllInOrderAndTheViConnectsAgain)
{
	std::vector<VIP_DESCRIPTOR *> receives;

	options([](fake_options &o) { GetParam().set(o); });
	open();
	make_pair();
	for (int round = 0; round < 3; round++) {
		if (round)
			connect(a, b, "round " + std::to_string(round));
		expect_traffic(a, b);
		expect_rdma(VIP_CONTROL_OP_RDMAWRITE);
		receives.clear();
		for (size_t i = 0; i < 5; i++) {
			receives.push_back(descriptor(i, {{memory.data(i), 1}}));
			ASSERT_EQ(post_recv(b, receives[i]), VIP_SUCCESS);
		}
		VIP_DESCRIPTOR *s = descriptor(20, {{memory.data(), 2}}); // too long
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_sent(a, s, VIP_STATUS_REMOTE_DESC_ERROR);
		expect_state(a, VIP_STATE_ERROR);
		expect_received(b, receives[0], VIP_STATUS_LENGTH_ERROR);
		for (size_t i = 1; i < 5; i++)
			expect_received(b, receives[i], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_state(b, VIP_STATE_ERROR);
		// A descriptor that is posted in ERROR completes at once, whatever the device does.
		for (const Vi &vi : {a, b}) {
			VIP_DESCRIPTOR *late = posted_receive(vi, 30, {{memory.data(), 2}}), *done;
			EXPECT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
			EXPECT_EQ(done, late);
			ASSERT_EQ(post_send(vi, late), VIP_SUCCESS);
			EXPECT_EQ(VipSendDone(vi, &done), VIP_DESCRIPTOR_ERROR);
			EXPECT_EQ(done, late);
		}
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a, round + 1));
		disconnect_pair();
	}
}

INSTANTIATE_TEST_SUITE_P(
	Devices, Habits,
	testing::Values(Habit{"LikeRxe", [](fake_options &) {}},
			Habit{"LikeMlx5", [](fake_options &o) { fake_options_mlx5(&o); }},
			Habit{"ByTheSpecification", [](fake_options &o) { o.spec_status = true; }},
			Habit{"FlushingLateReceives",
			      [](fake_options &o) { o.flush_late_receives = true; }},
			Habit{"CleaningTheCqAtReset",
			      [](fake_options &o) { o.reset_cleans_cq = true; }},
			Habit{"WithExactDepths", [](fake_options &o) { o.exact_depths = true; }}),
	ByName());

} // namespace
