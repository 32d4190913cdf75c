// SPDX-License-Identifier: BSD-2-Clause
// Descriptors of many segments: up to 252, which is VIA's limit, even if the device takes fewer at once.
// The tests have uneven and empty segments on both sides of all operations, and errors far behind
// in the list.
#include "harness.h"

#include <algorithm>
#include <cstring>

using namespace harness;

namespace
{

constexpr unsigned kMost = 252;
const unsigned kCounts[] = {1, 4, 16, 17, 30, 33, 64, 128, 251, 252};
constexpr VIP_UINT32 kSpread = 40000; // bytes of memory with the segments of a descriptor

// The place and the length of each segment of a list. Some segments are empty.
struct List {
	std::vector<std::pair<VIP_UINT32, VIP_UINT32>> pieces;

	// Another `seed` makes another list.
	List(unsigned count, unsigned seed)
	{
		VIP_UINT32 place = seed % 7;
		for (unsigned i = 0; i < count; i++) {
			bool empty = count > 3 && (i + seed) % 5 == 3;
			VIP_UINT32 length = empty ? 0 : 1 + (i * 29 + seed * 13) % 150;
			pieces.emplace_back(place, length);
			place += length + (i + seed) % 4;
		}
		if (seed % 2) // their order decides, not that of the addresses
			std::reverse(pieces.begin(), pieces.end());
	}
	VIP_UINT32 length() const
	{
		VIP_UINT32 sum = 0;
		for (auto [place, length] : pieces)
			sum += length;
		return sum;
	}
	// Extends the segment with the last place, until the sum of the lengths is at least `bytes`.
	void growTo(VIP_UINT32 bytes)
	{
		VIP_UINT32 now = length();
		if (now < bytes)
			std::max_element(pieces.begin(), pieces.end())->second += bytes - now;
	}
	// Returns the bytes of the segments, one after the other.
	std::string of(const VIP_UCHAR *memory) const
	{
		std::string all;
		for (auto [place, length] : pieces)
			all.append(reinterpret_cast<const char *>(memory) + place, length);
		return all;
	}
	// Whether all bytes are zero, except the first `used` bytes of the segments.
	bool leavesTheRest(const VIP_UCHAR *memory, VIP_UINT32 used) const
	{
		std::string rest(reinterpret_cast<const char *>(memory), kSpread);
		for (auto [place, length] : pieces) {
			VIP_UINT32 here = std::min(length, used);
			rest.replace(place, here, here, '\0');
			used -= here;
		}
		return rest.find_first_not_of('\0') == std::string::npos;
	}
};

// Cuts the first bytes of the slot's buffer into that many segments.
VIP_DESCRIPTOR *cut(const Pool &pool, size_t slot, VIP_UINT32 bytes, VIP_UINT32 segments)
{
	VIP_DESCRIPTOR *d = pool.empty(slot);
	d->CS.SegCount = static_cast<VIP_UINT16>(segments);
	for (VIP_UINT32 i = 0; i < segments; i++) {
		VIP_UINT32 from = i * bytes / segments, to = (i + 1) * bytes / segments;
		setSegment(d, i, pool.buffer(slot) + from, to - from, pool.handle());
	}
	return d;
}

class Segments : public NicTest
{
      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
		ASSERT_EQ(VIP_ULONG{kMost}, nic.attributes().MaxSegmentsPerDesc);
	}
	// Appends the list's segments, in the slot's buffer, to the slot's descriptor.
	void append(size_t slot, const List &list)
	{
		VIP_DESCRIPTOR *d = pool.descriptor(slot);
		for (auto [place, length] : list.pieces)
			setSegment(d, d->CS.SegCount++,
				   length ? pool.buffer(slot) + place : reinterpret_cast<void *>(0x13), length,
				   length ? pool.handle() : 0xDEADBEEF);
	}
	VIP_DESCRIPTOR *make(size_t slot, const List &list)
	{
		VIP_DESCRIPTOR *d = pool.empty(slot);
		append(slot, list);
		return d;
	}
	VIP_DESCRIPTOR *makeRdma(size_t slot, VIP_UINT16 operation, const List &list, void *remote)
	{
		VIP_DESCRIPTOR *d = pool.empty(slot);
		d->CS.Control = operation;
		d->CS.SegCount = 1;
		d->DS[0].Remote.Data.Address = remote;
		d->DS[0].Remote.Handle = pool.handle();
		append(slot, list);
		return d;
	}
	VIP_VI_ATTRIBUTES open(VIP_RELIABILITY_LEVEL level) const
	{
		VIP_VI_ATTRIBUTES attributes = writable(ofLevel(level));
		attributes.EnableRdmaRead = nic.attributes().RDMAReadSupport & level ? VIP_TRUE : VIP_FALSE;
		return attributes;
	}
	void eachLevel(const std::function<void(Vi &, Vi &, VIP_RELIABILITY_LEVEL)> &body)
	{
		atEachLevel(nic, [&](VIP_RELIABILITY_LEVEL level) {
			Pair pair(nic, open(level));
			body(pair.a, pair.b, level);
		});
	}
	// The send fails with this error, and the connection is broken at both ends.
	void expectError(VIP_UINT32 error, VIP_DESCRIPTOR *d)
	{
		Pair pair(nic, open(VIP_SERVICE_RELIABLE_DELIVERY));
		ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
		EXPECT_EQ(Status{error}, Status{errorOf(d)});
		expectBroken(pair.a, pair.b);
	}
	const VIP_BOOLEAN reads = nic.attributes().RDMAReadSupport ? VIP_TRUE : VIP_FALSE;
	Pool pool{nic, 4, kSpread, memory(nullptr, VIP_TRUE, reads), kMost + 1};
};

