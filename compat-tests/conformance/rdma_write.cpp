// SPDX-License-Identifier: BSD-2-Clause
// RDMA write: the place of the data, what the target notices, and what the target refuses.
#include "harness.h"

#include <algorithm>
#include <atomic>

using namespace harness;

namespace
{

// `a` writes into memory of `b`.
class RdmaWrite : public PairTest
{
      protected:
	RdmaWrite() : PairTest(writable())
	{
	}
	testing::AssertionResult written(VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		return isSent(a(), d, handle, VIP_STATUS_OP_RDMA_WRITE);
	}
	Region target{nic, 128 * 1024, memory(nullptr, VIP_TRUE)};
};

// The write is refused: its status says so, and the connection is broken at both ends.
void expectRefused(Vi &initiator, Vi &target, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
{
	ASSERT_TRUE(isSent(initiator, d, handle, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR));
	expectLosses(initiator, target, VIP_ERROR_RDMAW_PROT, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
}

// [functional: VipPostSend] An RDMA write puts its data where the address segment says, the last byte last.
TEST_F(RdmaWrite, WhenTheLastByteHasArrivedAllHave)
{
	constexpr VIP_UINT32 most = 65472;
	Pool pool(nic, 1, most);
	for (VIP_UINT32 size : {1U, 2U, 64U, 1024U, 1025U, 5000U, 32768U, most}) {
		for (unsigned round = 0; round < 4; round++) {
			std::fill_n(target.data(), most + 1, VIP_UCHAR{0});
			paint(pool.buffer(0), size, round);
			pool.buffer(0)[size - 1] = 0xFF;
			ASSERT_EQ(VIP_SUCCESS, VipPostSend(a(), pool.write(0, size, target), pool.handle()));
			auto *last = const_cast<const volatile VIP_UCHAR *>(target.data() + size - 1);
			Stopwatch watch;
			while (*last != 0xFF)
				ASSERT_LT(watch.ms(), kPatience) << size << " bytes did not arrive";
			std::atomic_thread_fence(std::memory_order_acquire);
			ASSERT_TRUE(painted(target.data(), size - 1, round));
			EXPECT_EQ(0, target.data()[size]) << "behind the write";
			ASSERT_TRUE(isDone(a(), pool.descriptor(0), VIP_STATUS_OP_RDMA_WRITE));
		}
	}
}

// [functional: VipPostSend VipPostRecv] The target does not notice an RDMA write; later messages arrive after it.
TEST_F(RdmaWrite, WithoutImmediateDataNoReceiveIsUsedUp)
{
	Pool pool(nic, 2, 64);
	ASSERT_TRUE(pool.postReceive(b(), 1, 64));
	paint(pool.buffer(0), 64, 1);
	ASSERT_TRUE(written(pool.write(0, 64, target), pool.handle()));
	ASSERT_TRUE(pool.send(a(), 0, 33));
	ASSERT_TRUE(isReceived(b(), pool.descriptor(1)));
	EXPECT_EQ(33U, pool.descriptor(1)->CS.Length);
	EXPECT_TRUE(painted(target.data(), 64, 1)) << "a later message arrived before the write";
}

// [functional: VipPostSend VipPostRecv] An RDMA write with immediate data may be of nothing, and the receive that it
// completes needs no room.
TEST_F(RdmaWrite, WithImmediateDataAReceiveWithoutSegmentsWillDo)
{
	Pool pool(nic, 2, 64);
	for (VIP_UINT32 length : {64U, 0U}) {
		VIP_DESCRIPTOR *in = pool.empty(1), *out = setImmediate(pool.write(0, length, target), 5 + length);
		if (!length)
			out->CS.SegCount = 1; // the address segment only
		in->CS.Length = 99;
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b(), in, pool.handle()));
		ASSERT_TRUE(written(out, pool.handle()));
		ASSERT_TRUE(isReceived(b(), in, VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE));
		EXPECT_EQ(5 + length, in->CS.ImmediateData);
		EXPECT_EQ(length, in->CS.Length);
	}
}

// [functional: VipPostSend] An RDMA write of nothing is done.
TEST_F(RdmaWrite, OfLengthZeroWithoutImmediateDataIsDoneAndChangesNothing)
{
	Pool pool(nic, 1, 64);
	paint(pool.buffer(0), 64, 1);
	VIP_DESCRIPTOR *d = pool.write(0, 0, target);
	for (VIP_UINT16 segments : {VIP_UINT16{1}, VIP_UINT16{2}}) {
		d->CS.SegCount = segments;
		ASSERT_TRUE(written(d, pool.handle()));
	}
	EXPECT_TRUE(untouched(target.data(), 4096));
	EXPECT_EQ(VIP_STATE_CONNECTED, b().state());
}

// [functional: VipPostSend VipRegisterMem] Each handle of the same memory can be written to, up to the last byte of its
// region.
TEST_F(RdmaWrite, ThroughEachOfTwoHandlesOfTheSameMemoryUpToTheLastByte)
{
	VIP_MEM_ATTRIBUTES attributes = memory(nullptr, VIP_TRUE);
	VIP_MEM_HANDLE other = 0;
	VIP_UCHAR *within = target.data() + 100, *end = within + 4000 - 64,
		  *last = target.data() + target.size() - 64;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, within, 4000, &attributes, &other));
	Pool pool(nic, 1, 64);
	paint(pool.buffer(0), 64, 1);
	EXPECT_TRUE(written(pool.write(0, 64, end, other), pool.handle()));
	EXPECT_TRUE(written(pool.write(0, 64, last, target.handle()), pool.handle()));
	EXPECT_TRUE(eventually([&] { return painted(end, 64, 1); }));
	EXPECT_TRUE(eventually([&] { return painted(last, 64, 1); }));
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, within, other));
}

