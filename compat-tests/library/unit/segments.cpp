// SPDX-License-Identifier: BSD-2-Clause
// Descriptors of more segments than the device takes in a request, and sends of several requests. Each request is
// counted. The descriptor completes once.
#include "many_segments.h"

namespace
{

using Segments = ManySegments;

TEST_F(Segments, QueuePairsAreMadeForFew)
{
	open_with(256);
	make_pair();
	EXPECT_LE(qp_attributes(a).cap.max_send_sge, 32u);
	EXPECT_LE(qp_attributes(a).cap.max_recv_sge, 32u);
}

TEST_F(Segments, AWriteInPartsIsDoneWhenAllOfItIs)
{
	open_with(4);
	make_pair();
	by_hand(true);
	VIP_DESCRIPTOR *w = write_many(1, 500000, 0, uneven(14)); // 4 + 4 + 4 + 2, and the last bytes
	uint64_t before = requests();
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	EXPECT_EQ(requests() - before, 5u);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(fake_progress(1), 1);
		EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
	}
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE);
	EXPECT_EQ(send_done(a), Taken{VIP_DESCRIPTOR_ERROR}) << "told once";
}

// 63 requests go to a queue pair, or a CQ, of fewer entries.
TEST_F(Segments, PartsThatDoNotFitFollowWhenThereIsRoom)
{
	for (auto [depth, entries] : {std::pair(1, 4095), {5, 4095}, {1000, 15}, {2, 3}}) {
		SCOPED_TRACE(depth);
		open_with(4, [requests = depth, room = entries](fake_device &d) {
			d.max_qp_wr = requests;
			d.max_cqe = room;
			d.resize_cq = false;
		});
		options([](fake_options &o) { o.exact_depths = true; });
		VIP_CQ_HANDLE cq = make_cq(1);
		make_pair(cq, nullptr);
		std::vector<size_t> from = uneven(251);
		paint(0, from);
		VIP_DESCRIPTOR *r = many(0, 400000, {8}), *s = many(1, 200000, {8});
		VIP_DESCRIPTOR *w[] = {write_many(2, 500000, 0, from), write_many(3, 600000, 0, from)};
		post_recvs(b, {r});
		post_sends(a, {w[0], w[1], s});
		expect_received(b, r); // without a call that asks for the sends
		EXPECT_EQ(std::string(data(500000), sum(from)), bytes(0, from));
		EXPECT_EQ(std::string(data(600000), sum(from)), bytes(0, from));
		for (VIP_DESCRIPTOR *d : {w[0], w[1], s}) {
			ASSERT_EQ(cq_wait(cq).code, VIP_SUCCESS);
			expect_sent(a, d, d == s ? 0 : VIP_STATUS_OP_RDMA_WRITE);
		}
		start_over();
	}
}

// The CQ has room for the requests of one VI only. It must not overflow.
TEST_F(Segments, RequestsOfSeveralVisShareACq)
{
	const size_t VIS = 4;
	std::vector<Vi> from, to;

	open_with(4, [](fake_device &d) {
		d.max_cqe = 31;
		d.resize_cq = false;
	});
	VIP_CQ_HANDLE cq = make_cq(1);
	for (size_t i = 0; i < VIS; i++) {
		from.push_back(make_vi(cq));
		to.push_back(make_vi());
		connect(from[i], to[i], "vi " + std::to_string(i));
	}
	by_hand(true);
	std::vector<VIP_DESCRIPTOR *> writes;
	for (size_t i = 0; i < VIS; i++) {
		writes.push_back(write_many(i, 100000 * i, 700000, uneven(100)));
		ASSERT_EQ(post_send(from[i], writes[i]), VIP_SUCCESS);
	}
	int moved = 0, all = VIS * 26;
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(1)) == all; }));
	for (size_t i = 0; i < VIS; i++)
		expect_sent(from[i], writes[i], VIP_STATUS_OP_RDMA_WRITE);
}

TEST_F(Segments, AWriteCompletesWithTheErrorOfItsFirstPartThatFailed)
{
	for (int good : {0, 1, 2, 3}) {
		SCOPED_TRACE(good);
		open_with(4);
		make_pair();
		by_hand(true);
		VIP_DESCRIPTOR *s = many(0, 0, {1}), *w = write_many(1, 500000, 0, uneven(14));
		VIP_DESCRIPTOR *behind = write_many(2, 500000, 0, uneven(14));
		VIP_DESCRIPTOR *r = many(3, 1000, {1}), *unused = many(4, 1000, {1});
		post_recvs(b, {r, unused});
		post_sends(a, {s, w, behind});
		EXPECT_EQ(fake_progress(1 + good), 1 + good);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_REM_ACCESS_ERR);
		EXPECT_EQ(fake_progress(1), 1);
		expect_sent(a, s);
		expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
		expect_sent(a, behind, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_DESC_FLUSHED_ERROR);
		expect_state(a, VIP_STATE_ERROR);
		expect_received(b, r);
		expect_received(b, unused, VIP_STATUS_DESC_FLUSHED_ERROR);
		by_hand(false);
		expect_again();
		start_over();
	}
}

