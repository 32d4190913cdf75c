// SPDX-License-Identifier: BSD-2-Clause
// Changing the attributes of memory: its tag and its RDMA rights, and which VIs may use it before and after. The
// handle stays the same.
#include "harness.h"

#include <atomic>

using namespace harness;

namespace
{

// Changes something again and again in a thread, as long as the object lives.
class Changer
{
      public:
	explicit Changer(const std::function<void(unsigned)> &change)
	    : thread_([this, change] {
		      while (!stop_ && !testing::Test::HasFailure())
			      change(changes_++);
	      })
	{
	}
	~Changer()
	{
		stop_ = true;
	}
	// Whether to go on: the test is `unfinished`, or there are few changes so far.
	bool goesOn(bool unfinished) const
	{
		return (unfinished || changes_ < 20) && !testing::Test::HasFailure();
	}

      private:
	std::atomic<bool> stop_{false};
	std::atomic<unsigned> changes_{0};
	Thread thread_;
};

class MemoryAttributes : public NicTest
{
      protected:
	VIP_RETURN set(const Region &region, VIP_MEM_ATTRIBUTES attributes)
	{
		return VipSetMemAttributes(nic, region.data(), region.handle(), &attributes);
	}
	// `handle` is another one of the region's memory.
	void expectAttributes(const Region &region, const VIP_MEM_ATTRIBUTES &expected, VIP_MEM_HANDLE handle = 0)
	{
		VIP_MEM_ATTRIBUTES got{};
		ASSERT_EQ(VIP_SUCCESS, VipQueryMem(nic, region.data(), handle ? handle : region.handle(), &got));
		EXPECT_EQ(expected.Ptag, got.Ptag);
		EXPECT_EQ(expected.EnableRdmaWrite, got.EnableRdmaWrite);
		EXPECT_EQ(expected.EnableRdmaRead, got.EnableRdmaRead);
	}
	// Returns the status of a message from the region, between two VIs of the tag.
	Status sendFrom(const Region &region, VIP_PROTECTION_HANDLE tag)
	{
		Pool pool(nic, 2, 64, memory(tag));
		Pair pair(nic, writable(ofTag(tag)));
		EXPECT_TRUE(pool.postReceive(pair.b, 0, 64));
		VIP_DESCRIPTOR *out = pool.message(1, 0);
		setSegment(out, 0, region.data(), 64, region.handle());
		EXPECT_TRUE(harness::send(pair.a, out, pool.handle()));
		return statusOf(out);
	}
	// Returns the status of a message into the region.
	Status receiveInto(const Region &region, VIP_PROTECTION_HANDLE tag)
	{
		Pool pool(nic, 2, 64, memory(tag));
		Vi to(nic, writable(ofTag(tag))), from(nic, writable(ofTag(tag)));
		VIP_DESCRIPTOR *in = pool.message(0, 0);
		setSegment(in, 0, region.data(), 64, region.handle());
		EXPECT_EQ(VIP_SUCCESS, VipPostRecv(to, in, pool.handle()));
		EXPECT_TRUE(harness::connect(to, from));
		paint(pool.buffer(1), 64, 3);
		EXPECT_TRUE(pool.send(from, 1, 64));
		EXPECT_EQ(in, takeReceive(to));
		return statusOf(in);
	}
	// Returns the status of an RDMA write into the region, by the peer of a VI of the tag.
	Status writeInto(const Region &region, VIP_PROTECTION_HANDLE tag, VIP_MEM_HANDLE handle = 0)
	{
		Pool pool(nic, 1, 64, memory(tag));
		Pair pair(nic, writable(ofTag(tag)));
		paint(pool.buffer(0), 64, ++seed_);
		VIP_DESCRIPTOR *d = pool.write(0, 64, region.data(), handle ? handle : region.handle());
		EXPECT_TRUE(harness::send(pair.a, d, pool.handle()));
		if (!errorOf(d)) {
			EXPECT_TRUE(eventually([&] { return painted(region.data(), 64, seed_); }));
		} else {
			EXPECT_FALSE(painted(region.data(), 64, seed_));
		}
		return statusOf(d);
	}
	const Status kSent = status(VIP_STATUS_OP_SEND),
		     kNotSent = status(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR),
		     kReceived = status(VIP_STATUS_OP_RECEIVE),
		     kNotReceived = status(VIP_STATUS_OP_RECEIVE | VIP_STATUS_PROTECTION_ERROR),
		     kWritten = status(VIP_STATUS_OP_RDMA_WRITE),
		     kNotWritten = status(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);

