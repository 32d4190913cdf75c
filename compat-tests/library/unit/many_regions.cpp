// SPDX-License-Identifier: BSD-2-Clause
// More regions than a queue remembers, so that they take each other's places.
#include "support.h"

namespace
{

class ManyRegions : public NicTest
{
      protected:
	static constexpr size_t REGIONS = 9, SIZE = 4096;
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		vi_kind.ReliabilityLevel = VIP_SERVICE_UNRELIABLE; // the VI lives on after an error
		make_pair();
		for (size_t i = 0; i < REGIONS; i++) {
			VIP_MEM_ATTRIBUTES attributes{};
			ASSERT_EQ(VipRegisterMem(nic, memory.data(i * SIZE), SIZE, &attributes, &handles[i]),
				  VIP_SUCCESS);
		}
	}
	void deregister(size_t region)
	{
		EXPECT_EQ(VipDeregisterMem(nic, memory.data(region * SIZE), handles[region]), VIP_SUCCESS);
	}
	VIP_DESCRIPTOR *about(VIP_MEM_HANDLE handle, size_t place, size_t number = 0)
	{
		VIP_DESCRIPTOR *d = descriptor(number, {{memory.data(place * SIZE), 8}});
		d->DS[0].Local.Handle = handle;
		return d;
	}
	void expect_send(VIP_MEM_HANDLE handle, size_t place, VIP_UINT32 status)
	{
		VIP_DESCRIPTOR *d = about(handle, place);
		ASSERT_EQ(post_send(a, d), VIP_SUCCESS);
		expect_sent(a, d, status);
	}
	// Of a receive and of a send.
	void expect_receive(VIP_MEM_HANDLE handle, size_t place, VIP_UINT32 status)
	{
		VIP_DESCRIPTOR *r = about(handle, place, 1);
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		expect_send(handle, place, status);
		expect_received(b, r, status);
	}
	VIP_MEM_HANDLE handles[REGIONS] = {};
};

TEST_F(ManyRegions, AHandleIsGoodForItsOwnRegionOnly)
{
	for (size_t named = 0; named < REGIONS; named++)
		for (size_t place = 0; place < REGIONS; place++) {
			SCOPED_TRACE(testing::Message() << named << " at " << place);
			expect_send(handles[named], place, named == place ? 0 : VIP_STATUS_PROTECTION_ERROR);
		}
}

TEST_F(ManyRegions, AHandleThatWasJustUsedIsNoneOnceDeregistered)
{
	for (size_t i = 0; i < REGIONS; i++) {
		SCOPED_TRACE(i);
		expect_receive(handles[i], i, 0);
		deregister(i);
		expect_receive(handles[i], i, VIP_STATUS_PROTECTION_ERROR);
		if (i + 1 < REGIONS)
			expect_send(handles[i + 1], i + 1, 0);
		expect_send(handles[i], i, VIP_STATUS_PROTECTION_ERROR);
	}
}

} // namespace
