// SPDX-License-Identifier: BSD-2-Clause
// Memory that a VI may not use: it is named in one of several ways. No operation reads or writes it, and its
// descriptor has an error.
#include "rdma_read.h"

#include <algorithm>
#include <optional>

using namespace harness;

namespace
{

constexpr VIP_UCHAR kPaint = 0xEE;
constexpr size_t kBegin = 1000, kLength = 1000; // of the region within `bytes`

struct Place {
	VIP_UCHAR *data;
	VIP_MEM_HANDLE handle;
};

class ForeignMemory;
struct Way {
	const char *name;
	Place (*place)(ForeignMemory &);
	bool isOutside; // of a region that the VI may use
};

class ForeignMemory : public RdmaRead, public testing::WithParamInterface<Way>
{
      public:
	static const Way kWays[9];

      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(RdmaRead::SetUp());
		VIP_BOOLEAN reads = nic.attributes().RDMAReadSupport ? VIP_TRUE : VIP_FALSE;
		VIP_MEM_ATTRIBUTES open = memory(nullptr, VIP_TRUE, reads);
		makeTag(nic); // another name of the default tag
		ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, bytes.data() + kBegin, kLength, &open, &handle));
		gone.emplace(nic, 4096, open);
		others.emplace(nic, 4096, memory(makeTag(nic), VIP_TRUE, reads));
		for (Region *region : {&*gone, &*others})
			std::fill_n(region->data(), region->size(), kPaint);
		ASSERT_EQ(VIP_SUCCESS, gone->deregister());
		place = GetParam().place(*this);
	}
	void TearDown() override
	{
		if (HasFatalFailure())
			return; // perhaps there is no memory
		VIP_UCHAR *begin = bytes.data() + kBegin;
		EXPECT_TRUE(unchanged(bytes.data(), begin));
		EXPECT_TRUE(unchanged(begin + kLength, bytes.data() + bytes.size()));
		for (Region *region : {&*gone, &*others})
			EXPECT_TRUE(unchanged(region->data(), region->data() + region->size()));
		EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, begin, handle));
	}
	static bool unchanged(const VIP_UCHAR *begin, const VIP_UCHAR *end)
	{
		return std::all_of(begin, end, [](VIP_UCHAR byte) { return byte == kPaint; });
	}
	// Makes the place the descriptor's last segment.
	VIP_DESCRIPTOR *spoilt(VIP_DESCRIPTOR *d)
	{
		setSegment(d, d->CS.SegCount - 1U, place.data, 64, place.handle);
		return d;
	}
	std::vector<VIP_UCHAR> bytes = std::vector<VIP_UCHAR>(8192, kPaint);
	VIP_MEM_HANDLE handle = 0;
	std::optional<Region> gone, others;
	Place place{};
};

const Way ForeignMemory::kWays[] = {
	{"HandleZero",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + kBegin, 0};
	 },
	 false},
	{"HandleOfAllOnes",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + kBegin, ~VIP_MEM_HANDLE{0}};
	 },
	 false},
	{"UnknownHandle",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + kBegin, 0xDEADBEEF};
	 },
	 false},
	{"DeregisteredHandle",
	 [](ForeignMemory &m) {
		 return Place{m.gone->data(), m.gone->handle()};
	 },
	 false},
	{"AnotherTag",
	 [](ForeignMemory &m) {
		 return Place{m.others->data(), m.others->handle()};
	 },
	 false},
	{"OneBytePastTheEnd",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + kBegin + kLength - 63, m.handle};
	 },
	 true},
	{"OneByteBeforeTheBeginning",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + kBegin - 1, m.handle};
	 },
	 true},
	{"WhollyOutside",
	 [](ForeignMemory &m) {
		 return Place{m.bytes.data() + 4000, m.handle};
	 },
	 true},
	{"AnEndThatWrapsAround",
	 [](ForeignMemory &m) {
		 return Place{reinterpret_cast<VIP_UCHAR *>(~uintptr_t{0} - 31), m.handle};
	 },
	 true},
};