      private:
	unsigned seed_ = 100; // differs from the seeds of messages
};

// [functional: VipSetMemAttributes VipQueryMem VipPostSend VipPostRecv] After each change of a region's tag, VIs of the
// new tag alone may send from it and receive into it.
TEST_F(MemoryAttributes, TagIsThatOfTheVisThatMayUseTheRegion)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE one = makeTag(nic), other = makeTag(nic);
	Region region(nic, 4096, memory(one));
	for (VIP_PROTECTION_HANDLE now : {other, one, VIP_PROTECTION_HANDLE{nullptr}}) {
		ASSERT_EQ(VIP_SUCCESS, set(region, memory(now)));
		expectAttributes(region, memory(now));
		for (VIP_PROTECTION_HANDLE vis : {one, other, VIP_PROTECTION_HANDLE{nullptr}}) {
			EXPECT_EQ(vis == now ? kReceived : kNotReceived, receiveInto(region, vis));
			EXPECT_EQ(vis == now ? kSent : kNotSent, sendFrom(region, vis));
			EXPECT_EQ(kNotWritten, writeInto(region, vis));
		}
	}
	EXPECT_EQ(VIP_SUCCESS, region.deregister());
}

// [functional: VipSetMemAttributes VipPostRecv] A receive into a region whose tag has changed since it was posted
// fails, and nothing is written there.
TEST_F(MemoryAttributes, NoMessageComesIntoMemoryThatHasAnotherTagSinceTheReceiveWasPosted)
{
	constexpr VIP_UINT32 most = kTransferSize;
	makeTag(nic);
	VIP_PROTECTION_HANDLE other = makeTag(nic);
	Pool pool(nic, 2, most);
	paint(pool.buffer(1), most, 1);
	for (VIP_UINT32 size : {VIP_UINT32{16}, VIP_UINT32{4096}, most}) {
		Region region(nic, most);
		Pair pair(nic);
		VIP_DESCRIPTOR *in = pool.message(0, 0);
		setSegment(in, 0, region.data(), most, region.handle());
		ASSERT_EQ(VIP_SUCCESS, VipPostRecv(pair.b, in, pool.handle()));
		ASSERT_EQ(VIP_SUCCESS, set(region, memory(other)));
		ASSERT_TRUE(pool.send(pair.a, 1, size));
		ASSERT_EQ(in, takeReceive(pair.b));
		EXPECT_NE(0U, errorOf(in)) << size << " bytes: " << statusOf(in);
		EXPECT_TRUE(untouched(region.data(), most)) << size;
	}
}

// [functional: VipSetMemAttributes VipDestroyPtag] The present tag of a region cannot be destroyed. Its former tag can
// be destroyed.
TEST_F(MemoryAttributes, FormerTagIsFreeAndTheNewOneInUse)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE former = makeTag(nic), present = makeTag(nic);
	Region region(nic, 4096, memory(former));
	ASSERT_EQ(VIP_SUCCESS, set(region, memory(present)));
	EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, former));
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipDestroyPtag(nic, present));
	EXPECT_EQ(VIP_INVALID_PTAG, set(region, memory(former)));
	expectAttributes(region, memory(present));
	EXPECT_EQ(VIP_SUCCESS, region.deregister());
	EXPECT_EQ(VIP_SUCCESS, VipDestroyPtag(nic, present));
}

// [functional: VipSetMemAttributes VipQueryMem] Attributes that are refused change neither the result of VipQueryMem
// nor the VIs that may use the region.
TEST_F(MemoryAttributes, ChangeThatFailsChangesNothing)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	VIP_MEM_ATTRIBUTES open = memory(separate, VIP_TRUE), wrong = memory(&open);
	Region region(nic, 4096, open);
	EXPECT_EQ(VIP_INVALID_PTAG, set(region, wrong));
	if (!nic.attributes().RDMAReadSupport) {
		EXPECT_EQ(VIP_INVALID_RDMAREAD, set(region, memory(nullptr, VIP_FALSE, VIP_TRUE)));
	}
	expectAttributes(region, open);
	EXPECT_EQ(kReceived, receiveInto(region, separate));
	EXPECT_EQ(kWritten, writeInto(region, separate));
	EXPECT_EQ(kNotWritten, writeInto(region, nullptr));
}

