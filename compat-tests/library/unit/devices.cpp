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
	void expect_rdma_write()
	{
		VIP_DESCRIPTOR *w =
			write_descriptor(50, memory.data(9000), {memory.data(8000), 700});

		memset(memory.data(8000), 'w', 700);
		memset(memory.data(9000), 0, 700);
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE);
		EXPECT_EQ(memcmp(memory.data(8000), memory.data(9000), 700), 0);
	}
};

using Keys = Each<Devices, fake_keys>;

TEST_P(Keys, OfEveryKindNameRegionsForSendsAndRdma)
{
	open_with([](fake_device &d) { d.keys = GetParam(); });
	make_pair();
	expect_traffic(a, b);
	expect_rdma_write();
}

TEST_P(Keys, MemoryClosedToPeersIsGoodForMessages)
{
	open_with([](fake_device &d) { d.keys = GetParam(); });
	EXPECT_EQ(VipDeregisterMem(nic, memory.base, memory.handle), VIP_SUCCESS);
	ASSERT_EQ(memory.add(nic, nullptr, false), VIP_SUCCESS);
	make_pair();
	expect_traffic(a, b);
	VIP_DESCRIPTOR *w = write_descriptor(50, memory.data(9000), {memory.data(8000), 7});
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
}

TEST_P(Keys, HandlesOfManyRegionsAreDifferentAndNeverZeroOrAllOnes)
{
	std::set<VIP_MEM_HANDLE> handles;
	static char bytes[64];

	open_with([](fake_device &d) { d.keys = GetParam(); });
	for (int i = 0; i < 500; i++) {
		VIP_MEM_ATTRIBUTES attributes{};
		VIP_MEM_HANDLE handle = 0;
		attributes.EnableRdmaWrite = i % 3 == 0;
		ASSERT_EQ(VipRegisterMem(nic, bytes, 64, &attributes, &handle), VIP_SUCCESS);
		EXPECT_TRUE(handle && handle != 0xFFFFFFFF);
		EXPECT_TRUE(handles.insert(handle).second);
	}
	for (VIP_MEM_HANDLE handle : handles)
		EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Devices, Keys,
			 testing::Values(FAKE_KEYS_RXE, FAKE_KEYS_EQUAL, FAKE_KEYS_DIFFERENT));

TEST_F(Devices, WithoutInlineDataTakeShortMessages)
{
	open_with([](fake_device &d) { d.max_inline = 0; });
	make_pair();
	expect_traffic(a, b);
	VIP_DESCRIPTOR *r = descriptor(0, {}), *s = descriptor(1, {}, VIP_CONTROL_IMMEDIATE, 7);
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
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
		expect_rdma_write();
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
			VIP_DESCRIPTOR *late = descriptor(30, {{memory.data(), 2}}), *done;
			ASSERT_EQ(post_recv(vi, late), VIP_SUCCESS);
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

TEST_P(Habits, VisOnOneCqDisconnectWithWorkPosted)
{
	options([](fake_options &o) { GetParam().set(o); });
	open();
	VIP_CQ_HANDLE cq = make_cq(4);
	make_pair(cq, cq);
	for (int round = 0; round < 3; round++) {
		VIP_DESCRIPTOR *r[4];
		for (size_t i = 0; i < 4; i++) {
			r[i] = descriptor(i, {{memory.data(i), 1}});
			ASSERT_EQ(post_recv(i < 2 ? a : b, r[i]), VIP_SUCCESS);
		}
		ASSERT_EQ(post_send(b, descriptor(9, {{memory.data(), 1}})), VIP_SUCCESS);
		expect_received(a, r[0]);
		disconnect_pair();
		expect_received(a, r[1], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_received(b, r[2], VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_received(b, r[3], VIP_STATUS_DESC_FLUSHED_ERROR);
		VIP_DESCRIPTOR *done;
		EXPECT_EQ(VipSendDone(b, &done), VIP_SUCCESS);
		connect(a, b, "round " + std::to_string(round));
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

// The device reports that it has refused an access, so the handler gets the precise error.
TEST_F(Devices, RefusedRdmaIsToldAsSuchWhereTheDeviceTells)
{
	Memory closed;

	options([](fake_options &o) { fake_options_mlx5(&o); });
	open();
	ASSERT_EQ(closed.add(nic, nullptr, false), VIP_SUCCESS);
	make_pair();
	VIP_DESCRIPTOR *w = write_descriptor(0, closed.data(), {memory.data(), 8});
	w->DS[0].Remote.Handle = closed.handle;
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	errors.expect_first(VIP_ERROR_RDMAW_PROT, VIP_RESOURCE_VI, nic, b,
			    VIP_STATUS_OP_REMOTE_RDMA_WRITE);
	EXPECT_EQ(errors.count(VIP_ERROR_RDMAW_PROT), 1);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, b), 0);
}

} // namespace