class RefusedPart : public ManySegments, public testing::WithParamInterface<int>
{
      protected:
	// Posts a write of five parts. The device refuses the last three as often as they are tried. None of the write
	// is done yet.
	VIP_DESCRIPTOR *post_half()
	{
		VIP_DESCRIPTOR *w;

		open_with(4);
		make_pair();
		paint(0, uneven(14));
		w = write_many(1, 500000, 0, uneven(14));
		by_hand(true);
		for (int nth = 3; nth < 10000; nth++)
			fake_fail("ibv_post_send", nth, GetParam());
		EXPECT_EQ(post_send(a, w), VIP_SUCCESS);
		EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 2);
		return w;
	}
};

TEST_P(RefusedPart, IsTriedAgainWhenOthersAreDone)
{
	VIP_DESCRIPTOR *w = post_half();
	int moved = 0;

	fake_fail_always("ibv_post_send", 0);
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(1)) == 5; }));
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE);
	EXPECT_EQ(std::string(data(500000), sum(uneven(14))), bytes(0, uneven(14)));
}

TEST_P(RefusedPart, IsTheErrorOfItsDescriptorWhenOthersAreDone)
{
	VIP_DESCRIPTOR *w = post_half();

	EXPECT_EQ(fake_progress(-1), 2);
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_TRANSPORT_ERROR);
	expect_state(b, VIP_STATE_ERROR);
}

INSTANTIATE_TEST_SUITE_P(With, RefusedPart, testing::Values(ENOMEM, EINVAL));

// Requests that the device still had give back their places, so the CQ serves as before. In every other round their
// completions come too late.
TEST_F(Segments, DisconnectingFlushesPartsAndFreesTheirPlaces)
{
	open_with(4, [](fake_device &d) {
		d.max_cqe = 15;
		d.max_qp_wr = 10;
		d.resize_cq = false;
	});
	VIP_CQ_HANDLE cq = make_cq(1);
	make_pair(cq, nullptr);
	for (int round = 0; round < 10; round++) {
		options([=](fake_options &o) {
			o.manual = true;
			o.hold_completions = round % 2;
		});
		VIP_DESCRIPTOR *w[] = {write_many(1, 500000, 0, uneven(200)), write_many(2, 500000, 0, uneven(200))};
		post_sends(a, {w[0], w[1]});
		EXPECT_EQ(fake_progress(round), round);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		for (VIP_DESCRIPTOR *d : w)
			expect_sent(a, d, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		options([](fake_options &o) { o.manual = o.hold_completions = false; });
		fake_release(-1);
		connect(a, b, "again");
		expect_send(a, write_many(1, 500000, 0, uneven(200)), VIP_STATUS_OP_RDMA_WRITE);
	}
}

TEST_F(Segments, ProgramsThatChangeAPostedDescriptorHarmThemselvesOnly)
{
	open_with(4, [](fake_device &d) { d.max_qp_wr = 2; });
	options([](fake_options &o) { o.exact_depths = true; });
	struct {
		const char *what;
		std::function<void(VIP_DESCRIPTOR *)> change;
	} cases[] = {
		{"fewer segments", [](auto d) { d->CS.SegCount = 2; }},
		{"none", [](auto d) { d->CS.SegCount = 0; }},
		{"too many", [](auto d) { d->CS.SegCount = 0xFFFF; }},
		{"another operation", [](auto d) { d->CS.Control = VIP_CONTROL_OP_SENDRECV; }},
		{"no operation", [](auto d) { d->CS.Control = 0xFFFF; }},
		{"another handle", [](auto d) { d->DS[1].Local.Handle ^= 0x55; }},
		{"longer", [](auto d) { d->DS[1].Local.Length = 0xFFFFFFFF; }},
	};
	for (const auto &each : cases) {
		SCOPED_TRACE(each.what);
		make_pair();
		by_hand(true);
		VIP_DESCRIPTOR *w = write_many(1, 500000, 0, uneven(100));
		ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
		each.change(w);
		Taken taken{};
		EXPECT_TRUE(eventually([&] {
			fake_progress(1);
			return (taken = send_done(a)).code != VIP_NOT_DONE;
		}));
		EXPECT_EQ(taken.descriptor, w);
		by_hand(false);
		expect_again();
	}
}

// ---- the last bytes of an RDMA write, which programs watch: on soft-RoCE they go in a request of their own ----

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
	constexpr size_t COUNT = 200, BYTES = 16, DEPTH = 126;
	std::vector<VIP_DESCRIPTOR *> writes;

	open_vendor(0xffffff);
	for (size_t i = 0; i < COUNT; i++) {
		writes.push_back(write_many(i, TO, 0, {BYTES}));
		ASSERT_EQ(post_send(a, writes[i]), VIP_SUCCESS);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), static_cast<int>(std::min(2 * i + 2, DEPTH)));
	}
	int moved = 0;
	EXPECT_TRUE(eventually([&] { return (moved += fake_progress(-1)) == 2 * COUNT; }));
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
