// SPDX-License-Identifier: BSD-2-Clause
// Descriptors: their fields and what the library writes into them, segments, immediate data,
// Length, Status.
#include "harness.h"

#include <cstring>

using namespace harness;

namespace
{

constexpr VIP_MEM_HANDLE kGarbageHandle = 0xDEADBEEF;
void *const kGarbageAddress = reinterpret_cast<void *>(0x13);

class Descriptor : public PairTest
{
      protected:
	// Posts the receive at b, sends at a, and takes both. Most of these tests do this.
	void exchange(VIP_DESCRIPTOR *receive, VIP_DESCRIPTOR *message, VIP_MEM_HANDLE handle)
	{
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b(), receive, handle));
		ASSERT_TRUE(isSent(a(), message, handle));
		ASSERT_EQ(receive, takeReceive(b()));
		EXPECT_EQ(0U, errorOf(receive)) << statusOf(receive);
	}
};

// [early: VipPostSend VipPostRecv] A message is gathered from its segments, and scattered into the receive's, in the
// order of the segments.
TEST_F(Descriptor, SeveralSegmentsAreGatheredAndScatteredInOrder)
{
	using Pieces = std::vector<std::pair<VIP_UINT32, VIP_UINT32>>;
	Pool pool(nic, 2, 8192, {}, 8);
	VIP_DESCRIPTOR *out = pool.empty(0), *in = pool.empty(1);
	// The segments go from back to front: their order decides, not that of the addresses.
	const Pieces from{{5000, 1000}, {3000, 1}, {100, 1500}, {0, 63}}, to{{4000, 7}, {1, 1994}, {6000, 2000}};
	auto bytes = [&](size_t slot, const Pieces &pieces) {
		std::string all;
		for (auto [place, length] : pieces)
			all.append(reinterpret_cast<char *>(pool.buffer(slot)) + place, length);
		return all;
	};
	paint(pool.buffer(0), 8192, 1);
	for (auto [place, length] : from)
		setSegment(out, out->CS.SegCount++, pool.buffer(0) + place, length, pool.handle());
	for (auto [place, length] : to)
		setSegment(in, in->CS.SegCount++, pool.buffer(1) + place, length, pool.handle());
	exchange(in, out, pool.handle());
	EXPECT_EQ(1000U + 1 + 1500 + 63, in->CS.Length);
	EXPECT_EQ(bytes(0, from) + std::string(1437, '\0'), bytes(1, to)) << "with what is behind the message";
}

// [functional: VipPostSend VipPostRecv] Each segment may be of another region.
TEST_F(Descriptor, SegmentsOfSeveralRegionsMakeOneMessage)
{
	Pool pool(nic, 2, 64, {}, 4);
	Region one(nic, 4096), other(nic, 4096);
	paint(one.data(), 100, 3);
	paint(other.data(), 100, 4);
	VIP_DESCRIPTOR *out = pool.empty(0), *in = pool.empty(1);
	out->CS.SegCount = in->CS.SegCount = 2;
	setSegment(out, 0, one.data(), 100, one.handle());
	setSegment(out, 1, other.data(), 100, other.handle());
	setSegment(in, 0, other.data() + 1000, 100, other.handle());
	setSegment(in, 1, one.data() + 1000, 100, one.handle());
	exchange(in, out, pool.handle());
	EXPECT_EQ(200U, in->CS.Length);
	EXPECT_TRUE(painted(other.data() + 1000, 100, 3));
	EXPECT_TRUE(painted(one.data() + 1000, 100, 4));
}

// [functional: VipPostSend VipPostRecv] A message may consist of one such segment.
TEST_F(Descriptor, OneSegmentOfLengthZeroWithAGarbageHandleIsAnEmptyMessage)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.empty(0), *in = pool.empty(1);
	for (VIP_DESCRIPTOR *d : {out, in}) {
		d->CS.SegCount = 1;
		setSegment(d, 0, kGarbageAddress, 0, kGarbageHandle);
	}
	in->CS.Length = 77;
	exchange(in, out, pool.handle());
	EXPECT_EQ(0U, in->CS.Length);
}

// [early: VipPostSend VipPostRecv] A message may have no data.
TEST_F(Descriptor, NoSegmentAtAllIsAnEmptyMessage)
{
	Pool pool(nic, 2, 64);
	pool.empty(1)->CS.Length = 77;
	exchange(pool.descriptor(1), pool.empty(0), pool.handle());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(pool.descriptor(1)));
	EXPECT_EQ(0U, pool.descriptor(1)->CS.Length);
	// The receive of an empty message may have room.
	exchange(pool.message(1, 64), pool.empty(0), pool.handle());
	EXPECT_EQ(0U, pool.descriptor(1)->CS.Length);
}

