// SPDX-License-Identifier: BSD-2-Clause
// Devices that are like no profile: in keys, and without inline data.
#include "support.h"

#include <set>

namespace
{

using Devices = NicTest;

// The profiles have the other kinds of keys.
TEST_F(Devices, WhoseKeysOfOneRegionDiffer)
{
	std::set<VIP_MEM_HANDLE> handles;

	open_with([](fake_device &d) { d.keys = FAKE_KEYS_DIFFERENT; });
	allow_reads();
	for (VIP_RELIABILITY_LEVEL level : {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}) {
		vi_kind.ReliabilityLevel = level;
		make_pair();
		expect_traffic(a, b);
		memcpy(memory.data(), "one two three", 14);
		VIP_DESCRIPTOR *w = write_descriptor(0, memory.data(14), {memory.data(), 14});
		VIP_DESCRIPTOR *r = write_descriptor(1, memory.data(14), {memory.data(28), 14});
		r->CS.Control = VIP_CONTROL_OP_RDMAREAD;
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, r), VIP_SUCCESS);
		expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE);
		expect_sent(a, r, VIP_STATUS_OP_RDMA_READ);
		EXPECT_STREQ(memory.data(28), "one two three");
		memset(memory.data(), 0, 42);
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

} // namespace