// [functional: VipPostSend VipPostRecv] Descriptors have up to 252 segments, of any lengths, on both sides; how a
// message is cut on one side does not matter to the other. A segment of length zero names no memory, whatever its
// handle and address are.
TEST_F(Segments, AnyNumberIsSentAndAnyNumberReceives)
{
	eachLevel([&](Vi &a, Vi &b, VIP_RELIABILITY_LEVEL) {
		for (unsigned count : kCounts)
			for (unsigned other : {1U, 17U, kMost, kMost + 1 - count}) {
				SCOPED_TRACE(testing::Message() << count << " to " << other);
				List from(count, count + other), to(other, other);
				to.growTo(from.length());
				memset(pool.buffer(1), 0, kSpread);
				paint(pool.buffer(0), kSpread, count);
				VIP_DESCRIPTOR *out = make(0, from), *in = make(1, to);
				ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b, in, pool.handle()));
				ASSERT_TRUE(isSent(a, out, pool.handle()));
				ASSERT_TRUE(isReceived(b, in));
				EXPECT_EQ(from.length(), in->CS.Length);
				std::string sent = from.of(pool.buffer(0));
				std::string arrived = to.of(pool.buffer(1));
				EXPECT_TRUE(arrived.substr(0, sent.size()) == sent);
				EXPECT_TRUE(to.leavesTheRest(pool.buffer(1), from.length()));
			}
	});
}

// [functional: VipPostSend VipPostRecv] An RDMA write, with immediate data or without, may have up to 252 segments at
// every level. So may the receive that immediate data completes, and its memory is not written to.
TEST_F(Segments, AnyNumberIsWrittenByRdma)
{
	eachLevel([&](Vi &a, Vi &b, VIP_RELIABILITY_LEVEL level) {
		for (unsigned count : kCounts)
			for (bool immediate : {false, true}) {
				SCOPED_TRACE(testing::Message() << count << (immediate ? ", immediate data" : ""));
				List from(std::min(count, kMost - 1), count);
				memset(pool.buffer(1), 0, kSpread);
				memset(pool.buffer(2), 0, kSpread);
				paint(pool.buffer(0), kSpread, count);
				VIP_DESCRIPTOR *in = make(2, List(count, 1)),
					       *out = makeRdma(0, VIP_CONTROL_OP_RDMAWRITE, from, pool.buffer(1) + 3);
				if (immediate)
					setImmediate(out, 0x5EC00000 + count);
				ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b, in, pool.handle()));
				ASSERT_TRUE(isSent(a, out, pool.handle(), VIP_STATUS_OP_RDMA_WRITE));
				if (immediate) {
					ASSERT_TRUE(isReceived(b, in,
							       VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE));
					EXPECT_EQ(0x5EC00000 + count, in->CS.ImmediateData);
				} else { // a message behind it shows that the write has arrived
					ASSERT_TRUE(harness::send(a, pool.empty(3), pool.handle()));
					ASSERT_TRUE(isReceived(b, in));
				}
				if (immediate && level != VIP_SERVICE_UNRELIABLE) { // the next test is about it
					EXPECT_EQ(from.length(), in->CS.Length);
				}
				std::string sent = from.of(pool.buffer(0));
				EXPECT_EQ(0, memcmp(pool.buffer(1) + 3, sent.data(), sent.size()));
				EXPECT_TRUE(untouched(pool.buffer(1), 3));
				EXPECT_TRUE(untouched(pool.buffer(1) + 3 + sent.size(), kSpread - 3 - sent.size()))
					<< "behind the write";
				EXPECT_TRUE(untouched(pool.buffer(2), kSpread)) << "the receive's memory";
			}
	});
}

