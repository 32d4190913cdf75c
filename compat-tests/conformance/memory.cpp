// SPDX-License-Identifier: BSD-2-Clause
// Memory and protection: tags and regions.
#include "harness.h"

#include <set>

using namespace harness;

namespace
{

class Memory : public NicTest
{
      protected:
	bool works(VIP_PROTECTION_HANDLE viTag, const Region &from, const Region &to)
	{
		return works(viTag, from.data(), from.handle(), to.data(), to.handle());
	}
	bool works(VIP_PROTECTION_HANDLE viTag, const Region &within)
	{
		return works(viTag, within.data(), within.handle(), within.data() + within.size() - 64,
			     within.handle());
	}
	// Whether a message goes from the one region to the other between two VIs of the tag.
	bool works(VIP_PROTECTION_HANDLE viTag, VIP_UCHAR *from, VIP_MEM_HANDLE fromHandle, VIP_UCHAR *to,
		   VIP_MEM_HANDLE toHandle)
	{
		Pool pool(nic, 2, 64); // the tag of the descriptors' own region does not matter
		Pair pair(nic, ofTag(viTag));
		VIP_DESCRIPTOR *in = pool.message(0, 64), *out = pool.message(1, 64);
		setSegment(in, 0, to, 64, toHandle);
		setSegment(out, 0, from, 64, fromHandle);
		paint(from, 64, 7);
		EXPECT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		if (!harness::send(pair.a, out, pool.handle()) || errorOf(out)) {
			EXPECT_EQ(VIP_UINT32{VIP_STATUS_PROTECTION_ERROR}, errorOf(out)) << statusOf(out);
			return false;
		}
		EXPECT_EQ(in, takeReceive(pair.b));
		EXPECT_EQ(0U, errorOf(in)) << statusOf(in);
		return painted(to, 64, 7);
	}
	// Addresses and handles that do not belong together, that never were, or that are no more.
	static std::vector<std::pair<VIP_UCHAR *, VIP_MEM_HANDLE>> wrong(const Region &live, const Region &gone)
	{
		return {{live.data() + 1, live.handle()},
			{live.data() + 4096, live.handle()},
			{live.data(), 0},
			{live.data(), ~VIP_MEM_HANDLE{0}},
			{live.data(), live.handle() ^ 0x80000000U},
			{gone.data(), gone.handle()}};
	}
};

// [functional: VipCreatePtag VipRegisterMem VipCreateVi] VIs and regions without a tag work together with those of the
// first tag that was made, even if the regions are older than the tag.
TEST_F(Memory, FirstTagIsAnotherNameOfTheDefaultTag)
{
	Region older(nic, 4096);
	VIP_PROTECTION_HANDLE first = makeTag(nic);
	Region tagged(nic, 4096, memory(first)), plain(nic, 4096);
	EXPECT_TRUE(works(nullptr, tagged));
	EXPECT_TRUE(works(first, plain));
	EXPECT_TRUE(works(first, older));
}

// [functional: VipCreatePtag VipPostSend] A VI may only use regions of its own tag.
TEST_F(Memory, SecondTagIsApart)
{
	VIP_PROTECTION_HANDLE first = makeTag(nic), second = makeTag(nic), third = makeTag(nic);
	EXPECT_NE(first, second);
	Region one(nic, 4096, memory(first)), two(nic, 4096, memory(second)), three(nic, 4096, memory(third)),
		plain(nic, 4096);
	EXPECT_TRUE(works(second, two));
	EXPECT_FALSE(works(second, one, two));
	EXPECT_FALSE(works(second, plain, two));
	EXPECT_FALSE(works(second, three, two));
	EXPECT_FALSE(works(first, two, one));
	EXPECT_FALSE(works(nullptr, two, plain));
}

// [early: VipDestroyPtag] A tag cannot be destroyed while a VI or a region has it.
TEST_F(Memory, DestroyOfATagThatAViOrARegionUsesFails)
{
	for (VIP_PROTECTION_HANDLE used : {makeTag(nic), makeTag(nic)}) {
		{
			Vi vi(nic, ofTag(used));
			EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, used)) << "a VI";
		}
		{
			Region region(nic, 4096, memory(used));
			EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, used)) << "a region";
		}
		EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, used));
	}
}

// [early: VipDestroyPtag VipCreateVi VipRegisterMem] A destroyed tag is an invalid tag to every function.
TEST_F(Memory, DestroyedTagIsInvalidEverywhere)
{
	for (VIP_PROTECTION_HANDLE gone : {makeTag(nic), makeTag(nic)}) {
		ASSERT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, gone));
		VIP_VI_ATTRIBUTES viAttributes = ofTag(gone);
		VIP_MEM_ATTRIBUTES attributes = memory(gone);
		VIP_VI_HANDLE vi;
		VIP_MEM_HANDLE handle;
		Region region(nic, 4096);
		EXPECT_EQ(VIP_INVALID_PTAG, VipDestroyPtag(nic, gone));
		EXPECT_EQ(VIP_INVALID_PTAG, VipCreateVi(nic, &viAttributes, nullptr, nullptr, &vi));
		EXPECT_EQ(VIP_INVALID_PTAG, VipRegisterMem(nic, region.data(), 64, &attributes, &handle));
	}
}