// [functional: VipPostSend VipRegisterMem VipCreateVi VipErrorCallback] At the reliable levels an RDMA write is refused
// if the target's VI or its region does not allow it. It is reported once at the target, as a lost connection where the
// network cannot know the cause. At the writer it is reported as a lost connection.
TEST_F(RdmaWrite, ThatTheTargetsViOrRegionDoesNotAllowIsRefused)
{
	Pool pool(nic, 1, 65536);
	Region shut(nic, 65536);
	paint(pool.buffer(0), 65536, 1);
	atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		Pair open(nic, writable(ofLevel(level))), closed(nic, ofLevel(level));
		expectRefused(open.a, open.b, pool.write(0, 65536, shut), pool.handle());
		expectRefused(closed.a, closed.b, pool.write(0, 65536, target), pool.handle());
		for (const Region *region : {&shut, &target})
			EXPECT_TRUE(untouched(region->data(), 65536));
	});
}

// [functional: VipPostSend VipCreateVi] A VI whose own attribute does not allow RDMA writes may write into memory of
// its peer: the attribute is for the peer.
TEST_F(RdmaWrite, FromAViWithoutEnableRdmaWriteIsFine)
{
	// The attribute allows the peer to write here. It does not allow this VI to write there.
	Pool pool(nic, 1, 64);
	Vi initiator(nic, reliable()), open(nic, writable());
	ASSERT_TRUE(harness::connect(open, initiator));
	paint(pool.buffer(0), 64, 1);
	ASSERT_TRUE(isSent(initiator, pool.write(0, 64, target), pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
	EXPECT_TRUE(eventually([&] { return painted(target.data(), 64, 1); }));
}

// [functional: VipPostSend VipSendDone] Sends behind a refused RDMA write are flushed.
TEST_F(RdmaWrite, ThatWasRefusedFlushesWhatFollowsIt)
{
	Pool pool(nic, 3, 64);
	VIP_DESCRIPTOR *receive = pool.message(2, 64), *d = nullptr;
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(a(), receive, pool.handle()));
	expectRefused(a(), b(), pool.write(0, 64, target.data(), 0), pool.handle());
	ASSERT_TRUE(pool.postSend(a(), 1, 64));
	ASSERT_EQ(VIP_DESCRIPTOR_ERROR, VipSendDone(a(), &d));
	EXPECT_EQ(pool.descriptor(1), d);
	EXPECT_EQ(status(VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR), statusOf(pool.descriptor(1)));
	ASSERT_TRUE(isReceived(a(), receive, VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR));
}

} // namespace
