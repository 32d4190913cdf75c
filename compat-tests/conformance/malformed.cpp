// SPDX-License-Identifier: BSD-2-Clause
// Descriptors that are malformed, or name memory that they may not use. Posting them succeeds, and
// their status reports the error.
#include "harness.h"

#include <algorithm>

using namespace harness;

namespace
{

class DescriptorError : public PairTest
{
      protected:
	// The completed descriptor has this error bit and no other. The op bits of a malformed
	// descriptor are not checked.
	void expectSendFails(VIP_UINT32 error, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		Pair pair(nic);
		ASSERT_TRUE(pair.connected);
		ASSERT_TRUE(harness::send(pair.a, d, handle));
		EXPECT_EQ(Status{error}, Status{errorOf(d)});
	}
	void expectReceiveFails(VIP_UINT32 error, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		Pool out(nic, 1, 64);
		Pair pair(nic);
		ASSERT_TRUE(pair.connected);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, d, handle));
		// The library may find the error when the receive is posted or when a message comes
		// for it.
		ASSERT_TRUE(out.postSend(pair.a, 0, 64));
		ASSERT_EQ(d, takeReceive(pair.b));
		EXPECT_EQ(Status{error}, Status{errorOf(d)});
		takeSend(pair.a);
	}
	// A send names memory that it may not use. This also ends a reliable connection.
	void expectProtectionError(Vi &from, Vi &to, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle)
	{
		ASSERT_TRUE(isSent(from, d, handle, VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR));
		expectBroken(from, to);
	}
};

TEST_F(DescriptorError, ReservedControlBitsAreAFormatError)
{
	Pool pool(nic, 1, 64);
	for (int bit : {0x10, 0x100, 0x8000, 0xFFF0}) {
		SCOPED_TRACE(bit);
		VIP_DESCRIPTOR *d = pool.message(0, 64);
		d->CS.Control = static_cast<VIP_UINT16>(bit);
		expectSendFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
		d = pool.message(0, 64);
		d->CS.Control = static_cast<VIP_UINT16>(bit);
		expectReceiveFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
	}
}

TEST_F(DescriptorError, ReservedOperationIsAFormatError)
{
	Pool pool(nic, 1, 64);
	VIP_DESCRIPTOR *d = pool.message(0, 64);
	d->CS.Control = VIP_CONTROL_OP_RESERVED;
	expectSendFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
	d = pool.message(0, 64);
	d->CS.Control = VIP_CONTROL_OP_RESERVED;
	expectReceiveFails(VIP_STATUS_FORMAT_ERROR, d, pool.handle());
}

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

TEST_F(DescriptorError, SendFromAnUnknownHandleIsAProtectionError)
{
	Pool pool(nic, 1, 64);
	for (VIP_MEM_HANDLE unknown :
	     {VIP_MEM_HANDLE{0}, ~VIP_MEM_HANDLE{0}, VIP_MEM_HANDLE{0xDEADBEEF}}) {
		SCOPED_TRACE(unknown);
		Pair pair(nic);
		ASSERT_TRUE(pair.connected);
		VIP_DESCRIPTOR *d = pool.message(0, 64);
		d->DS[0].Local.Handle = unknown;
		expectProtectionError(pair.a, pair.b, d, pool.handle());
	}
}

TEST_F(DescriptorError, SendFromADeregisteredHandleIsAProtectionError)
{
	Pool pool(nic, 1, 64);
	Region gone(nic, 4096);
	VIP_DESCRIPTOR *d = pool.message(0, 64);
	setSegment(d, 0, gone.data(), 64, gone.handle());
	ASSERT_EQ(VIP_SUCCESS, gone.deregister());
	expectProtectionError(a(), b(), d, pool.handle());
}

TEST_F(DescriptorError, SendFromOutsideOfTheRegionIsAProtectionError)
{
	Pool pool(nic, 2, 64, nullptr, 4);
	std::vector<VIP_UCHAR> bytes(8192);
	VIP_MEM_HANDLE handle = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, bytes.data() + 1000, 1000, nullptr, &handle));
	struct {
		VIP_UCHAR *data;
		VIP_UINT32 length;
		const char *what;
	} const cases[] = {{bytes.data() + 1000 + 937, 64, "one byte past the end"},
			   {bytes.data() + 999, 64, "one byte before the beginning"},
			   {bytes.data() + 4000, 64, "wholly outside"},
			   {reinterpret_cast<VIP_UCHAR *>(~uintptr_t{0} - 31), 64,
			    "an end that wraps around"}};
	for (const auto &c : cases) {
		SCOPED_TRACE(c.what);
		Pair pair(nic);
		ASSERT_TRUE(pair.connected);
		ASSERT_TRUE(pool.postReceive(pair.b, 1, 64));
		VIP_DESCRIPTOR *d = pool.message(0, 64);
		setSegment(d, 0, c.data, c.length, handle);
		expectProtectionError(pair.a, pair.b, d, pool.handle());
	}
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, bytes.data() + 1000, handle));
}