// [early: VipRegisterMem] Each registered region has a handle that no other one has at the time.
TEST_F(Memory, HandleIsNeverZeroNorAllOnesNorThatOfALiveRegion)
{
	std::vector<VIP_UCHAR> bytes(64 * 256);
	std::set<VIP_MEM_HANDLE> handles;
	std::vector<VIP_MEM_HANDLE> order;
	for (unsigned i = 0; i < 256; i++) {
		VIP_MEM_HANDLE handle = 0;
		ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, bytes.data() + i * 64, 64, nullptr, &handle));
		EXPECT_NE(0U, handle);
		EXPECT_NE(0xFFFFFFFFU, handle);
		EXPECT_TRUE(handles.insert(handle).second) << "given twice";
		order.push_back(handle);
	}
	for (unsigned i = 0; i < 256; i++)
		EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, bytes.data() + i * 64, order[i]));
}

// [functional: VipRegisterMem VipDeregisterMem VipQueryMem] Memory that is registered twice has two handles. Each has
// its own rights, which VipQueryMem returns, and lives on without the other.
TEST_F(Memory, SameRangeTwiceGivesTwoHandlesWithRightsOfTheirOwn)
{
	Region one(nic, 4096);
	VIP_MEM_ATTRIBUTES writable = memory(nullptr, VIP_TRUE), got = writable;
	VIP_MEM_HANDLE other = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, one.data(), 4096, &writable, &other));
	EXPECT_NE(one.handle(), other);
	EXPECT_EQ(VIP_SUCCESS, VipQueryMem(nic, one.data(), one.handle(), &got));
	EXPECT_FALSE(got.EnableRdmaWrite);
	EXPECT_FALSE(got.EnableRdmaRead);
	EXPECT_EQ(VIP_SUCCESS, VipQueryMem(nic, one.data(), other, &got));
	EXPECT_TRUE(got.EnableRdmaWrite);
	EXPECT_TRUE(works(nullptr, one.data(), one.handle(), one.data() + 64, other));
	EXPECT_EQ(VIP_SUCCESS, one.deregister());
	EXPECT_TRUE(works(nullptr, one.data(), other, one.data() + 64, other)) << "the other handle lives on";
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, one.data(), other));
}

// [early: VipRegisterMem VipDeregisterMem] Regions may begin and end at any byte and overlap each other.
TEST_F(Memory, OverlappingRegionsOfAnyAlignmentAndLength)
{
	std::vector<VIP_UCHAR> bytes(16384);
	VIP_MEM_HANDLE low = 0, high = 0;
	VIP_UCHAR *lowData = bytes.data() + 13, *highData = bytes.data() + 4099;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, lowData, 4999, nullptr, &low));
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, highData, 777, nullptr, &high));
	EXPECT_TRUE(works(nullptr, lowData, low, highData, high));
	EXPECT_TRUE(works(nullptr, highData + 777 - 64, high, lowData, low)) << "up to the last byte";
	VIP_MEM_HANDLE single = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, highData, 1, nullptr, &single)) << "one byte";
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, highData, single));
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, lowData, low));
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, highData, high));
}

// [early: VipDeregisterMem VipPostSend] A region is deregistered by its handle together with the address it was
// registered with. Afterwards its handle may not be used any more.
TEST_F(Memory, DeregisterNeedsALiveHandleAndItsAddress)
{
	Region live(nic, 8192), gone(nic, 4096);
	ASSERT_EQ(VIP_SUCCESS, gone.deregister());
	for (auto [data, handle] : wrong(live, gone))
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipDeregisterMem(nic, data, handle)) << handle;
	EXPECT_TRUE(works(nullptr, live));
	EXPECT_FALSE(works(nullptr, gone, live));
	EXPECT_EQ(VIP_SUCCESS, live.deregister());
}

// [functional: VipQueryMem VipSetMemAttributes] VipQueryMem and VipSetMemAttributes need a region's handle together
// with its address.
TEST_F(Memory, QueryMemAndSetMemAttributesNeedALiveHandleAndItsAddress)
{
	Region live(nic, 8192), gone(nic, 4096);
	VIP_MEM_ATTRIBUTES attributes{};
	ASSERT_EQ(VIP_SUCCESS, gone.deregister());
	for (auto [data, handle] : wrong(live, gone)) {
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryMem(nic, data, handle, &attributes));
		EXPECT_EQ(VIP_INVALID_PARAMETER, VipSetMemAttributes(nic, data, handle, &attributes));
	}
}

// [functional: VipRegisterMem] A region may be many megabytes long, and is usable to its last byte.
TEST_F(Memory, LargeRegion)
{
	constexpr size_t bytes = 64 << 20;
	Region region(nic, bytes);
	EXPECT_TRUE(works(nullptr, region));
}

} // namespace