// [functional: VipSetMemAttributes] A region may be given the attributes that it has.
TEST_F(MemoryAttributes, ThatAreTheSameMayBeSet)
{
	makeTag(nic);
	for (VIP_PROTECTION_HANDLE of : {VIP_PROTECTION_HANDLE{nullptr}, makeTag(nic)}) {
		for (VIP_BOOLEAN write : {VIP_FALSE, VIP_TRUE}) {
			VIP_MEM_ATTRIBUTES attributes = memory(of, write);
			Region region(nic, 4096, attributes);
			EXPECT_EQ(VIP_SUCCESS, set(region, attributes));
			expectAttributes(region, attributes);
			EXPECT_EQ(write ? kWritten : kNotWritten, writeInto(region, of));
			EXPECT_EQ(kReceived, receiveInto(region, of));
		}
	}
}

// [functional: VipSetMemAttributes VipPostSend] A region that has lost the right can no longer be written to, but
// received into; other regions, and other handles of the same memory, keep theirs.
TEST_F(MemoryAttributes, RdmaWriteThatIsTakenAwayIsRefused)
{
	VIP_MEM_ATTRIBUTES open = memory(nullptr, VIP_TRUE), closed = memory(nullptr);
	Region region(nic, 4096, open), same(nic, 4096, open);
	VIP_MEM_HANDLE other = 0;
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, same.data(), 4096, &closed, &other));
	EXPECT_EQ(kNotWritten, writeInto(same, nullptr, other)) << "a handle that never had the right";
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, same.data(), other));
	ASSERT_EQ(VIP_SUCCESS, VipRegisterMem(nic, region.data(), 4096, &open, &other));
	EXPECT_EQ(kWritten, writeInto(region, nullptr));
	ASSERT_EQ(VIP_SUCCESS, set(region, closed));
	expectAttributes(region, closed);
	EXPECT_EQ(kNotWritten, writeInto(region, nullptr));
	EXPECT_EQ(kWritten, writeInto(same, nullptr)) << "another region";
	// The region keeps its local rights, and its other handle keeps its rights.
	EXPECT_EQ(kReceived, receiveInto(region, nullptr));
	expectAttributes(region, open, other);
	EXPECT_EQ(kWritten, writeInto(region, nullptr, other));
	EXPECT_EQ(VIP_SUCCESS, VipDeregisterMem(nic, region.data(), other));
	EXPECT_EQ(VIP_SUCCESS, region.deregister());
	EXPECT_EQ(VIP_INVALID_PARAMETER, set(region, open));
}

// [functional: VipSetMemAttributes VipPostSend] A change holds for connections that were there before it.
TEST_F(MemoryAttributes, OfAConnectionThatStaysAreThoseOfTheMoment)
{
	Region region(nic, 4096, memory(nullptr, VIP_TRUE));
	Pool pool(nic, 1, 64);
	Pair pair(nic, writable());
	paint(pool.buffer(0), 64, 1);
	ASSERT_TRUE(harness::send(pair.a, pool.write(0, 64, region), pool.handle()));
	EXPECT_EQ(kWritten, statusOf(pool.descriptor(0)));
	ASSERT_EQ(VIP_SUCCESS, set(region, memory(nullptr)));
	ASSERT_TRUE(harness::send(pair.a, pool.write(0, 64, region, 64), pool.handle()));
	EXPECT_EQ(kNotWritten, statusOf(pool.descriptor(0)));
	EXPECT_TRUE(untouched(region.data() + 64, 64));
}

// [functional: VipSetMemAttributes VipPostSend] A region can be given the right to be written to. After each change of
// its tag it can be written to through VIs of the new tag alone, with the same handle.
TEST_F(MemoryAttributes, TagOfARegionThatPeersWriteIsChanged)
{
	makeTag(nic);
	VIP_PROTECTION_HANDLE one = makeTag(nic), other = makeTag(nic);
	Region region(nic, 4096, memory(one));
	for (VIP_PROTECTION_HANDLE now : {other, one}) {
		ASSERT_EQ(VIP_SUCCESS, set(region, memory(now, VIP_TRUE)));
		for (VIP_PROTECTION_HANDLE vis : {one, other, VIP_PROTECTION_HANDLE{nullptr}})
			EXPECT_EQ(vis == now ? kWritten : kNotWritten, writeInto(region, vis));
	}
}

