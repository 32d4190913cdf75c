// SPDX-License-Identifier: BSD-2-Clause
// RDMA writes of Unreliable VIs: on soft-RoCE each packet is a request of its own.
#include "unreliable_vis.h"

namespace
{

class UnreliableWrite : public Unreliable
{
      protected:
	static constexpr size_t SOURCE = 0, TARGET = 120000, MOST = 100000;
	static constexpr size_t LAST = 8; // bytes that go in a request of their own

	VIP_DESCRIPTOR *long_write(size_t bytes, unsigned control = 0)
	{
		for (size_t i = 0; i < bytes; i++)
			*memory.data(SOURCE + i) = static_cast<char>(i * 7 + i / 256);
		memset(memory.data(TARGET), 0, MOST);
		return write_descriptor(200, memory.data(TARGET), {memory.data(SOURCE), bytes},
					control, 77);
	}
	bool is_written(size_t bytes)
	{
		return !memcmp(memory.data(SOURCE), memory.data(TARGET), bytes) &&
		       !*memory.data(TARGET + bytes);
	}
};

TEST_F(UnreliableWrite, IsCutAtThePathMtu)
{
	vi_kind.MaxTransferSize = MOST;
	for (int mtu : {256, 1024, 4096})
		for (size_t bytes : {1, 256, 257, 1024, 4096, 4097, 20000}) {
			open_with([=](fake_device &d) { d.mtu = mtu; });
			make_pair();
			size_t others = bytes > LAST ? bytes - LAST : 0, most = static_cast<size_t>(mtu);
			auto pieces = static_cast<int>((others + most - 1) / most + 1);
			options([](fake_options &o) { o.manual = true; });
			VIP_DESCRIPTOR *w = long_write(bytes), *done;
			ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), pieces);
			EXPECT_EQ(fake_progress(pieces - 1), pieces - 1);
			EXPECT_EQ(VipSendDone(a, &done), VIP_NOT_DONE);
			EXPECT_EQ(fake_progress(1), 1);
			expect_sent(a, w, WRITE);
			EXPECT_TRUE(is_written(bytes));
			start_over();
		}
}

TEST_F(UnreliableWrite, IsNotCutOnDevicesThatRecoverFromALostPacket)
{
	open_with([](fake_device &d) { d.vendor_id = 0x2c9; });
	options([](fake_options &o) { fake_options_mlx5(&o); });
	make_pair();
	post_receives(1);
	options([](fake_options &o) { o.manual = true; });
	VIP_DESCRIPTOR *w = long_write(20000, VIP_CONTROL_IMMEDIATE);
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 1);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, w, WRITE);
	expect_received(b, receives[0], WRITTEN);
	EXPECT_EQ(receives[0]->CS.Length, 20000u);
}

TEST_F(UnreliableWrite, QueuePairsAreDrainedOfReceivesOnSoftRoceAlone)
{
	for (uint32_t vendor : {0xffffffU, 0x2c9U}) {
		open_with([=](fake_device &d) { d.vendor_id = vendor; });
		make_pair();
		uint64_t before = fake_calls("ibv_post_recv");
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_EQ(fake_calls("ibv_post_recv") - before, vendor == 0xffffff ? 2U : 0U);
		start_over();
	}
}

// 391 pieces go to a device with room for 128, and then to one with room for ten.
TEST_F(UnreliableWrite, OfMorePiecesThanTheDeviceHoldsGoesOnByItself)
{
	vi_kind.MaxTransferSize = MOST;
	for (int depth : {1048576, 10}) {
		open_with([=](fake_device &d) {
			d.mtu = 256;
			d.max_qp_wr = depth;
		});
		make_pair();
		post_receives(2);
		VIP_DESCRIPTOR *w = long_write(MOST, VIP_CONTROL_IMMEDIATE);
		VIP_DESCRIPTOR *s = descriptor(201, {}, VIP_CONTROL_IMMEDIATE, 78);
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		// The program does not ask for a's completions.
		expect_received(b, receives[0], WRITTEN);
		EXPECT_TRUE(is_written(MOST));
		EXPECT_EQ(receives[0]->CS.ImmediateData, 77u);
		expect_received(b, receives[1],
				VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
		expect_sent(a, w, WRITE);
		expect_sent(a, s);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 0);
		start_over();
		receives.clear();
	}
}

TEST_F(UnreliableWrite, APieceThatFailsHereIsTheDescriptorsErrorOnce)
{
	for (int failing : {0, 1, 19}) {
		start();
		options([](fake_options &o) { o.manual = true; });
		VIP_DESCRIPTOR *w = long_write(20000), *s = message(8);
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		EXPECT_EQ(fake_progress(failing), failing);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_PROT_ERR);
		EXPECT_EQ(fake_progress(1), 1);
		options([](fake_options &o) { o.manual = false; });
		expect_sent(a, w, PROTECTION | WRITE);
		expect_sent(a, s);
		expect_unharmed();
		close();
	}
}

// The device does not have all pieces yet when an early one fails.
TEST_F(UnreliableWrite, APieceThatFailsEndsAWriteThatDoesNotFitTheDevice)
{
	vi_kind.MaxTransferSize = MOST;
	open_with([](fake_device &d) { d.mtu = 256; });
	make_pair();
	options([](fake_options &o) { o.manual = true; });
	VIP_DESCRIPTOR *w = long_write(MOST), *s = message(8);
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	uint64_t posted = fake_calls("ibv_post_send");
	fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(fake_progress(1), 1);
	options([](fake_options &o) { o.manual = false; });
	expect_sent(a, w, PROTECTION | WRITE);
	expect_sent(a, s);
	EXPECT_LT(fake_calls("ibv_post_send"), posted + 300) << "written once more";
	expect_unharmed();
}

} // namespace
