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
	bool isOutside; // of a region that the VI may use
	Place (*place)(ForeignMemory &);
};

class ForeignMemory : public RdmaRead, public testing::WithParamInterface<Way>
{
      public:
	static const Way kWays[10];

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
		foreign.emplace(second, 4096, memory(nullptr, VIP_TRUE, reads));
		for (Region *region : {&*gone, &*others, &*foreign})
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
		for (Region *region : {&*gone, &*others, &*foreign})
			EXPECT_TRUE(unchanged(region->data(), region->data() + region->size()));
		EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, begin, handle));
	}
	static bool unchanged(const VIP_UCHAR *begin, const VIP_UCHAR *end)
	{
		return std::all_of(begin, end, [](VIP_UCHAR byte) { return byte == kPaint; });
	}
	// Runs the body with descriptors that name the place in their only local segment, or among many.
	void eachLength(const std::function<void(const Pool &, VIP_UINT32 more)> &body)
	{
		for (VIP_UINT32 more : {0U, 2U, 250U}) {
			SCOPED_TRACE(testing::Message() << more << " more segments");
			body(Pool(nic, 2, 4096, memory(nullptr, VIP_TRUE), 252), more);
		}
	}
	// Makes the place the last local segment but one, or the only one. The other ones are in the first buffer.
	VIP_DESCRIPTOR *spoilt(const Pool &pool, VIP_DESCRIPTOR *d, VIP_UINT32 more)
	{
		d->CS.SegCount = d->CS.Control ? 1 : 0; // RDMA has an address segment
		for (VIP_UINT32 i = 0; i <= more; i++)
			setSegment(d, d->CS.SegCount++, pool.buffer(0) + 8 * i, 8, pool.handle());
		setSegment(d, d->CS.SegCount - (more ? 2U : 1U), place.data, 64, place.handle);
		return d;
	}
	Place in(ptrdiff_t offset, VIP_MEM_HANDLE by)
	{
		return {bytes.data() + kBegin + offset, by};
	}
	Place of(const std::optional<Region> &region)
	{
		return {region->data(), region->handle()};
	}
	std::vector<VIP_UCHAR> bytes = std::vector<VIP_UCHAR>(8192, kPaint);
	VIP_MEM_HANDLE handle = 0;
	Nic second{nicName()};
	std::optional<Region> gone, others, foreign;
	Place place{};
};

const Way ForeignMemory::kWays[] = {
	{"HandleZero", false, [](ForeignMemory &m) { return m.in(0, 0); }},
	{"HandleOfAllOnes", false, [](ForeignMemory &m) { return m.in(0, ~VIP_MEM_HANDLE{0}); }},
	{"UnknownHandle", false, [](ForeignMemory &m) { return m.in(0, 0xDEADBEEF); }},
	{"DeregisteredHandle", false, [](ForeignMemory &m) { return m.of(m.gone); }},
	{"AnotherTag", false, [](ForeignMemory &m) { return m.of(m.others); }},
	// Its handle may be that of a region of this NIC handle, too.
	{"AnotherNicHandle", true, [](ForeignMemory &m) { return m.of(m.foreign); }},
	{"OneBytePastTheEnd", true, [](ForeignMemory &m) { return m.in(kLength - 63, m.handle); }},
	{"OneByteBeforeTheBeginning", true, [](ForeignMemory &m) { return m.in(-1, m.handle); }},
	{"WhollyOutside", true, [](ForeignMemory &m) { return m.in(3000, m.handle); }},
	{"AnEndThatWrapsAround", true,
	 [](ForeignMemory &m) { return Place{reinterpret_cast<VIP_UCHAR *>(~uintptr_t{0} - 31), m.handle}; }},
};

// [early: VipPostSend VipDeregisterMem VipCreatePtag] Each segment of a send, even of many, names a registered region
// of the VI's tag by its handle, and lies wholly inside of it; else the send is a protection error and ends the
// connection.
TEST_P(ForeignMemory, IsNotSent)
{
	eachLength([&](const Pool &pool, VIP_UINT32 more) {
		Pair pair(nic);
		ASSERT_TRUE(pool.postReceive(pair.b, 1, 4096));
		VIP_DESCRIPTOR *d = spoilt(pool, pool.empty(0), more);
		ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR));
		expectBroken(pair.a, pair.b);
	});
}

// The library may find the error when the receive is posted, or when a message comes for it. A message may also be
// longer than the room that is left in the region. A library that scatters messages itself may have the whole message
// by then, so that its sender does not learn of it.
// [functional: VipPostRecv VipDeregisterMem VipCreatePtag] Each segment of a receive, even of many, names registered
// memory of its VI's tag. Nothing is ever written elsewhere, as behind a region's end.
TEST_P(ForeignMemory, IsNotReceivedInto)
{
	eachLength([&](const Pool &pool, VIP_UINT32 more) {
		Pair pair(nic);
		VIP_DESCRIPTOR *in = spoilt(pool, pool.empty(0), more);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_TRUE(pool.send(pair.a, 1, 8 * more + 64));
		EXPECT_TRUE(more || errorOf(pool.descriptor(1))) << "the sender";
		ASSERT_EQ(in, takeReceive(pair.b));
		EXPECT_TRUE(errorOf(in) == VIP_STATUS_PROTECTION_ERROR ||
			    (GetParam().isOutside && more < 250 && errorOf(in) == VIP_STATUS_LENGTH_ERROR))
			<< statusOf(in);
		expectBroken(pair.b, pair.a);
	});
}

// [functional: VipPostSend VipDeregisterMem VipCreatePtag] The local segments of an RDMA write are checked like those
// of a send. If one is wrong nothing is written.
TEST_P(ForeignMemory, IsNotWrittenFrom)
{
	eachLength([&](const Pool &pool, VIP_UINT32 more) {
		Pair pair(nic, writable());
		paint(pool.buffer(0), 4096, 1);
		VIP_DESCRIPTOR *d = spoilt(pool, pool.write(0, 0, pool.buffer(1), pool.handle()), more);
		ASSERT_TRUE(isSent(pair.a, d, pool.handle(), VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_PROTECTION_ERROR));
		expectBroken(pair.a, pair.b);
		EXPECT_TRUE(untouched(pool.buffer(1), 4096));
	});
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
		VIP_DESCRIPTOR *d = spoilt(pool, pool.read(0, 0, on.source), 0);
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