TEST_F(DescriptorError, SendFromOneWrongSegmentAmongRightOnesIsAProtectionError)
{
	Pool pool(nic, 2, 64, nullptr, 4);
	ASSERT_TRUE(pool.postReceive(b(), 1, 64));
	VIP_DESCRIPTOR *d = pool.empty(0);
	d->CS.SegCount = 3;
	setSegment(d, 0, pool.buffer(0), 8, pool.handle());
	setSegment(d, 1, pool.buffer(0), 8, pool.handle());
	setSegment(d, 2, pool.buffer(0), 8, 0xDEADBEEF);
	expectProtectionError(a(), b(), d, pool.handle());
}

TEST_F(DescriptorError, SendFromMemoryOfAnotherTagIsAProtectionError)
{
	makeTag(nic); // another name of the default tag
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool pool(nic, 2, 64), other(nic, 1, 64, memory(separate));
	ASSERT_TRUE(pool.postReceive(b(), 1, 64));
	VIP_DESCRIPTOR *d = pool.message(0, 64);
	setSegment(d, 0, other.buffer(0), 64, other.handle());
	expectProtectionError(a(), b(), d, pool.handle());
}

TEST_F(DescriptorError, RdmaWriteFromAnUnknownLocalHandleIsAProtectionError)
{
	Pool pool(nic, 1, 64);
	VIP_DESCRIPTOR *d = pool.write(0, 32, pool.buffer(0) + 32, pool.handle());
	d->DS[1].Local.Handle = 0xDEADBEEF;
	ASSERT_TRUE(isSent(a(), d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_PROTECTION_ERROR));
}

TEST_F(DescriptorError, ReceiveIntoAnUnknownHandleIsAProtectionError)
{
	Pool pool(nic, 1, 64);
	VIP_DESCRIPTOR *d = pool.message(0, 64);
	d->DS[0].Local.Handle = 0xDEADBEEF;
	expectReceiveFails(VIP_STATUS_PROTECTION_ERROR, d, pool.handle());
}

TEST_F(DescriptorError, ReceiveIntoMemoryOfAnotherTagIsAProtectionError)
{
	makeTag(nic); // another name of the default tag
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool pool(nic, 1, 64), other(nic, 1, 64, memory(separate));
	VIP_DESCRIPTOR *d = pool.message(0, 64);
	setSegment(d, 0, other.buffer(0), 64, other.handle());
	expectReceiveFails(VIP_STATUS_PROTECTION_ERROR, d, pool.handle());
}

TEST_F(DescriptorError, MessageThatReachesPastTheEndOfTheReceivesRegionIsNotWrittenThere)
{
	Pool pool(nic, 2, 1024);
	std::vector<VIP_UCHAR> bytes(8192);
	VIP_MEM_HANDLE handle = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, bytes.data(), 1000, nullptr, &handle));
	VIP_DESCRIPTOR *in = pool.message(0, 1024);
	setSegment(in, 0, bytes.data() + 500, 1024, handle);
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b(), in, pool.handle()));
	paint(pool.buffer(1), 1024, 1);
	ASSERT_TRUE(pool.postSend(a(), 1, 1024));
	ASSERT_EQ(in, takeReceive(b()));
	// The message is longer than the room in the region, so either error is right.
	EXPECT_TRUE(errorOf(in) == VIP_STATUS_PROTECTION_ERROR ||
		    errorOf(in) == VIP_STATUS_LENGTH_ERROR)
		<< statusOf(in);
	EXPECT_TRUE(std::all_of(bytes.begin() + 1000, bytes.end(),
				[](VIP_UCHAR byte) { return byte == 0; }));
	ASSERT_TRUE(takeSend(a()));
	EXPECT_NE(0U, errorOf(pool.descriptor(1)));
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, bytes.data(), handle));
}

} // namespace
