// SPDX-License-Identifier: BSD-2-Clause
// Completions of VIs that are gone, which some devices leave in a CQ: they mean nothing, for the VIs that have
// come since least of all.
#include "support.h"

namespace
{

struct Remains : Named {
	bool soft; // soft-RoCE, where the end of a connection waits longer
	bool late; // they come only when the queue pair has been destroyed
};

class GoneVis : public Each<NicTest, Remains>
{
      protected:
	static constexpr size_t RECEIVES = 12;

	void SetUp() override
	{
		NicTest::SetUp();
		options([](fake_options &o) { o.late_completions = GetParam().late; });
		open_with([](fake_device &d) { d.vendor_id = GetParam().soft ? d.vendor_id : 0x1077; });
		cq = make_cq(256);
		a = make_vi();
		b = make_vi(cq, cq);
		post_receives(b);
		connect(a, b);
	}
	void post_receives(Vi &vi)
	{
		for (size_t i = 0; i < RECEIVES; i++)
			posted_receive(vi, i, {{memory.data(), 64}});
	}
	// The device is too slow for the end of the connection: the VI's completions come later.
	void disconnect_slowly()
	{
		options([](fake_options &o) { o.hold_completions = true; });
		disconnect_pair();
		options([](fake_options &o) { o.hold_completions = false; });
		for (size_t i = 0; i < RECEIVES; i++)
			EXPECT_EQ(recv_done(b).code, VIP_DESCRIPTOR_ERROR);
	}
	void come_late()
	{
		int released = fake_release(-1);

		if (GetParam().late) {
			EXPECT_EQ(released, static_cast<int>(RECEIVES));
		}
	}
	void expect_first_message(Vi &to)
	{
		VIP_DESCRIPTOR *s = descriptor(100, {{memory.data(128), 8}});

		EXPECT_EQ(recv_done(to).code, VIP_NOT_DONE);
		expect_send(a, s);
		expect_received(to, at(0));
	}
	VIP_CQ_HANDLE cq = nullptr;
};

TEST_P(GoneVis, LeaveNothingThatACqHandles)
{
	disconnect_slowly();
	ASSERT_EQ(VipDestroyVi(b), VIP_SUCCESS);
	come_late();
	EXPECT_EQ(cq_done(cq).code, VIP_NOT_DONE);
	b = make_vi(cq, cq);
	connect(a, b);
	post_receives(b);
	expect_first_message(b);
}

TEST_P(GoneVis, CompleteNothingOfTheirSuccessors)
{
	for (int round = 0; round < (GetParam().soft ? 2 : 40); round++) { // there are 32 generations
		disconnect_slowly();
		ASSERT_EQ(VipDestroyVi(b), VIP_SUCCESS);
		b = make_vi(cq, cq);
		post_receives(b);
		come_late();
		connect(a, b, "round " + std::to_string(round));
		expect_first_message(b);
		for (size_t i = 1; i < RECEIVES; i++)
			EXPECT_EQ(at(i)->CS.Status, 0u) << i;
		if (HasFailure())
			break;
		posted_receive(b, 0, {{memory.data(), 64}});
	}
}

// An endpoint gets another queue pair for its next connection.
TEST_P(GoneVis, OrConnectionsThatHaveEndedCompleteNothingOfTheNext)
{
	disconnect_slowly();
	post_receives(b);
	connect(a, b, "again");
	come_late();
	expect_first_message(b);
}

INSTANTIATE_TEST_SUITE_P(Completions, GoneVis,
			 testing::Values(Remains{"LeftInTheCq", false, false}, Remains{"LeftBySoftRoce", true, false},
					 Remains{"ComingLate", false, true}),
			 ByName());

} // namespace