// [early: VipPostSend VipDeregisterMem VipCreatePtag] Each segment of a send names a registered region of the VI's tag
// by its handle, and lies wholly inside of it; else the send is a protection error and ends the connection.
TEST_P(ForeignMemory, IsNotSent)
{
	for (VIP_UINT16 segments : {VIP_UINT16{1}, VIP_UINT16{3}}) { // the last one names it
		Pool pool(nic, 2, 128, nullptr, 3);
		Pair pair(nic);
		ASSERT_TRUE(pool.postReceive(pair.b, 1, 128));
		VIP_DESCRIPTOR *d = pool.empty(0);
		for (d->CS.SegCount = 0; d->CS.SegCount < segments; d->CS.SegCount++)
			setSegment(d, d->CS.SegCount, pool.buffer(0), 8, pool.handle());
		ASSERT_TRUE(isSent(pair.a, spoilt(d), pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR));
		expectBroken(pair.a, pair.b);
	}
}

// The library may find the error when the receive is posted, or when a message comes for it. A message may also be
// longer than the room that is left in the region.
// [functional: VipPostRecv VipDeregisterMem VipCreatePtag] A receive names registered memory of its VI's tag. Nothing
// is ever written elsewhere, as behind a region's end.
TEST_P(ForeignMemory, IsNotReceivedInto)
{
	Pool pool(nic, 2, 64);
	Pair pair(nic);
	VIP_DESCRIPTOR *in = spoilt(pool.message(0, 64));
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
	ASSERT_TRUE(pool.send(pair.a, 1, 64));
	EXPECT_NE(0U, errorOf(pool.descriptor(1)));
	ASSERT_EQ(in, takeReceive(pair.b));
	EXPECT_TRUE(errorOf(in) == VIP_STATUS_PROTECTION_ERROR ||
		    (GetParam().isOutside && errorOf(in) == VIP_STATUS_LENGTH_ERROR))
		<< statusOf(in);
}

// [functional: VipPostSend VipDeregisterMem VipCreatePtag] The local segments of an RDMA write are checked like those
// of a send.
TEST_P(ForeignMemory, IsNotWrittenFrom)
{
	Pool pool(nic, 1, 64, memory(nullptr, VIP_TRUE));
	Pair pair(nic, writable());
	VIP_DESCRIPTOR *d = spoilt(pool.write(0, 64, pool.buffer(0), pool.handle()));
	ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_PROTECTION_ERROR));
	EXPECT_TRUE(untouched(pool.buffer(0), 64));
}

// [functional: VipPostSend VipDeregisterMem VipCreatePtag] The address segment of an RDMA write names registered memory
// of the tag of the target's VI, and the write stays inside of the region; else it is refused and the connection ends.
TEST_P(ForeignMemory, IsNotWrittenTo)
{
	Pool pool(nic, 1, 64);
	Pair pair(nic, writable());
	VIP_DESCRIPTOR *d = pool.write(0, 64, place.data, place.handle);
	ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR));
	expectBroken(pair.a, pair.b);
}

// [full: VipPostSend VipDeregisterMem VipCreatePtag] The local segments of an RDMA read are checked like those of a
// receive.
TEST_P(ForeignMemory, IsNotReadInto)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		VIP_DESCRIPTOR *d = spoilt(pool.read(0, 64, on.source));
		ASSERT_TRUE(isSent(on.a, d, pool.handle(), VIP_STATUS_OP_RDMA_READ | VIP_STATUS_PROTECTION_ERROR));
	});
}

// [full: VipPostSend VipDeregisterMem VipCreatePtag] The address segment of an RDMA read names registered memory of the
// tag of the peer's VI, and the read stays inside of the region; else it is refused.
TEST_P(ForeignMemory, IsNotReadFrom)
{
	each([&](const Reading &on) {
		Pool pool(nic, 1, 64);
		expectRefused(on.a, on.b, pool, pool.read(0, 64, place.data, place.handle));
	});
}

INSTANTIATE_TEST_SUITE_P(By, ForeignMemory, testing::ValuesIn(ForeignMemory::kWays),
			 [](const auto &way) { return std::string(way.param.name); });

} // namespace
