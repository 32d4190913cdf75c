// SPDX-License-Identifier: BSD-2-Clause
// The entries of a completion queue, and their order.
#include "shim.h"
#include "support.h"

namespace
{

class CqEntries : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		ASSERT_EQ(VipCreateCQ(nic, 64, &cq), VIP_SUCCESS);
	}
	// Makes a VI with both queues on the CQ, and `from` connected to it.
	Vi make_receiver(Vi &from)
	{
		Vi to = make_vi(cq, cq);
		from = make_vi();
		connect(from, to, "vi " + std::to_string(connections++));
		return to;
	}
	// Has a message arrive, without a call that takes its completion.
	void deliver(Vi &from, Vi &to)
	{
		posted_receive(to, number++ % 500, {{memory.data(), 16}});
		expect_sent(from, posted_send(from, 1000, {{memory.data(64), 16}}));
	}
	// So many messages arrive at a, and are taken without a call of the CQ. One arrives at b at each multiple of
	// `every`.
	void deliver_and_take(size_t count, size_t every)
	{
		a = make_receiver(from_a);
		b = make_receiver(from_b);
		for (size_t i = 0; i < count; i++) {
			deliver(from_a, a);
			ASSERT_EQ(recv_wait(a).code, VIP_SUCCESS);
			if (i % every == 0)
				deliver(from_b, b);
		}
	}
	// The VIs of all entries, which must be receives.
	std::vector<VIP_VI_HANDLE> vis_told()
	{
		std::vector<VIP_VI_HANDLE> vis;

		for (CqEntry entry = cq_done(cq); entry.code == VIP_SUCCESS; entry = cq_done(cq)) {
			EXPECT_EQ(entry.is_receive, VIP_TRUE);
			vis.push_back(entry.vi);
		}
		return vis;
	}
	using Vis = std::vector<VIP_VI_HANDLE>;
	VIP_CQ_HANDLE cq = nullptr;
	Vi from_a, from_b; // the peers of a and b
	size_t number = 0, connections = 0;
};

// A message arrives at another VI while a connection ends. Before it the device has flushed the descriptors that it
// had. After it the library flushes those that the device did not have.
TEST_F(CqEntries, OfWhatIsFlushedComeAfterWhatTheDeviceHas)
{
	start_over();
	options([](fake_options &o) { o.exact_depths = true; });
	open_with([](fake_device &d) { d.max_qp_wr = 2; });
	ASSERT_EQ(VipCreateCQ(nic, 64, &cq), VIP_SUCCESS);
	a = make_receiver(from_a);
	b = make_receiver(from_b);

	for (size_t i = 0; i < 4; i++)
		posted_receive(a, 800 + i, {{memory.data(), 16}});
	fake_before("sendmsg", 1, [&] { deliver(from_b, b); }); // DISCONNECT
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(vis_told(), (Vis{a, a, b, a, a}));
}

TEST_F(CqEntries, OfABadDescriptorComeAfterWhatTheDeviceHas)
{
	Vi from, to = make_receiver(from), idle = make_vi(cq, cq);
	VIP_DESCRIPTOR *bad = descriptor(800, {{memory.data(), 16}});

	bad->DS[0].Local.Handle += 1000;
	deliver(from, to);
	ASSERT_EQ(post_recv(idle, bad), VIP_SUCCESS); // completed at once, though no connection takes it
	EXPECT_EQ(vis_told(), (Vis{to, idle}));
	deliver(from, to);
	bad->CS.Control = VIP_CONTROL_OP_RESERVED;
	ASSERT_EQ(post_send(to, bad), VIP_SUCCESS);
	for (VIP_BOOLEAN is_receive : {VIP_TRUE, VIP_FALSE})
		EXPECT_EQ(cq_done(cq), (CqEntry{VIP_SUCCESS, to.handle, is_receive}));
	EXPECT_EQ(cq_done(cq).code, VIP_NOT_DONE);
}

