// SPDX-License-Identifier: BSD-2-Clause
// Messages of more segments than a request takes go through memory of the library. Tests where it comes from, the lack
// of it, and the checks of segments.
#include "many_segments.h"

#include <sys/mman.h>

namespace
{

class Staging : public ManySegments
{
      protected:
	void SetUp() override
	{
		ManySegments::SetUp();
		begin();
	}
	void begin()
	{
		open_with(4);
		make_pair();
		paint(0, sent);
	}
	void expect_arrived(VIP_DESCRIPTOR *receive)
	{
		expect_received(b, receive);
		EXPECT_EQ(receive->CS.Length, sum(sent));
		EXPECT_EQ(bytes(500000, sent), bytes(0, sent));
	}
	const std::vector<size_t> sent = uneven(60);
};

TEST_F(Staging, MemoryIsRegisteredOnceAndUsedAgain)
{
	uint64_t before = fake_calls("ibv_reg_mr");

	for (int i = 0; i < 50; i++) {
		VIP_DESCRIPTOR *r = many(0, 500000, sent), *s = many(1, 0, sent);
		post_both(r, s);
		expect_arrived(r);
		expect_sent(a, s);
	}
	EXPECT_LE(fake_calls("ibv_reg_mr") - before, 2u);
}

TEST_F(Staging, DescriptorsThatTheDeviceTakesNeedNone)
{
	uint64_t before = fake_calls("ibv_reg_mr");
	std::vector<size_t> four = uneven(4);
	VIP_DESCRIPTOR *r = many(0, 500000, four), *s = many(1, 0, four);

	post_both(r, s);
	expect_received(b, r);
	expect_sent(a, s);
	VIP_DESCRIPTOR *w = write_many(1, 500000, 0, sent); // in parts
	expect_send(a, w, VIP_STATUS_OP_RDMA_WRITE);
	EXPECT_EQ(fake_calls("ibv_reg_mr"), before);
}

TEST_F(Staging, ASendThatFindsNoMemoryWaitsForIt)
{
	VIP_DESCRIPTOR *r = many(0, 500000, sent), *s = many(1, 0, sent);
	VIP_DESCRIPTOR *r2 = many(2, 600000, {8}), *s2 = many(3, 0, {8});

	post_recvs(b, {r, r2}); // r has found memory
	fake_fail_always("ibv_reg_mr", ENOMEM);
	post_sends(a, {s, s2}); // s2 must wait for the other one
	uint64_t tries = fake_calls("ibv_reg_mr");
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_reg_mr") > tries + 3; }));
	EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
	EXPECT_EQ(recv_done(b).code, VIP_NOT_DONE);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	fake_fail_always("ibv_reg_mr", 0);
	expect_arrived(r); // without a call that asks for the sends
	expect_received(b, r2);
	expect_sent(a, s);
	expect_sent(a, s2);
}

TEST_F(Staging, AReceiveThatFindsNoMemoryWaitsForItAndThoseBehindIt)
{
	for (bool before_connecting : {false, true}) {
		VIP_DESCRIPTOR *r = many(0, 500000, sent), *r2 = many(2, 600000, {8}), *s = many(1, 0, sent);

		fake_fail_always("ibv_reg_mr", ENOMEM);
		if (before_connecting) {
			a = make_vi();
			b = make_vi();
		}
		post_recvs(b, {r, r2});
		if (before_connecting)
			connect(a, b, "late");
		EXPECT_EQ(fake_posted(b.qp, FAKE_RECV), 0);
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
		fake_fail_always("ibv_reg_mr", 0);
		EXPECT_TRUE(eventually([&] { return fake_posted(b.qp, FAKE_RECV) == 2; }));
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_arrived(r);
		expect_sent(a, s);
		start_over();
		begin();
	}
}

// Each buffer is a region of the device's. If receives had all of them, no send could go, and no receive would end.
TEST_F(Staging, ReceivesLeaveSomeOfFewRegionsToSends)
{
	start_over();
	open_with(4, [](fake_device &d) { d.max_mr = 32; });
	make_pair();
	paint(0, sent);
	for (size_t i = 0; i < 40; i++)
		ASSERT_EQ(post_recv(b, many(i, 500000, sent)), VIP_SUCCESS);
	for (size_t i = 0; i < 40; i++) {
		expect_send(a, many(40, 0, sent));
		ASSERT_EQ(recv_wait(b).code, VIP_SUCCESS) << i;
		EXPECT_EQ(bytes(500000, sent), bytes(0, sent));
		ASSERT_FALSE(HasFatalFailure());
	}
}

TEST_F(Staging, WhoWaitsForMemoryCanBeDisconnected)
{
	VIP_DESCRIPTOR *r = many(0, 500000, sent), *s = many(1, 0, sent);

	fake_fail_always("ibv_reg_mr", ENOMEM);
	post_both(r, s);
	disconnect_pair();
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_received(b, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_again();
}

// The receives have 8 MiB each, in segments that all name the same memory.
class StagingOfLarge : public Staging
{
      protected:
	void SetUp() override
	{
		Staging::SetUp();
		vi_kind.MaxTransferSize = 8 << 20;
	}
	VIP_DESCRIPTOR *posted_large(const Vi &vi, size_t number, VIP_MEM_HANDLE handle = 0)
	{
		VIP_DESCRIPTOR *r = many(number, 0, std::vector<size_t>(MOST, 40000));

		for (size_t i = 0; i < MOST; i++) {
			segment(r, i).Data.Address = data(0);
			if (handle)
				segment(r, i).Handle = handle;
		}
		EXPECT_EQ(post_recv(vi, r), VIP_SUCCESS);
		return r;
	}
};

TEST_F(StagingOfLarge, MemoryIsBoundedAndReceivesBeyondItFollow)
{
	const size_t COUNT = 40, AT_ONCE = 24; // the rest is for sends
	std::vector<VIP_DESCRIPTOR *> receives;

	make_pair();
	for (size_t i = 0; i < COUNT; i++)
		receives.push_back(posted_large(b, i));
	EXPECT_EQ(fake_posted(b.qp, FAKE_RECV), static_cast<int>(AT_ONCE));
	for (size_t i = 0; i < COUNT; i++) {
		expect_send(a, many(COUNT, 0, {i}));
		expect_received(b, receives[i]);
		EXPECT_EQ(receives[i]->CS.Length, i);
		int expected = static_cast<int>(std::min(COUNT - 1 - i, AT_ONCE));
		// The agent may be the thread that posts the next receive.
		EXPECT_TRUE(eventually([&] { return fake_posted(b.qp, FAKE_RECV) == expected; })) << i;
	}
}

TEST_F(StagingOfLarge, MemoryThatOneViNoLongerUsesIsThereForOthers)
{
	VIP_MEM_ATTRIBUTES of_tag{};
	VIP_MEM_HANDLE handles[2] = {};
	Vi vis[2];

	for (Vi &vi : vis) { // the first tag is an alias of the default tag
		ASSERT_EQ(VipCreatePtag(nic, &vi_kind.Ptag), VIP_SUCCESS);
		vi = make_vi();
	}
	of_tag.Ptag = vi_kind.Ptag;
	ASSERT_EQ(VipRegisterMem(nic, data(0), 500000, &of_tag, &handles[1]), VIP_SUCCESS);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 2; i++) {
			Vi peer = make_vi();

			connect(peer, vis[i], "turn");
			if (round) // it is connected anew
				vis[i].qp = newest_qp();
			for (size_t j = 0; j < 40; j++)
				posted_large(vis[i], j, handles[i]);
			// Some memory is kept for the other VI, which may use it again.
			EXPECT_GE(fake_posted(vis[i].qp, FAKE_RECV), 22);
			EXPECT_EQ(VipDisconnect(vis[i]), VIP_SUCCESS);
			end_vi(peer);
			while (recv_done(vis[i]).descriptor)
				;
		}
}

TEST_F(Staging, ADisconnectReturnsTheMemory)
{
	uint64_t before = 0;

	for (int i = 0; i < 12; i++) {
		for (size_t j = 0; j < 10; j++)
			ASSERT_EQ(post_recv(b, many(j, 500000, sent)), VIP_SUCCESS);
		// In every other round the device does not report the flushed receives in time.
		options([=](fake_options &o) { o.hold_completions = i % 2; });
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		options([](fake_options &o) { o.hold_completions = false; });
		fake_release(-1);
		while (recv_done(b).descriptor)
			;
		connect(a, b, "again");
		if (!before)
			before = fake_calls("ibv_reg_mr");
	}
	EXPECT_EQ(fake_calls("ibv_reg_mr"), before) << "the same again and again";
}

TEST_F(Staging, ASendThatTheDeviceRefusesReturnsItsMemory)
{
	fake_fail("ibv_post_send", 1, EINVAL);
	expect_send(a, many(1, 0, sent), VIP_STATUS_TRANSPORT_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	disconnect_pair();
	fake_fail("ibv_post_recv", 1, EINVAL);
	connect(a, b, "again");
	VIP_DESCRIPTOR *r = many(0, 500000, sent);
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	expect_received(b, r, VIP_STATUS_TRANSPORT_ERROR);
	disconnect_pair();
	connect(a, b, "again");
	uint64_t before = fake_calls("ibv_reg_mr");
	ASSERT_EQ(post_recv(b, r = many(0, 500000, sent)), VIP_SUCCESS);
	EXPECT_EQ(fake_calls("ibv_reg_mr"), before);
}

TEST_F(Staging, AReceiveWhoseMemoryWasDeregisteredOrCannotBeWrittenIsAProtectionError)
{
	for (bool gone : {true, false}) {
		SCOPED_TRACE(gone);
		void *place = mmap(nullptr, 4096, gone ? PROT_READ | PROT_WRITE : PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		VIP_MEM_HANDLE handle;
		VIP_DESCRIPTOR *r = many(0, 500000, sent), *s = many(1, 0, sent);

		ASSERT_EQ(VipRegisterMem(nic, place, 4096, nullptr, &handle), VIP_SUCCESS);
		segment(r, 59).Data.Address = place;
		segment(r, 59).Handle = handle;
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		if (gone) {
			ASSERT_EQ(VipDeregisterMem(nic, place, handle), VIP_SUCCESS);
		}
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_received(b, r, VIP_STATUS_PROTECTION_ERROR);
		expect_state(a, VIP_STATE_ERROR);
		disconnect_pair();
		connect(a, b, "again");
		munmap(place, 4096);
	}
}

TEST_F(Staging, ProgramsThatChangeAPostedReceiveHarmThemselvesOnly)
{
	VIP_PROTECTION_HANDLE alias, tag;
	VIP_MEM_ATTRIBUTES attributes{};
	VIP_MEM_HANDLE foreign;

	ASSERT_EQ(VipCreatePtag(nic, &alias), VIP_SUCCESS); // an alias of the default tag
	ASSERT_EQ(VipCreatePtag(nic, &tag), VIP_SUCCESS);
	attributes.Ptag = tag;
	ASSERT_EQ(VipRegisterMem(nic, data(500000), 4096, &attributes, &foreign), VIP_SUCCESS);
	struct {
		const char *what;
		std::function<void(VIP_DESCRIPTOR *)> change;
		VIP_UINT32 status;
	} cases[] = {
		{"another tag's handle", [=](auto d) { d->DS[1].Local.Handle = foreign; }, VIP_STATUS_PROTECTION_ERROR},
		{"fewer segments", [](auto d) { d->CS.SegCount = 2; }, VIP_STATUS_PROTECTION_ERROR},
		{"too many", [](auto d) { d->CS.SegCount = 0xFFFF; }, 0},
		{"another handle", [](auto d) { d->DS[1].Local.Handle ^= 0x55; }, VIP_STATUS_PROTECTION_ERROR},
		{"a wild address", [](auto d) { d->DS[1].Local.Data.AddressBits = 8; }, VIP_STATUS_PROTECTION_ERROR},
		{"longer", [](auto d) { d->DS[1].Local.Length = 0xFFFFFFFF; }, 0},
	};
	for (const auto &each : cases) {
		SCOPED_TRACE(each.what);
		VIP_DESCRIPTOR *r = many(0, 500000, sent), *s = many(1, 0, sent);
		ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
		each.change(r);
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		expect_received(b, r, each.status);
		disconnect_pair();
		connect(a, b, "again");
	}
}

} // namespace
