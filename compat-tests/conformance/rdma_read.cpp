// SPDX-License-Identifier: BSD-2-Clause
// RDMA read: its data, their order with other sends, what the peer notices, and what is refused.
#include "rdma_read.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace harness
{

void RdmaRead::expectNoReads(VIP_RELIABILITY_LEVEL level)
{
	VIP_VI_ATTRIBUTES attributes = readable(level);
	VIP_MEM_ATTRIBUTES rights = memory(nullptr, VIP_FALSE, VIP_TRUE);
	VIP_VI_HANDLE vi;
	EXPECT_EQ(VIP_INVALID_RDMAREAD, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
	Region source(nic, 4096);
	if (!nic.attributes().RDMAReadSupport) {
		VIP_MEM_HANDLE handle;
		EXPECT_EQ(VIP_INVALID_RDMAREAD, VipRegisterMem(nic, source.data(), 4096, &rights, &handle));
	}
	Pool pool(nic, 1, 64);
	Pair pair(nic, ofLevel(level));
	paint(source.data(), 64, 1);
	VIP_DESCRIPTOR *d = pool.read(0, 64, source);
	ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
	EXPECT_EQ(Status{VIP_STATUS_FORMAT_ERROR}, Status{errorOf(d)});
	EXPECT_TRUE(untouched(pool.buffer(0), 64));
}

void RdmaRead::each(const std::function<void(const Reading &)> &body)
{
	atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		if (!hasReads(level))
			return expectNoReads(level);
		Region source(nic, most() + 4096U, memory(nullptr, VIP_TRUE, VIP_TRUE));
		paint(source.data(), source.size(), 1);
		Pair pair(nic, readable(level));
		body({pair.a, pair.b, source, level});
	});
}

void RdmaRead::expectRefused(Vi &a, Vi &b, Pool &pool, VIP_DESCRIPTOR *d)
{
	ASSERT_TRUE(isSent(a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ | VIP_STATUS_RDMA_PROT_ERROR));
	EXPECT_TRUE(untouched(pool.buffer(0), 64));
	expectLosses(a, b, VIP_ERROR_RDMAR_PROT, VIP_STATUS_OP_RDMA_READ);
}

} // namespace harness

using namespace harness;

namespace
{

// [full: VipPostSend] An RDMA read brings what the peer has at the address, up to the last byte of its region.
TEST_F(RdmaRead, BringsEverySizeIntact)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, most() + 64);
		for (VIP_UINT32 bytes : {0U, 1U, 48U, 49U, 4096U, 65472U, most()})
			for (auto offset : {size_t{0}, size_t{13}, on.source.size() - bytes}) {
				SCOPED_TRACE(testing::Message() << bytes << " bytes");
				VIP_UCHAR *source = on.source.data() + offset;
				auto seed = static_cast<unsigned>(bytes + offset);
				memset(pool.buffer(0), 0, most() + 64);
				paint(source, bytes, seed);
				VIP_DESCRIPTOR *d = pool.read(0, bytes, source, on.source.handle());
				ASSERT_NO_FATAL_FAILURE(expectDone(on.a, pool, d));
				EXPECT_EQ(bytes, d->CS.Length) << "left as it was";
				EXPECT_TRUE(painted(pool.buffer(0), bytes, seed));
				EXPECT_TRUE(untouched(pool.buffer(0) + bytes, most() + 64 - bytes));
				EXPECT_TRUE(painted(source, bytes, seed)) << "the source";
			}
	});
}

// [full: VipPostSend] An RDMA read of nothing is done.
TEST_F(RdmaRead, OfNothingIsDoneWithAndWithoutASegment)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		VIP_DESCRIPTOR *d = pool.read(0, 0, on.source);
		setSegment(d, 1, reinterpret_cast<void *>(0x13), 0, 0xDEADBEEF);
		ASSERT_NO_FATAL_FAILURE(expectDone(on.a, pool, d));
		d = pool.read(0, 0, on.source);
		d->CS.SegCount = 1; // the address segment only
		ASSERT_NO_FATAL_FAILURE(expectDone(on.a, pool, d));
		EXPECT_TRUE(untouched(pool.buffer(0), 64));
		EXPECT_EQ(VIP_STATE_CONNECTED, on.b.state());
	});
}

// Sends the place of its memory and makes no call until the reader is done.
VIP_PEER(ownerOfMemory)
{
	Nic nic;
	VIP_VI_ATTRIBUTES attributes = ofLevel(static_cast<VIP_RELIABILITY_LEVEL>(test.getNumber()), 65536);
	attributes.EnableRdmaRead = VIP_TRUE;
	Region source(nic, 65536, memory(nullptr, VIP_FALSE, VIP_TRUE));
	paint(source.data(), 65536, 3);
	Vi vi(nic, attributes);
	test.put(reinterpret_cast<uintptr_t>(source.data()));
	test.put(source.handle());
	ASSERT_TRUE(test.serve(vi));
	test.expect("done");
}