// [functional: VipPostRecv] When an RDMA write completes a receive, the receive's Length is that of all segments
// together, at the Unreliable level, too.
TEST_F(Segments, LengthOfAnUnreliableWriteWithImmediateDataIsThatOfAllOfThem)
{
	atEach(nic, {VIP_SERVICE_UNRELIABLE}, [&](VIP_RELIABILITY_LEVEL level) {
		Pair pair(nic, open(level));
		List from(200, 1); // several packets long
		VIP_DESCRIPTOR *out = makeRdma(0, VIP_CONTROL_OP_RDMAWRITE, from, pool.buffer(1)),
			       *in = pool.empty(2);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_TRUE(harness::send(pair.a, setImmediate(out, 0x5EC00000), pool.handle()));
		ASSERT_EQ(in, takeReceive(pair.b));
		EXPECT_EQ(from.length(), in->CS.Length);
	});
}

// [full: VipPostSend] An RDMA read may have up to 252 segments where the NIC has RDMA reads, and is a format error
// elsewhere.
TEST_F(Segments, AnyNumberIsReadIntoByRdma)
{
	eachLevel([&](Vi &a, Vi &, VIP_RELIABILITY_LEVEL level) {
		bool supported = nic.attributes().RDMAReadSupport & level;
		for (unsigned count : kCounts) {
			SCOPED_TRACE(count);
			List to(std::min(count, kMost - 1), count);
			memset(pool.buffer(0), 0, kSpread);
			paint(pool.buffer(1), kSpread, count);
			VIP_DESCRIPTOR *d = makeRdma(0, VIP_CONTROL_OP_RDMAREAD, to, pool.buffer(1) + 1);
			ASSERT_TRUE(harness::send(a, d, pool.handle()));
			if (!supported) {
				EXPECT_EQ(Status{VIP_STATUS_FORMAT_ERROR}, Status{errorOf(d)});
				return;
			}
			EXPECT_EQ(status(VIP_STATUS_OP_RDMA_READ), statusOf(d));
			std::string got = to.of(pool.buffer(0));
			EXPECT_EQ(0, memcmp(got.data(), pool.buffer(1) + 1, got.size()));
			EXPECT_TRUE(to.leavesTheRest(pool.buffer(0), to.length()));
		}
	});
}

// [functional: VipPostSend VipPostRecv] More segments than the NIC says are a format error.
TEST_F(Segments, OneMoreThanTheMostIsAFormatErrorInAllOperations)
{
	for (VIP_UINT16 operation : {VIP_CONTROL_OP_SENDRECV, VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
		SCOPED_TRACE(operation);
		bool isRdma = operation != VIP_CONTROL_OP_SENDRECV;
		List tooMany(kMost + 1 - isRdma, 1);
		VIP_DESCRIPTOR *d = isRdma ? makeRdma(0, operation, tooMany, pool.buffer(1)) : make(0, tooMany);
		ASSERT_EQ(kMost + 1, d->CS.SegCount);
		expectError(VIP_STATUS_FORMAT_ERROR, d);
	}
	Pair pair(nic);
	VIP_DESCRIPTOR *in = make(0, List(kMost + 1, 1));
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
	ASSERT_TRUE(isReceived(pair.b, in, VIP_STATUS_OP_RECEIVE | VIP_STATUS_FORMAT_ERROR));
}

// [functional: VipPostSend] All segments together are held to the maximum transfer size.
TEST_F(Segments, TogetherTheyMayBeAsLongAsMaxTransferSizeAndNoLonger)
{
	Pool descriptors(nic, 2, kTransferSize, {}, kMost);
	VIP_DESCRIPTOR *out = cut(descriptors, 0, kTransferSize, kMost),
		       *in = cut(descriptors, 1, kTransferSize, kMost);
	Pair pair(nic);
	paint(descriptors.buffer(0), kTransferSize, 1);
	ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, descriptors.handle()));
	ASSERT_TRUE(isSent(pair.a, out, descriptors.handle()));
	ASSERT_TRUE(isReceived(pair.b, in));
	EXPECT_EQ(VIP_UINT32{kTransferSize}, in->CS.Length);
	EXPECT_TRUE(painted(descriptors.buffer(1), kTransferSize, 1));

	out->DS[0].Local.Length++;
	ASSERT_TRUE(isSent(pair.a, out, descriptors.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_LENGTH_ERROR));
}

