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
		return write_descriptor(200, memory.data(TARGET), {memory.data(SOURCE), bytes}, control, 77);
	}
	bool is_written(size_t bytes)
	{
		return !memcmp(memory.data(SOURCE), memory.data(TARGET), bytes) && !*memory.data(TARGET + bytes);
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
			by_hand(true);
			VIP_DESCRIPTOR *w = long_write(bytes);
			ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), pieces);
			EXPECT_EQ(fake_progress(pieces - 1), pieces - 1);
			EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
			EXPECT_EQ(fake_progress(1), 1);
			expect_sent(a, w, WRITE);
			EXPECT_TRUE(is_written(bytes));
			start_over();
		}
}

TEST_F(UnreliableWrite, IsNotCutOnDevicesThatRecoverFromALostPacket)
{
	open_with([](fake_device &d) { d.vendor_id = 0x2c9; });
	options([](fake_options &o) { o = fake_options_mlx5(); });
	make_pair();
	post_receives(1);
	by_hand(true);
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

// The device has room for 128 of the 392 pieces, and then for ten.
TEST_F(UnreliableWrite, OfMorePiecesThanTheDeviceHoldsGoesOnByItself)
{
	vi_kind.MaxTransferSize = MOST;
	for (int depth : {1048576, 10}) {
		SCOPED_TRACE(depth);
		open_with([=](fake_device &d) {
			d.mtu = 256;
			d.max_qp_wr = depth;
		});
		make_pair();
		receives.clear();
		post_receives(2);
		VIP_DESCRIPTOR *w = long_write(MOST, VIP_CONTROL_IMMEDIATE), *s = message(0);
		post_sends(a, {w, s});
		// The program does not ask for a's completions.
		expect_received(b, receives[0], WRITTEN);
		EXPECT_TRUE(is_written(MOST));
		EXPECT_EQ(receives[0]->CS.ImmediateData, 77u);
		expect_received(b, receives[1]);
		expect_sent(a, w, WRITE);
		expect_sent(a, s);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 0);
		start_over();
	}
}

// The device has all pieces of the shorter writes, and does not have all of the longest when an early one fails.
TEST_F(UnreliableWrite, APieceThatFailsHereIsTheDescriptorsErrorOnceAndTheEndOfTheWrite)
{
	vi_kind.MaxTransferSize = MOST;
	for (auto [bytes, failing] : {std::pair(size_t{20000}, 0), {20000, 1}, {20000, 78}, {MOST, 0}}) {
		SCOPED_TRACE(testing::Message() << bytes << ", piece " << failing);
		open_with([](fake_device &d) { d.mtu = 256; });
		make_pair();
		by_hand(true);
		VIP_DESCRIPTOR *w = long_write(bytes), *s = message(8);
		post_sends(a, {w, s});
		uint64_t posted = fake_calls("ibv_post_send");
		EXPECT_EQ(fake_progress(failing), failing);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_PROT_ERR);
		EXPECT_EQ(fake_progress(1), 1);
		by_hand(false);
		expect_sent(a, w, PROTECTION | WRITE);
		expect_sent(a, s);
		EXPECT_LT(fake_calls("ibv_post_send"), posted + 300) << "written once more";
		expect_unharmed();
		start_over();
	}
}

} // namespace