// [full: VipPostSend] An RDMA read needs no help of the program that is read from.
TEST_F(RdmaRead, NeedsNoCallOfTheProcessThatIsReadFrom)
{
	each([&](const Reading &on) {
		Peer peer("ownerOfMemory");
		peer.channel.put(on.level);
		auto *source = reinterpret_cast<VIP_UCHAR *>(peer.channel.getNumber());
		auto handle = static_cast<VIP_MEM_HANDLE>(peer.channel.getNumber());
		Vi vi(nic, ofLevel(on.level, 65536));
		Pool pool(nic, 1, 65536);
		ASSERT_TRUE(peer.call(vi));
		for (VIP_UINT32 bytes : {1U, 4096U, 65536U}) {
			ASSERT_NO_FATAL_FAILURE(expectDone(vi, pool, pool.read(0, bytes, source, handle)));
			EXPECT_TRUE(painted(pool.buffer(0), bytes, 3));
		}
		peer.channel.put("done");
		peer.finish();
	});
}

// [full: VipPostSend VipRecvDone] The peer does not notice an RDMA read.
TEST_F(RdmaRead, UsesUpNoReceiveOfThePeer)
{
	each([&](const Reading &on) {
		Pool pool(nic, 2, 64);
		VIP_DESCRIPTOR *in = pool.message(1, 64), *d = in;
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(on.b, in, pool.handle()));
		for (int i = 0; i < 3; i++)
			ASSERT_NO_FATAL_FAILURE(expectDone(on.a, pool, pool.read(0, 64, on.source)));
		EXPECT_EQ(VIP_NOT_DONE, VipRecvDone(on.b, &d));
		ASSERT_TRUE(pool.send(on.a, 0, 33));
		ASSERT_TRUE(isReceived(on.b, in));
		EXPECT_EQ(33U, in->CS.Length);
		EXPECT_EQ(0U, nic.errors.count(on.b));
	});
}

// Immediate data has no meaning in a read. The bit is ignored or the descriptor is malformed. In
// both cases the peer gets nothing.
// [full: VipPostSend VipRecvWait] An RDMA read carries no immediate data.
TEST_F(RdmaRead, WithImmediateDataTellsThePeerNothing)
{
	each([&](const Reading &on) {
		Pool pool(nic, 2, 64);
		VIP_DESCRIPTOR *in = pool.message(1, 64), *d = nullptr, *out = pool.read(0, 64, on.source);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(on.b, in, pool.handle()));
		setImmediate(out, 0xA1B2C3D4);
		ASSERT_TRUE(harness::send(on.a, out, pool.handle()));
		if (errorOf(out)) {
			EXPECT_EQ(Status{VIP_STATUS_FORMAT_ERROR}, Status{errorOf(out)});
			EXPECT_TRUE(untouched(pool.buffer(0), 64));
		} else {
			EXPECT_TRUE(painted(pool.buffer(0), 64, 1));
		}
		// The end of the connection, if it ends, flushes the receive. Nothing completes it
		// otherwise.
		if (VipRecvWait(on.b, kQuiet, &d) != VIP_TIMEOUT) {
			EXPECT_NE(0U, errorOf(out));
			EXPECT_EQ(VIP_UINT32{VIP_STATUS_DESC_FLUSHED_ERROR}, errorOf(in));
		}
		EXPECT_FALSE(in->CS.Status & VIP_STATUS_IMMEDIATE);
	});
}

// [full: VipPostSend VipSendWait] RDMA reads and sends of a queue are done in the order of posting.
TEST_F(RdmaRead, IsDoneInTheOrderOfPostingAmongOtherSends)
{
	each([&](const Reading &on) {
		Pool pool(nic, 6, 65536);
		Region target(nic, 65536);
		VIP_UCHAR *source = on.source.data();
		for (unsigned i : {4U, 5U})
			ASSERT_TRUE(pool.postReceive(on.b, i, 65536));
		paint(pool.buffer(1), 64, 7);
		paint(pool.buffer(3), 4096, 8);
		VIP_DESCRIPTOR *const posted[] = {pool.read(0, 65536, source, on.source.handle()), pool.message(1, 64),
						  pool.read(2, 10, source + 65536, on.source.handle()),
						  pool.message(3, 4096)};
		for (VIP_DESCRIPTOR *d : posted)
			ASSERT_EQ(VIP_SUCCESS, VipPostSend(on.a, d, pool.handle()));
		for (unsigned i = 0; i < std::size(posted); i++) {
			ASSERT_TRUE(isDone(on.a, posted[i], i % 2 ? VIP_STATUS_OP_SEND : VIP_STATUS_OP_RDMA_READ));
			if (i % 2 == 0) {
				EXPECT_EQ(0, memcmp(pool.buffer(i), source + i * 32768, i ? 10 : 65536));
			}
		}
		for (unsigned i : {4U, 5U})
			ASSERT_EQ(pool.descriptor(i), takeReceive(on.b));
		EXPECT_TRUE(painted(pool.buffer(4), 64, 7));
		EXPECT_TRUE(painted(pool.buffer(5), 4096, 8));
	});
}