// The entries may be anywhere among those of other VIs, which keep their order. More can come afterwards.
TEST_F(CqEntries, OfADestroyedViVanishFromAmongThoseOfOthers)
{
	for (unsigned order : {0x0, 0x1f, 0x15, 0x0a, 0x03, 0x18, 0x0e, 0x11}) {
		Vi from[3], to[3];
		Vis expected;

		for (unsigned i = 0; i < 3; i++)
			to[i] = make_receiver(from[i]);
		for (unsigned i = 0; i < 5; i++) {
			unsigned other = i % 2;

			if (order >> i & 1) {
				deliver(from[2], to[2]);
				continue;
			}
			deliver(from[other], to[other]);
			expected.push_back(to[other]);
		}
		end_vi(to[2]);
		for (unsigned i : {1, 1, 0}) {
			deliver(from[i], to[i]);
			expected.push_back(to[i]);
		}
		EXPECT_EQ(vis_told(), expected) << order;
		for (VIP_VI_HANDLE vi : Vis{from[0], from[1], from[2], to[0], to[1]}) {
			VipDisconnect(vi);
			EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
		}
	}
}

// The ring gets room for another VI while the entries are at its end and at its beginning.
TEST_F(CqEntries, StayInTheirOrderWhenAViJoins)
{
	a = make_receiver(from_a);
	for (size_t i = 0; i < 2 * size_t{1024} - 8; i++) { // places of both queues
		deliver(from_a, a);
		ASSERT_EQ(cq_done(cq).code, VIP_SUCCESS);
		ASSERT_EQ(recv_done(a).code, VIP_SUCCESS);
	}
	Vis expected;
	for (size_t i = 0; i < 16; i++) {
		deliver(from_a, a);
		expected.push_back(a);
	}
	b = make_receiver(from_b);
	deliver(from_b, b);
	deliver(from_a, a);
	expected.insert(expected.end(), {b, a});
	EXPECT_EQ(vis_told(), expected);
}

TEST_F(CqEntries, GoOnWhenTheViIsDestroyedThatWasToldLast)
{
	for (bool more : {false, true}) {
		a = make_receiver(from_a);
		b = make_receiver(from_b);

		deliver(from_a, a);
		if (more)
			deliver(from_b, b);
		ASSERT_EQ(cq_done(cq), (CqEntry{VIP_SUCCESS, a.handle, VIP_TRUE}));
		end_vi(a);
		deliver(from_b, b);
		EXPECT_EQ(vis_told(), more ? (Vis{b, b}) : Vis{b});
	}
}

// A program may ask the queues and not the CQ. It then leaves one entry per completion there.
TEST_F(CqEntries, StayWhenDescriptorsAreTakenWithoutThem)
{
	const size_t COUNT = 2500; // more than twice the places of a ring
	std::map<VIP_VI_HANDLE, size_t> entries;

	deliver_and_take(COUNT, 1000);
	for (VIP_VI_HANDLE vi : vis_told())
		entries[vi]++;
	EXPECT_EQ(entries[a], COUNT);
	EXPECT_EQ(entries[b], 3U);
	// The order is right afterwards, too.
	deliver(from_b, b);
	deliver(from_a, a);
	deliver(from_a, a);
	deliver(from_b, b);
	EXPECT_EQ(vis_told(), (Vis{b, a, a, b}));
}

// They count as done, and have no entries.
TEST_F(CqEntries, OfOthersStayWhenAViIsDestroyedWhoseDescriptorsWereForgotten)
{
	Vi gone = make_vi(nullptr, cq);
	a = make_vi(nullptr, cq);
	b = make_receiver(from_b);
	EXPECT_EQ(VipDestroyVi(gone), VIP_SUCCESS);
	for (size_t i = 0; i < 3; i++)
		posted_receive(a, 600 + i, {{memory.data(), 16}});
	deliver(from_b, b);
	shim_drop_receives(a);
	EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
	deliver(from_b, b);
	EXPECT_EQ(vis_told(), (Vis{b, b}));
}

TEST_F(CqEntries, OfADestroyedViVanishAlsoWhenSomeHadNoPlace)
{
	deliver_and_take(1100, 500);
	end_vi(a);
	EXPECT_EQ(vis_told(), (Vis{b, b, b}));
}

} // namespace