// [early: VipPostSend VipRecvWait] Immediate data of 32 bits travels with a message, or is all that it has, and the
// receive's status says so.
TEST_F(Descriptor, ImmediateDataArrivesWithAPayloadAndWithout)
{
	Pool pool(nic, 2, 64);
	paint(pool.buffer(0), 64, 9);
	for (VIP_UINT32 value : {0U, 1U, 0xA1B2C3D4U, 0x80000000U, 0xFFFFFFFFU})
		for (VIP_UINT32 length : {0U, 64U}) {
			VIP_DESCRIPTOR *out = setImmediate(length ? pool.message(0, length) : pool.empty(0), value);
			VIP_DESCRIPTOR *in = length ? pool.message(1, length) : pool.empty(1);
			in->CS.ImmediateData = ~value;
			exchange(in, out, pool.handle());
			EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE), statusOf(in));
			EXPECT_EQ(value, in->CS.ImmediateData);
			EXPECT_EQ(length, in->CS.Length);
			EXPECT_TRUE(painted(pool.buffer(1), length, 9));
		}
}

// [functional: VipPostSend VipSendWait] The segments decide how long a message is. Length and immediate data of a send
// are left alone.
TEST_F(Descriptor, ImmediateDataAndLengthOfASendStayAsTheyWere)
{
	// Length is the sum of the segments, an old value, or 0. The segments decide how much is
	// sent.
	Pool pool(nic, 2, 64);
	for (VIP_UINT32 length : {64U, 0U, 5U, 4000000000U}) {
		VIP_DESCRIPTOR *out = pool.message(0, 64), *in = pool.message(1, 64);
		setImmediate(out, 0x600DDA7A);
		out->CS.Length = length;
		exchange(in, out, pool.handle());
		// VIA leaves open whether IMMEDIATE is also set at the sender.
		EXPECT_EQ(status(VIP_STATUS_OP_SEND), Status{out->CS.Status & ~VIP_STATUS_IMMEDIATE});
		EXPECT_EQ(0x600DDA7AU, out->CS.ImmediateData);
		EXPECT_EQ(length, out->CS.Length);
		EXPECT_EQ(64U, in->CS.Length);
	}
}

// [functional: VipPostSend] Immediate data is sent only if the control field has the bit for it.
TEST_F(Descriptor, ImmediateDataFieldWithoutItsControlBitIsNotSent)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.message(0, 64), *in = pool.message(1, 64);
	out->CS.ImmediateData = 0x600DDA7A;
	exchange(in, out, pool.handle());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(in));
	EXPECT_EQ(status(VIP_STATUS_OP_SEND), statusOf(out));
	EXPECT_EQ(0x600DDA7AU, out->CS.ImmediateData);
}

// [functional: VipPostRecv] The immediate bit in the control field of a receive has no effect.
TEST_F(Descriptor, ImmediateInTheControlOfAReceiveIsIgnored)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.message(0, 64), *in = pool.message(1, 64);
	setImmediate(in, 0x0BADF00D);
	exchange(in, out, pool.handle());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(in)) << "none was sent";
	out = pool.message(0, 64), in = pool.message(1, 64);
	setImmediate(in, 0x0BADF00D);
	setImmediate(out, 42);
	exchange(in, out, pool.handle());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE), statusOf(in));
	EXPECT_EQ(42U, in->CS.ImmediateData);
}

// [functional: VipPostSend VipPostRecv] Status and length of a receive are written when it is done, and mean nothing
// before: the segments decide how much room it has. Programs may wait for the done bit in the descriptor's memory: it
// is clear from posting on.
TEST_F(Descriptor, StaleStatusAndLengthInAPostedDescriptorAreIgnored)
{
	Pool pool(nic, 2, 64);
	for (VIP_UINT32 stale : {0U, 0xFFFFFFFFU, VIP_UINT32{VIP_STATUS_DONE}, VIP_UINT32{VIP_STATUS_ERROR_MASK}}) {
		VIP_DESCRIPTOR *out = pool.message(0, 50), *in = pool.message(1, 64);
		out->CS.Status = in->CS.Status = stale;
		in->CS.Length = stale;
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b(), in, pool.handle()));
		EXPECT_EQ(0U, __atomic_load_n(&in->CS.Status, __ATOMIC_RELAXED) & VIP_STATUS_DONE);
		expectNone(VIP_NOT_DONE, VipRecvDone, b()); // nothing was sent yet
		ASSERT_TRUE(isSent(a(), out, pool.handle()));
		ASSERT_TRUE(isReceived(b(), in));
		EXPECT_EQ(50U, in->CS.Length);
	}
}

// [functional: VipPostSend VipPostRecv] The contents of the reserved fields and of the link do not matter when a
// descriptor is posted.
TEST_F(Descriptor, ReservedFieldsAndTheLinkAreIgnored)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.message(0, 64), *in = pool.message(1, 64);
	for (VIP_DESCRIPTOR *d : {out, in}) {
		d->CS.Reserved = 0xFFFFFFFF;
		d->CS.Next.AddressBits = 0x0123456789ABCDEF;
		d->CS.NextHandle = 0xFFFFFFFF;
	}
	exchange(in, out, pool.handle());
	EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(in));
	EXPECT_EQ(64U, in->CS.Length);
}

