// SPDX-License-Identifier: BSD-2-Clause
// The last bytes of an RDMA write, which programs watch. On soft-RoCE they go in a request of their own.
#include "many_segments.h"

namespace
{

constexpr size_t NUMBER_BYTES = 8, TO = 500000;

class LastBytes : public ManySegments
{
      protected:
	void open_vendor(uint32_t vendor)
	{
		open_with(32, [=](fake_device &d) { d.vendor_id = vendor; });
		make_pair();
		by_hand(true);
	}
	// Posts an RDMA write, and returns the number of requests that it takes. The device has them then.
	uint64_t requests_of(const std::vector<size_t> &lengths, unsigned control = 0)
	{
		uint64_t before = requests();

		memset(data(0), 0, TO);
		memset(data(TO), 0, sum(lengths) + 1);
		paint(0, lengths);
		written_ = write_many(1, TO, 0, lengths, control);
		EXPECT_EQ(post_send(a, written_), VIP_SUCCESS);
		return requests() - before;
	}
	void expect_written(const std::vector<size_t> &lengths)
	{
		fake_progress(-1);
		expect_sent(a, written_, VIP_STATUS_OP_RDMA_WRITE);
		EXPECT_EQ(std::string(data(TO), sum(lengths)), bytes(0, lengths));
		EXPECT_EQ(*data(TO + sum(lengths)), 0) << "behind it";
	}

      private:
	VIP_DESCRIPTOR *written_ = nullptr;
};

TEST_F(LastBytes, ComeAfterAllOthersOnSoftRoce)
{
	open_vendor(0xffffff);
	for (const std::vector<size_t> &lengths :
	     {std::vector<size_t>{9}, {100}, {20000}, {1, 3, 9}, {30, 2, 3}, {7, 1, 1}}) {
		size_t others = sum(lengths) - NUMBER_BYTES;
		SCOPED_TRACE(others);
		EXPECT_EQ(requests_of(lengths), 2u);
		EXPECT_EQ(fake_progress(1), 1);
		EXPECT_EQ(std::string(data(TO), others), bytes(0, lengths).substr(0, others));
		EXPECT_EQ(std::string(data(TO + others), NUMBER_BYTES), std::string(NUMBER_BYTES, '\0'));
		expect_written(lengths);
	}
}

// Each write takes two requests, and all are short.
TEST_F(LastBytes, OfManyWritesTakeNoMoreRoomThanTheDeviceHas)
{
	constexpr size_t WRITES = 200, BYTES = 16, DEPTH = 126;
	std::vector<VIP_DESCRIPTOR *> writes;

	open_vendor(0xffffff);
	for (size_t i = 0; i < WRITES; i++) {
		writes.push_back(write_many(i, TO, 0, {BYTES}));
		ASSERT_EQ(post_send(a, writes[i]), VIP_SUCCESS);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), static_cast<int>(std::min(2 * i + 2, DEPTH)));
	}
	int moved = 0;
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(-1)) == 2 * WRITES; }));
	for (VIP_DESCRIPTOR *each : writes)
		expect_sent(a, each, VIP_STATUS_OP_RDMA_WRITE);
}

TEST_F(LastBytes, GoWithTheOthersInAShortWriteAndOnOtherDevices)
{
	for (uint32_t vendor : {0xffffffU, 0x2c9U}) {
		open_vendor(vendor);
		for (size_t length : {1, 7, 8}) {
			EXPECT_EQ(requests_of({length}), 1u) << length;
			expect_written({length});
		}
		if (vendor == 0x2c9)
			for (size_t length : {9, 20000}) {
				EXPECT_EQ(requests_of({length}), 1u) << length;
				expect_written({length});
			}
		start_over();
	}
}

TEST_F(LastBytes, GoWithTheOthersWhereImmediateDataTellsOfTheWrite)
{
	open_vendor(0xffffff);
	VIP_DESCRIPTOR *r = many(0, 0, {});
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	EXPECT_EQ(requests_of({100}, VIP_CONTROL_IMMEDIATE), 1u);
	expect_written({100});
	expect_received(b, r, VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
	EXPECT_EQ(r->CS.Length, 100u);
}

} // namespace
