// SPDX-License-Identifier: BSD-2-Clause
// The data path in short: sizes, segments, immediate data, RDMA, completion queues.
#include "support.h"

namespace
{

class Transfer : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
	}
	void fill(size_t offset, size_t length, int seed)
	{
		for (size_t i = 0; i < length; i++)
			memory.data(offset)[i] =
				static_cast<char>(i * 7 + static_cast<size_t>(seed));
	}
};

TEST_F(Transfer, PingPongOfAllSizes)
{
	make_pair();
	for (size_t size :
	     {0, 1, 2, 3, 63, 64, 127, 128, 129, 1023, 1024, 1025, 4096, 32768, 65472}) {
		fill(0, size, 3);
		VIP_DESCRIPTOR *ping = descriptor(0, {{memory.data(0), size}});
		VIP_DESCRIPTOR *got = descriptor(1, {{memory.data(65536), 65536}});
		VIP_DESCRIPTOR *pong = descriptor(2, {{memory.data(65536), size}});
		VIP_DESCRIPTOR *back = descriptor(3, {{memory.data(131072), 65536}});
		ASSERT_EQ(post_recv(b, got), VIP_SUCCESS);
		ASSERT_EQ(post_recv(a, back), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, ping), VIP_SUCCESS);
		expect_received(b, got);
		EXPECT_EQ(got->CS.Length, size);
		ASSERT_EQ(post_send(b, pong), VIP_SUCCESS);
		expect_received(a, back);
		EXPECT_EQ(back->CS.Length, size);
		EXPECT_EQ(memcmp(memory.data(0), memory.data(131072), size), 0) << size;
		expect_sent(a, ping);
		expect_sent(b, pong);
	}
}

TEST_F(Transfer, MessagesAreGatheredAndScattered)
{
	make_pair();
	fill(0, 8192, 5);
	std::vector<Segment> from, to;
	size_t length = 0;
	for (size_t i = 0; i < 16; i++) {
		from.push_back({memory.data(length), i * 13}); // the first segment is empty
		length += i * 13;
	}
	to = {{memory.data(20000), 1},
	      {memory.data(20001), 0},
	      {memory.data(20001), 999},
	      {memory.data(21000), 5000}};
	VIP_DESCRIPTOR *r = descriptor(0, to), *s = descriptor(1, from);
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	expect_received(b, r);
	expect_sent(a, s);
	EXPECT_EQ(r->CS.Length, length);
	EXPECT_EQ(memcmp(memory.data(0), memory.data(20000), length), 0);
}

TEST_F(Transfer, ImmediateDataComesWithAndWithoutAMessage)
{
	make_pair();
	for (size_t size : {0, 10}) {
		VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 100}});
		VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(200), size}}, VIP_CONTROL_IMMEDIATE,
					       0x12345678);
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_received(b, r, VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
		EXPECT_EQ(r->CS.ImmediateData, 0x12345678u);
		EXPECT_EQ(r->CS.Length, size);
		expect_sent(a, s);
	}
}

TEST_F(Transfer, RdmaWritesArriveSilently)
{
	make_pair();
	for (size_t size : {0, 1, 128, 129, 60000}) {
		fill(0, size, 9);
		VIP_DESCRIPTOR *r = descriptor(0, {}), *done;
		VIP_DESCRIPTOR *w = write_descriptor(1, memory.data(65536), {memory.data(), size});
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE);
		EXPECT_EQ(memcmp(memory.data(), memory.data(65536), size), 0);
		EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE);
		VIP_DESCRIPTOR *i = write_descriptor(2, memory.data(65536), {memory.data(), size},
						     VIP_CONTROL_IMMEDIATE, 77);
		ASSERT_EQ(post_send(a, i), VIP_SUCCESS);
		expect_sent(a, i, VIP_STATUS_OP_RDMA_WRITE);
		expect_received(b, r, VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
		EXPECT_EQ(r->CS.ImmediateData, 77u);
		EXPECT_EQ(r->CS.Length, size);
	}
}

TEST_F(Transfer, ACqTellsOfEachCompletionOnce)
{
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;
	int sends = 0, receives = 0;

	VIP_CQ_HANDLE cq = make_cq(10);
	make_pair(cq, cq);
	EXPECT_EQ(VipCQDone(cq, &vi, &is_receive), VIP_NOT_DONE);
	EXPECT_EQ(VipCQWait(cq, 5, &vi, &is_receive), VIP_TIMEOUT);
	for (size_t i = 0; i < 10; i++)
		ASSERT_EQ(post_recv(b, descriptor(i, {{memory.data(), 8}})), VIP_SUCCESS);
	for (size_t i = 0; i < 10; i++)
		ASSERT_EQ(post_send(a, descriptor(20 + i, {{memory.data(50), 8}})), VIP_SUCCESS);
	for (int i = 0; i < 20; i++) {
		VIP_DESCRIPTOR *done = nullptr;
		ASSERT_EQ(VipCQWait(cq, PATIENCE, &vi, &is_receive), VIP_SUCCESS);
		EXPECT_EQ(vi, is_receive ? b.handle : a.handle);
		EXPECT_EQ(is_receive ? VipRecvDone(vi, &done) : VipSendDone(vi, &done),
			  VIP_SUCCESS);
		++*(is_receive ? &receives : &sends);
	}
	EXPECT_EQ(sends, 10);
	EXPECT_EQ(receives, 10);
	EXPECT_EQ(VipCQDone(cq, &vi, &is_receive), VIP_NOT_DONE);
}