// [functional: VipPostSend VipPostRecv] Programs that name a wrong region for the descriptor itself have always worked.
TEST_F(Descriptor, WrongHandleForTheDescriptorItselfIsTolerated)
{
	Pool pool(nic, 2, 64);
	paint(pool.buffer(0), 64, 1);
	for (VIP_MEM_HANDLE wrong : {VIP_MEM_HANDLE{0}, ~VIP_MEM_HANDLE{0}, kGarbageHandle}) {
		memset(pool.buffer(1), 0, 64);
		exchange(pool.message(1, 64), pool.message(0, 64), wrong);
		EXPECT_TRUE(painted(pool.buffer(1), 64, 1));
	}
}

// [functional: VipSendWait VipRecvWait] A descriptor that is done has the segments and the control field that it was
// posted with.
TEST_F(Descriptor, CompletedDescriptorKeepsItsSegmentsAndControl)
{
	Pool pool(nic, 2, 64);
	VIP_DESCRIPTOR *out = pool.message(0, 64), *in = pool.message(1, 64);
	VIP_DESCRIPTOR outBefore = *out, inBefore = *in;
	exchange(in, out, pool.handle());
	for (auto [now, before] : {std::pair(out, &outBefore), std::pair(in, &inBefore)}) {
		EXPECT_EQ(0, memcmp(now->DS, before->DS, sizeof now->DS));
		EXPECT_EQ(before->CS.SegCount, now->CS.SegCount);
		EXPECT_EQ(before->CS.Control, now->CS.Control);
	}
}

// [functional: VipPostRecv] A receive's bounds are checked for the data that arrives, also in the last of many
// segments.
TEST_F(Descriptor, ReceivePastTheEndOfItsRegionIsFineWhileNoMessageIsThatLong)
{
	for (unsigned before : {0U, 251U}) {
		Pool pool(nic, 2, 4096, {}, 252);
		Region region(nic, 4096);
		VIP_DESCRIPTOR *in = pool.empty(0);
		for (; in->CS.SegCount < before; in->CS.SegCount++)
			setSegment(in, in->CS.SegCount, pool.buffer(0) + 8 * in->CS.SegCount, 8, pool.handle());
		setSegment(in, in->CS.SegCount++, region.data() + 4000, 60000, region.handle());
		paint(pool.buffer(1), 4096, 8);
		exchange(in, pool.message(1, 8 * before + 64), pool.handle());
		EXPECT_EQ(status(VIP_STATUS_OP_RECEIVE), statusOf(in));
		EXPECT_TRUE(painted(pool.buffer(0), 8 * before, 8));
		EXPECT_EQ(0, memcmp(region.data() + 4000, pool.buffer(1) + 8 * before, 64));
	}
}

// ---- malformed ones: posting them succeeds, and their status reports the error ----

class DescriptorError : public NicTest
{
      protected:
	// The completed descriptor has this error bit and no other. The op bits of a malformed
	// descriptor are not checked.
	void expectSendFails(VIP_UINT32 error, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		Pair pair(nic);
		ASSERT_TRUE(harness::send(pair.a, d, handle));
		EXPECT_EQ(Status{error}, Status{errorOf(d)});
	}
	void expectReceiveFails(VIP_UINT32 error, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		Pool out(nic, 1, 64);
		Pair pair(nic);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, d, handle));
		// The library may find the error when the receive is posted or when a message comes
		// for it.
		ASSERT_TRUE(out.postSend(pair.a, 0, 64));
		ASSERT_EQ(d, takeReceive(pair.b));
		EXPECT_EQ(Status{error}, Status{errorOf(d)});
		takeSend(pair.a);
	}
};

// [functional: VipPostSend VipPostRecv] The reserved bits of the control field are zero. The fourth value of the
// operation field is not an operation.
TEST_F(DescriptorError, ReservedBitsAndOperationAreAFormatError)
{
	Pool pool(nic, 1, 64);
	for (int control : {0x10, 0x100, 0x8000, 0xFFF0, VIP_CONTROL_OP_RESERVED})
		for (bool receive : {false, true}) {
			SCOPED_TRACE(control);
			VIP_DESCRIPTOR *d = pool.message(0, 64);
			d->CS.Control = static_cast<VIP_UINT16>(control);
			if (receive)
				expectReceiveFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
			else
				expectSendFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
		}
}

// [functional: VipPostRecv] RDMA is for the send queue.
TEST_F(DescriptorError, RdmaOnTheReceiveQueueIsAFormatError)
{
	Pool pool(nic, 1, 64);
	for (auto operation : {VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
		SCOPED_TRACE(operation);
		VIP_DESCRIPTOR *d = pool.write(0, 32, pool.buffer(0) + 32, pool.handle());
		d->CS.Control = static_cast<VIP_UINT16>(operation);
		expectReceiveFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
	}
}

// [functional: VipPostSend] RDMA begins with an address segment.
TEST_F(DescriptorError, RdmaWithoutAnAddressSegmentIsAFormatError)
{
	Pool pool(nic, 1, 64);
	for (auto operation : {VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
		SCOPED_TRACE(operation);
		VIP_DESCRIPTOR *d = pool.empty(0);
		d->CS.Control = static_cast<VIP_UINT16>(operation);
		expectSendFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
	}
}

} // namespace
