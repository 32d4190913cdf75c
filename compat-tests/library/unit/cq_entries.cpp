// SPDX-License-Identifier: BSD-2-Clause
// The entries of a completion queue, and their order.
#include "support.h"

namespace
{

struct Entry {
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;
	bool operator==(const Entry &other) const
	{
		return vi == other.vi && is_receive == other.is_receive;
	}
};

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
		VIP_DESCRIPTOR *s = posted_send(from, 1000, {{memory.data(64), 16}});
		expect_sent(from, s);
	}
	// All entries of the CQ.
	std::vector<Entry> told()
	{
		std::vector<Entry> entries;
		Entry entry;

		while (VipCQDone(cq, &entry.vi, &entry.is_receive) == VIP_SUCCESS)
			entries.push_back(entry);
		return entries;
	}
	// The VIs of all entries, which must be receives.
	std::vector<VIP_VI_HANDLE> vis_told()
	{
		std::vector<VIP_VI_HANDLE> vis;

		for (const Entry &entry : told()) {
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

TEST_F(CqEntries, SendsAndReceivesOfOneViAreInTheirOrderAndThenWhatIsFlushed)
{
	Vi from, vi = make_receiver(from);
	const Entry send{vi, VIP_FALSE}, receive{vi, VIP_TRUE};
	std::vector<Entry> expected;

	for (size_t i = 0; i < 12; i++)
		posted_receive(from, 600 + i, {{memory.data(), 16}});
	for (size_t i = 0; i < 5; i++) {
		posted_send(vi, 700 + i, {{memory.data(), 16}});
		expected.push_back(send);
	}
	deliver(from, vi);
	expected.push_back(receive);
	for (size_t i = 0; i < 3; i++) {
		posted_receive(vi, 800 + i, {{memory.data(), 16}});
		expected.push_back(receive);
	}
	EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
	EXPECT_EQ(told(), expected);
}

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
	std::function<void()> arrive = [&] { deliver(from_b, b); };

	for (size_t i = 0; i < 4; i++)
		posted_receive(a, 800 + i, {{memory.data(), 16}});
	fake_before(
		"sendmsg", 1, // DISCONNECT
		[](void *call) { (*static_cast<std::function<void()> *>(call))(); }, &arrive);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(vis_told(), (Vis{a, a, b, a, a}));
}

TEST_F(CqEntries, OfWhatIsFlushedAtOnceComeAfterWhatTheDeviceHas)
{
	Vi from, to = make_receiver(from), idle = make_vi(cq, cq);

	deliver(from, to);
	posted_send(idle, 800, {{memory.data(), 16}});
	EXPECT_EQ(told(), (std::vector<Entry>{{to, VIP_TRUE}, {idle, VIP_FALSE}}));
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
	EXPECT_EQ(told(), (std::vector<Entry>{{to, VIP_TRUE}, {to, VIP_FALSE}}));
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
		EXPECT_EQ(VipDisconnect(to[2]), VIP_SUCCESS);
		EXPECT_EQ(VipDestroyVi(to[2]), VIP_SUCCESS);
		for (unsigned i : {1, 1, 0}) {
			deliver(from[i], to[i]);
			expected.push_back(to[i]);
		}
		EXPECT_EQ(vis_told(), expected) << order;
		for (unsigned i = 0; i < 3; i++) {
			VipDisconnect(from[i]);
			EXPECT_EQ(VipDestroyVi(from[i]), VIP_SUCCESS);
		}
		for (unsigned i = 0; i < 2; i++) {
			VipDisconnect(to[i]);
			EXPECT_EQ(VipDestroyVi(to[i]), VIP_SUCCESS);
		}
	}
}

// The entry that was taken last may be kept in the place of the destroyed VI.
TEST_F(CqEntries, GoOnWhenTheViIsDestroyedThatWasToldLast)
{
	for (bool more : {false, true}) {
		a = make_receiver(from_a);
		b = make_receiver(from_b);
		Entry entry;

		deliver(from_a, a);
		if (more)
			deliver(from_b, b);
		ASSERT_EQ(VipCQDone(cq, &entry.vi, &entry.is_receive), VIP_SUCCESS);
		EXPECT_EQ(entry.vi, a.handle);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
		deliver(from_b, b);
		EXPECT_EQ(vis_told(), more ? (Vis{b, b}) : Vis{b});
	}
}

// A program may ask the queues and not the CQ. It then leaves one entry per completion there.
TEST_F(CqEntries, StayWhenDescriptorsAreTakenWithoutThem)
{
	const size_t COUNT = 2500; // more than twice the places of a ring
	a = make_receiver(from_a);
	b = make_receiver(from_b);
	std::map<VIP_VI_HANDLE, size_t> entries;

	for (size_t i = 0; i < COUNT; i++) {
		deliver(from_a, a);
		VIP_DESCRIPTOR *d = nullptr;
		ASSERT_EQ(VipRecvWait(a, PATIENCE, &d), VIP_SUCCESS);
		if (i % 1000 == 0)
			deliver(from_b, b);
	}
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

TEST_F(CqEntries, OfADestroyedViVanishAlsoWhenSomeHadNoPlace)
{
	a = make_receiver(from_a);
	b = make_receiver(from_b);

	for (size_t i = 0; i < 1100; i++) {
		deliver(from_a, a);
		VIP_DESCRIPTOR *d = nullptr;
		ASSERT_EQ(VipRecvWait(a, PATIENCE, &d), VIP_SUCCESS);
		if (i % 500 == 0)
			deliver(from_b, b);
	}
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
	EXPECT_EQ(vis_told(), (Vis{b, b, b}));
}

// The CQ needs memory for as many queues as it has.
TEST_F(CqEntries, OfManyVisAreInOrder)
{
	const size_t COUNT = 40;
	std::vector<Vi> from(COUNT), to(COUNT);
	Vis expected;

	for (size_t i = 0; i < COUNT; i++)
		to[i] = make_receiver(from[i]);
	for (size_t i = 0; i < 10 * COUNT; i++) {
		size_t vi = i * 7 % COUNT;

		deliver(from[vi], to[vi]);
		expected.push_back(to[vi]);
	}
	EXPECT_EQ(vis_told(), expected);
}

} // namespace