TEST_F(Transfer, WithoutAConnectionSendsAreFlushedAndReceivesWait)
{
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}}), *done;
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(50), 8}});

	a = make_vi();
	b = make_vi();
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	EXPECT_EQ(VipSendDone(a, &done), VIP_DESCRIPTOR_ERROR);
	EXPECT_EQ(done, s);
	EXPECT_EQ(s->CS.Status, VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR);
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE);
	connect(a, b);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	expect_received(b, r);
	expect_sent(a, s);
}

TEST_F(Transfer, BadDescriptorsSayWhatIsWrong)
{
	struct {
		const char *what;
		std::function<void(VIP_DESCRIPTOR *)> spoil;
		VIP_UINT32 status;
	} cases[] = {
		{"reserved Control bit", [](auto d) { d->CS.Control |= 0x10; },
		 VIP_STATUS_FORMAT_ERROR},
		{"operation", [](auto d) { d->CS.Control |= 3; }, VIP_STATUS_FORMAT_ERROR},
		{"too many segments", [](auto d) { d->CS.SegCount = 253; }, VIP_STATUS_FORMAT_ERROR},
		{"unknown handle", [](auto d) { d->DS[0].Local.Handle ^= 0x55; },
		 VIP_STATUS_PROTECTION_ERROR},
		{"beyond the region", [](auto d) { d->DS[0].Local.Length = 100000000; },
		 VIP_STATUS_PROTECTION_ERROR},
		{"longer than MaxTransferSize", [](auto d) { d->DS[0].Local.Length = 65537; },
		 VIP_STATUS_LENGTH_ERROR},
	};

	make_pair();
	for (const auto &each : cases) {
		SCOPED_TRACE(each.what);
		VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}}), *done = nullptr;
		each.spoil(s);
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		EXPECT_EQ(VipSendWait(a, PATIENCE, &done), VIP_DESCRIPTOR_ERROR);
		ASSERT_EQ(done, s);
		EXPECT_EQ(s->CS.Status & VIP_STATUS_ERROR_MASK, each.status);
		expect_state(b, VIP_STATE_ERROR);
		disconnect_pair();
		connect(a, b, "again");
	}
}

TEST_F(Transfer, AnUnalignedDescriptorIsRefusedAndTold)
{
	make_pair();
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + 32);

	EXPECT_EQ(post_send(a, odd), VIP_INVALID_PARAMETER);
	EXPECT_EQ(post_recv(a, odd), VIP_INVALID_PARAMETER);
	EXPECT_TRUE(errors.reach(VIP_ERROR_POST_DESC, a, 2));
	expect_traffic(a, b);
}

// There are more regions than a queue remembers, so they take each other's places.
class ManyRegions : public Transfer
{
      protected:
	static constexpr size_t REGIONS = 9, SIZE = 4096;
	void SetUp() override
	{
		Transfer::SetUp();
		vi_kind.ReliabilityLevel = VIP_SERVICE_UNRELIABLE; // the VI lives on after an error
		make_pair();
		for (size_t i = 0; i < REGIONS; i++) {
			VIP_MEM_ATTRIBUTES attributes{};
			ASSERT_EQ(VipRegisterMem(nic, memory.data(i * SIZE), SIZE, &attributes,
						 &handles[i]),
				  VIP_SUCCESS);
		}
	}
	void TearDown() override
	{
		for (size_t i = 0; i < REGIONS; i++)
			if (handles[i])
				deregister(i);
		Transfer::TearDown();
	}
	void deregister(size_t region)
	{
		EXPECT_EQ(VipDeregisterMem(nic, memory.data(region * SIZE), handles[region]),
			  VIP_SUCCESS);
		handles[region] = 0;
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
	VIP_MEM_HANDLE handles[REGIONS] = {};
};

TEST_F(ManyRegions, AHandleIsGoodForItsOwnRegionOnly)
{
	for (size_t named = 0; named < REGIONS; named++)
		for (size_t place = 0; place < REGIONS; place++) {
			SCOPED_TRACE(testing::Message() << named << " at " << place);
			expect_send(handles[named], place,
				    named == place ? 0 : VIP_STATUS_PROTECTION_ERROR);
		}
}

TEST_F(ManyRegions, AHandleThatWasJustUsedIsNoneOnceDeregistered)
{
	for (size_t i = 0; i < REGIONS; i++) {
		SCOPED_TRACE(i);
		VIP_MEM_HANDLE handle = handles[i];
		expect_send(handle, i, 0);
		deregister(i);
		expect_send(handle, i, VIP_STATUS_PROTECTION_ERROR);
		if (i + 1 < REGIONS)
			expect_send(handles[i + 1], i + 1, 0);
		expect_send(handle, i, VIP_STATUS_PROTECTION_ERROR);
	}
}

TEST_F(ManyRegions, AReceiveIntoADeregisteredOneFails)
{
	for (size_t i = 0; i < REGIONS; i++) {
		SCOPED_TRACE(i);
		VIP_MEM_HANDLE handle = handles[i];
		VIP_DESCRIPTOR *r = about(handle, i, 1);
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		expect_send(handles[i], i, 0);
		expect_received(b, r);
		deregister(i);
		r = about(handle, i, 1);
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		expect_received(b, r, VIP_STATUS_PROTECTION_ERROR);
	}
}

} // namespace