// [functional: VipSetMemAttributes VipQueryMem] A region that is given the right can be written to; or the NIC says
// that it cannot give any, and nothing has changed.
TEST_F(MemoryAttributes, RdmaWriteThatIsGivenIsAllowedOrNotSupported)
{
	VIP_MEM_ATTRIBUTES closed = memory(nullptr), open = memory(nullptr, VIP_TRUE);
	Region region(nic, 4096);
	for (unsigned round = 0; round < 2; round++) {
		VIP_RETURN result = set(region, open);
		if (result != VIP_SUCCESS) {
			EXPECT_EQ(VIP_ERROR_NOT_SUPPORTED, result);
			expectAttributes(region, closed);
			EXPECT_EQ(kNotWritten, writeInto(region, nullptr));
		} else {
			expectAttributes(region, open);
			EXPECT_EQ(kWritten, writeInto(region, nullptr));
		}
		EXPECT_EQ(kReceived, receiveInto(region, nullptr));
		ASSERT_EQ(VIP_SUCCESS, set(region, closed));
		EXPECT_EQ(kNotWritten, writeInto(region, nullptr));
	}
}

// [functional: VipSetMemAttributes VipPostSend VipPostRecv] Messages between other regions are not disturbed by changes
// of one.
TEST_F(MemoryAttributes, MessagesGoOnWhileOtherRegionsChange)
{
	constexpr unsigned count = 200;
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool pool(nic, 2, 64);
	Pair pair(nic);
	Region region(nic, 4096);
	Changer changer([&](unsigned i) { ASSERT_EQ(VIP_SUCCESS, set(region, memory(i % 2 ? nullptr : separate))); });
	for (unsigned i = 0; changer.goesOn(i < count); i++) {
		ASSERT_TRUE(pool.postReceive(pair.b, 0, 64));
		ASSERT_TRUE(isSent(pair.a, pool.message(1, 64), pool.handle()));
		ASSERT_TRUE(isReceived(pair.b, pool.descriptor(0)));
	}
}

// Each receive is posted before or after a change. A receive in memory of another tag is done at
// once. Receives behind one that is not done wait for a connection.
// [functional: VipSetMemAttributes VipPostRecv] A receive that is posted while its region's tag changes finds the old
// tag or the new one: it stays posted, or is a protection error.
TEST_F(MemoryAttributes, PostingWhileTheRegionsTagChanges)
{
	constexpr unsigned rounds = 15, count = 64;
	makeTag(nic);
	VIP_PROTECTION_HANDLE separate = makeTag(nic);
	Pool pool(nic, count, 16);
	Region region(nic, 4096);
	{
		Changer changer(
			[&](unsigned i) { ASSERT_EQ(VIP_SUCCESS, set(region, memory(i % 2 ? nullptr : separate))); });
		for (unsigned round = 0; changer.goesOn(round < rounds); round++) {
			Vi vi(nic);
			for (unsigned i = 0; i < count; i++) {
				VIP_DESCRIPTOR *d = pool.message(i, 0);
				setSegment(d, 0, region.data(), 64, region.handle());
				ASSERT_EQ(VIP_SUCCESS, VipPostRecv(vi, d, pool.handle()));
			}
			VIP_DESCRIPTOR *d = nullptr;
			VIP_RETURN result = VipRecvDone(vi, &d);
			for (unsigned i = 0; i < count && d; i++) {
				ASSERT_EQ(VIP_DESCRIPTOR_ERROR, result);
				ASSERT_EQ(pool.descriptor(i), d);
				ASSERT_EQ(kNotReceived, statusOf(d));
				result = VipRecvDone(vi, &d);
			}
		}
	}
	ASSERT_EQ(VIP_SUCCESS, set(region, memory(nullptr)));
	EXPECT_EQ(kReceived, receiveInto(region, nullptr));
}

// [functional: VipSetMemAttributes VipPostSend] What may be written before and after a change may be written
// throughout.
TEST_F(MemoryAttributes, RightThatStaysIsNeverRefused)
{
	constexpr unsigned count = 3000;
	VIP_MEM_ATTRIBUTES open = memory(nullptr, VIP_TRUE);
	VIP_PROTECTION_HANDLE alias = makeTag(nic); // an alias of the default tag
	Region region(nic, 4096, open);
	Pool pool(nic, 1, 64);
	Pair pair(nic, writable());
	Changer changer([&](unsigned i) {
		VIP_RETURN result = set(region, memory(i % 2 ? nullptr : alias, VIP_TRUE, i / 2 % 2));
		ASSERT_TRUE(result == VIP_SUCCESS || result == VIP_INVALID_RDMAREAD ||
			    result == VIP_ERROR_NOT_SUPPORTED)
			<< testing::PrintToString(result);
	});
	for (unsigned i = 0; changer.goesOn(i < count); i++) {
		VIP_DESCRIPTOR *d = pool.write(0, 64, region);
		ASSERT_TRUE(harness::send(pair.a, d, pool.handle()));
		ASSERT_EQ(kWritten, statusOf(d));
	}
}

} // namespace
