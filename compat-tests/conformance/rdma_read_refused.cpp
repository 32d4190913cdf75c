// SPDX-License-Identifier: BSD-2-Clause
// RDMA reads that are refused: the reasons, the errors at both ends, and that no memory is changed.
#include "rdma_read.h"

#include <sys/mman.h>

using namespace harness;

namespace
{

// [full: VipPostSend] There are no RDMA reads on unreliable VIs.
TEST_F(RdmaRead, OnAnUnreliableViIsRefused)
{
	atEach(nic, {VIP_SERVICE_UNRELIABLE}, [&](VIP_RELIABILITY_LEVEL level) { expectNoReads(level); });
}

// [full: VipPostSend VipRegisterMem VipErrorCallback] A region can be read from if it was registered for that.
// Otherwise the read is reported once at the target, as a lost connection where the network cannot know the cause, and
// at the reader as a lost connection.
TEST_F(RdmaRead, FromARegionWithoutRdmaReadEnabledIsRefused)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		Region closed(nic, 4096, memory(nullptr, VIP_TRUE));
		paint(closed.data(), 64, 1);
		expectRefused(on.a, on.b, pool, pool.read(0, 64, closed));
	});
}

// [full: VipPostSend VipCreateVi] A VI can be read through if its attributes say so.
TEST_F(RdmaRead, OfAViWithoutEnableRdmaReadIsRefused)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		Vi initiator(nic, readable(on.level)), closed(nic, readable(on.level, VIP_FALSE));
		ASSERT_TRUE(harness::connect(closed, initiator));
		expectRefused(initiator, closed, pool, pool.read(0, 64, on.source));
	});
}

// [full: VipPostSend VipCreateVi] A VI whose own attribute does not allow RDMA reads may read memory of its peer: the
// attribute is for the peer.
TEST_F(RdmaRead, ByAViWithoutEnableRdmaReadIsFine)
{
	// The attribute allows the peer to read here. It does not allow this VI to read there.
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		Vi initiator(nic, readable(on.level, VIP_FALSE)), open(nic, readable(on.level));
		ASSERT_TRUE(harness::connect(open, initiator));
		ASSERT_NO_FATAL_FAILURE(expectDone(initiator, pool, pool.read(0, 64, on.source)));
		EXPECT_TRUE(painted(pool.buffer(0), 64, 1));
	});
}

// [full: VipPostSend VipRegisterMem] The right to read is not the right to write.
TEST_F(RdmaRead, RegionForReadingOnlyCannotBeWritten)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		Region source(nic, 4096, memory(nullptr, VIP_FALSE, VIP_TRUE));
		ASSERT_NO_FATAL_FAILURE(expectDone(on.a, pool, pool.read(0, 64, source)));
		paint(pool.buffer(0), 64, 1);
		VIP_DESCRIPTOR *d = pool.write(0, 64, source);
		ASSERT_TRUE(isSent(on.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR));
		EXPECT_TRUE(untouched(source.data(), 4096));
	});
}

// [full: VipPostSend] A refused RDMA read breaks the connection.
TEST_F(RdmaRead, ThatWasRefusedFlushesWhatIsPosted)
{
	each([&](const Reading &on) {
		Pool pool(nic, 4, 64);
		ASSERT_TRUE(pool.postReceive(on.a, 1, 64));
		ASSERT_TRUE(pool.postReceive(on.b, 2, 64));
		expectRefused(on.a, on.b, pool, pool.read(0, 64, on.source.data(), 0));
		ASSERT_TRUE(pool.postSend(on.a, 3, 64));
		VIP_DESCRIPTOR *const flushed[] = {takeReceive(on.a), takeReceive(on.b), takeSend(on.a)};
		for (unsigned i = 0; i < 3; i++) {
			ASSERT_EQ(pool.descriptor(i + 1), flushed[i]);
			EXPECT_EQ(VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR}, errorOf(flushed[i]));
		}
	});
}

// [full: VipPostSend VipRegisterMem] Memory that the program may only read can be registered, and an RDMA read into it
// is a protection error.
TEST_F(RdmaRead, IntoMemoryThatIsReadOnlyIsAProtectionError)
{
	void *memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, memory);
	VIP_MEM_HANDLE handle = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, memory, 4096, nullptr, &handle));
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		VIP_DESCRIPTOR *d = pool.read(0, 64, on.source);
		setSegment(d, 1, memory, 64, handle);
		ASSERT_TRUE(isSent(on.a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ | VIP_STATUS_PROTECTION_ERROR));
		expectBroken(on.a, on.b);
	});
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, memory, handle));
	munmap(memory, 4096);
}

// [full: VipPostSend] An RDMA read is at most as long as the VI's maximum transfer size.
TEST_F(RdmaRead, LongerThanMaxTransferSizeIsALengthError)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 2048);
		VIP_VI_ATTRIBUTES attributes = readable(on.level);
		attributes.MaxTransferSize = 1024;
		Pair pair(nic, attributes);
		VIP_UCHAR *source = on.source.data();
		ASSERT_NO_FATAL_FAILURE(expectDone(pair.a, pool, pool.read(0, 1024, source, on.source.handle())));
		VIP_DESCRIPTOR *d = pool.read(0, 1025, source, on.source.handle());
		ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ | VIP_STATUS_LENGTH_ERROR));
		EXPECT_EQ(0, pool.buffer(0)[1024]);
	});
}

} // namespace
