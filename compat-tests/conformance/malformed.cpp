// SPDX-License-Identifier: BSD-2-Clause
// Descriptors with errors: malformed ones. Posting them succeeds, and their status reports the error.
#include "harness.h"

using namespace harness;

namespace
{

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