// [full: VipPostSend] Many RDMA reads can be outstanding, and both sides can read from each other at the same time.
TEST_F(RdmaRead, ManyInBothDirectionsAtOnce)
{
	each([&](const Reading &on) {
		for (auto [count, bytes] : {std::make_pair(128U, 300U), {16U, most() / 4}}) {
			Pool pool(nic, count, bytes);
			for (unsigned i = 0; i < count; i++)
				ASSERT_EQ(VIP_SUCCESS,
					  VipPostSend(i % 2 ? on.a : on.b, pool.read(i, bytes, on.source, i * 301),
						      pool.handle()));
			for (unsigned i = 0; i < count; i++) {
				ASSERT_TRUE(isDone(i % 2 ? on.a : on.b, pool.descriptor(i), VIP_STATUS_OP_RDMA_READ));
				EXPECT_EQ(0, memcmp(pool.buffer(i), on.source.data() + i * 301, bytes)) << i;
			}
		}
	});
}

// The data of what has VIP_CONTROL_QFENCE may be the result of the reads before it.
// [full: VipPostSend] A fenced send or RDMA write starts when the RDMA reads before it are done.
TEST_F(RdmaRead, FencedSendOrWriteStartsWhenTheReadsBeforeItAreDone)
{
	each([&](const Reading &on) {
		Pool pool(nic, 4, most());
		for (VIP_UINT32 size : {64U, 4096U, most(), most()})
			for (bool isWrite : {false, true}) {
				// Both ends of a write are in on.source.
				VIP_UINT32 bytes = isWrite ? std::min(size, most() / 2) : size;
				VIP_UCHAR *target = isWrite ? on.source.data() + bytes : pool.buffer(2);
				memset(pool.buffer(0), 0, most());
				memset(target, 0, bytes);
				paint(on.source.data(), bytes, bytes);
				ASSERT_TRUE(pool.postReceive(on.b, 2, bytes));
				VIP_DESCRIPTOR *read = pool.read(0, bytes, on.source);
				VIP_DESCRIPTOR *fenced =
					isWrite ? pool.write(1, bytes, on.source, bytes) : pool.message(1, bytes);
				fenced->CS.Control |= VIP_CONTROL_QFENCE;
				setSegment(fenced, fenced->CS.SegCount - 1U, pool.buffer(0), bytes, pool.handle());
				ASSERT_EQ(VIP_SUCCESS, VipPostSend(on.a, read, pool.handle()));
				ASSERT_EQ(VIP_SUCCESS, VipPostSend(on.a, fenced, pool.handle()));
				if (isWrite) { // a message behind it shows that the write has arrived
					ASSERT_EQ(VIP_SUCCESS, VipPostSend(on.a, pool.empty(3), pool.handle()));
				}
				// They start although nobody looks at the send queue.
				ASSERT_EQ(pool.descriptor(2), takeReceive(on.b));
				EXPECT_TRUE(painted(target, bytes, bytes));
				ASSERT_EQ(read, takeSend(on.a));
				ASSERT_TRUE(
					isDone(on.a, fenced, isWrite ? VIP_STATUS_OP_RDMA_WRITE : VIP_STATUS_OP_SEND));
				if (isWrite) {
					ASSERT_TRUE(isDone(on.a, pool.descriptor(3)));
				}
			}
	});
}

// [full: VipPostSend] A fence without RDMA reads before it means nothing.
TEST_F(RdmaRead, FenceWithoutAReadBeforeItDelaysNothing)
{
	atEach(nic, {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}, [&](VIP_RELIABILITY_LEVEL level) {
		Pair pair(nic, ofLevel(level));
		Pool pool(nic, 2, 64);
		ASSERT_TRUE(pool.postReceive(pair.b, 0, 64));
		VIP_DESCRIPTOR *d = pool.message(1, 64);
		d->CS.Control = VIP_CONTROL_QFENCE;
		ASSERT_TRUE(isSent(pair.a, d, pool.handle()));
		ASSERT_EQ(pool.descriptor(0), takeReceive(pair.b));
	});
}

// ---- what is refused ----

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