// The sum of 252 times the whole region is 4 GiB and 248 bytes.
// [functional: VipPostSend] Segments that together are longer than 32 bits can say are a length error.
TEST_F(Segments, TheirSumIsNotTakenFor32Bits)
{
	constexpr VIP_UINT32 each = 17043522;
	static_assert(uint64_t{each} * kMost == (uint64_t{1} << 32) + 248, "a little beyond");
	Region large(nic, each);
	VIP_DESCRIPTOR *d = pool.empty(0);
	d->CS.SegCount = kMost;
	for (unsigned i = 0; i < kMost; i++)
		setSegment(d, i, large.data(), each, large.handle());
	expectError(VIP_STATUS_LENGTH_ERROR, d);
}

// [functional: VipPostSend VipPostRecv] A message is too long for a receive if it is longer than all of its segments
// together, and nothing is written outside of them.
TEST_F(Segments, AMessageOneByteTooLongForManyIsALengthError)
{
	for (unsigned count : {17U, 200U, kMost}) {
		SCOPED_TRACE(count);
		Pair pair(nic);
		List to(count, 1);
		memset(pool.buffer(1), 0, kSpread);
		VIP_DESCRIPTOR *in = make(1, to), *out = pool.message(0, to.length() + 1);
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_TRUE(isSent(pair.a, out, pool.handle(), VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR));
		ASSERT_TRUE(isReceived(pair.b, in, VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR));
		EXPECT_TRUE(to.leavesTheRest(pool.buffer(1), to.length()));
	}
}

// [functional: VipPostSend VipPostRecv] Descriptors of few segments and of many, in one queue, are done in the order of
// posting.
TEST_F(Segments, FewAndManyTakeTheirTurns)
{
	constexpr size_t kMessages = 64;
	constexpr VIP_UINT32 kBytes = 640;
	Pool mixed(nic, 2 * kMessages, kBytes, {}, kMost);
	Pair pair(nic, open(VIP_SERVICE_RELIABLE_DELIVERY));
	for (size_t i = 0; i < kMessages; i++) {
		paint(mixed.buffer(i), kBytes, static_cast<unsigned>(i));
		ASSERT_EQ(VIP_SUCCESS,
			  VipPostRecv(pair.b, cut(mixed, kMessages + i, kBytes, kCounts[i * 7 % 10]), mixed.handle()));
	}
	for (size_t i = 0; i < kMessages; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(pair.a, cut(mixed, i, kBytes, kCounts[i * 3 % 10]), mixed.handle()));
	for (size_t i = 0; i < kMessages; i++) {
		SCOPED_TRACE(i);
		VIP_DESCRIPTOR *in = mixed.descriptor(kMessages + i);
		ASSERT_TRUE(isReceived(pair.b, in));
		EXPECT_EQ(kBytes, in->CS.Length);
		EXPECT_TRUE(painted(mixed.buffer(kMessages + i), kBytes, static_cast<unsigned>(i)));
		ASSERT_TRUE(isDone(pair.a, mixed.descriptor(i)));
	}
}

// [functional: VipPostSend VipPostRecv VipCQWait] As many descriptors can be outstanding as the NIC says, though each
// has as many segments as it says.
TEST_F(Segments, QueuesFullOfManyLoseNothing)
{
	const size_t depth = nic.attributes().MaxDescriptorsPerQueue;
	ASSERT_GE(depth, 1024U);
	constexpr VIP_UINT32 kBytes = 2 * kMost;
	Pool full(nic, 2 * depth, kBytes, {}, kMost);
	Cq cq(nic, 1);
	Vi a(nic, reliable(), cq, cq), b(nic, reliable(), cq, cq);
	ASSERT_TRUE(connect(a, b));
	for (size_t i = 0; i < depth; i++) {
		paint(full.buffer(i), kBytes, static_cast<unsigned>(i));
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(b, cut(full, depth + i, kBytes, kMost), full.handle()));
	}
	for (size_t i = 0; i < depth; i++)
		ASSERT_EQ(VIP_SUCCESS, VipPostSend(a, cut(full, i, kBytes, kMost), full.handle()));
	size_t sent = 0, received = 0;
	while (sent + received < 2 * depth) {
		auto [vi, isReceive, d] = cq.take();
		ASSERT_TRUE(d) << sent << " and " << received;
		size_t slot = isReceive ? depth + received++ : sent++;
		ASSERT_EQ(full.descriptor(slot), d);
		ASSERT_EQ(0U, errorOf(d)) << statusOf(d);
		if (isReceive) {
			ASSERT_EQ(kBytes, d->CS.Length);
			ASSERT_TRUE(painted(full.buffer(slot), kBytes, static_cast<unsigned>(slot - depth)));
		}
	}
}

} // namespace
