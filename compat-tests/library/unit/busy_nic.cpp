// SPDX-License-Identifier: BSD-2-Clause
// The calls of the data path while another thread makes or destroys a VI, and takes long: they do not wait for it.
#include "support.h"

namespace
{

class BusyNic : public NicTest
{
      protected:
	static constexpr size_t SENDS = 300, DEPTH = 126; // more than an RDMA device takes at once

	void SetUp() override
	{
		NicTest::SetUp();
		open();
		cq = make_cq(1024);
		make_pair(cq, nullptr);
		for (size_t i = 0; i < SENDS; i++)
			posted_receive(b, 400 + i, {{memory.data(64), 8}});
	}
	void TearDown() override
	{
		go_on.set_value();
		if (busy.valid())
			busy.get();
		NicTest::TearDown();
	}
	// The next such call takes until the test ends.
	void be_slow_in(const char *function)
	{
		fake_before(function, 1, [this] {
			has_begun.set_value();
			may_go_on.wait();
		});
	}
	// Another thread is in the midst of VipCreateVi until the test ends.
	void be_busy()
	{
		be_slow_in("ibv_create_qp");
		busy = std::async(std::launch::async, [this] { make_vi(); });
		expect_begun();
	}
	void expect_begun()
	{
		EXPECT_EQ(has_begun.get_future().wait_for(std::chrono::milliseconds(PATIENCE)), std::future_status::ready);
	}
	void post_sends()
	{
		for (size_t i = 0; i < SENDS; i++)
			posted_send(a, i, {{memory.data(), 8}});
	}
	// Whether the calls end, without the other thread's having to.
	static bool end(const std::function<void()> &calls, std::future<void> &running)
	{
		running = std::async(std::launch::async, calls);
		return running.wait_for(std::chrono::milliseconds(PATIENCE)) == std::future_status::ready;
	}
	VIP_CQ_HANDLE cq = nullptr;
	std::promise<void> has_begun, go_on;
	std::shared_future<void> may_go_on{go_on.get_future()};
	std::future<void> busy, calling;
};

TEST_F(BusyNic, MoreSendsThanTheDeviceTakesAreDone)
{
	by_hand(true);
	be_busy();
	EXPECT_TRUE(end(
		[this] {
			post_sends();
			for (size_t i = 0; i < SENDS; i++) {
				EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), static_cast<int>(std::min(DEPTH, SENDS - i)));
				EXPECT_EQ(fake_progress(1), 1);
				EXPECT_EQ(cq_done(cq).code, VIP_SUCCESS);
				EXPECT_EQ(send_done(a), (Taken{VIP_SUCCESS, at(i)}));
			}
		},
		calling));
}

TEST_F(BusyNic, AnErrorIsToldAndTheViBreaksLater)
{
	be_busy();
	EXPECT_TRUE(end(
		[this] {
			fake_complete_next(a.qp, FAKE_SEND, IBV_WC_REM_OP_ERR);
			posted_send(a, 0, {{memory.data(), 8}});
			EXPECT_EQ(send_done(a), (Taken{VIP_DESCRIPTOR_ERROR, at(0)}));
			uint64_t posts = fake_calls("ibv_post_send");
			posted_send(a, 1, {{memory.data(), 8}});
			EXPECT_EQ(fake_calls("ibv_post_send"), posts) << "it goes out after the error";
		},
		calling));
	go_on.set_value();
	busy.get();
	go_on = std::promise<void>();
	EXPECT_EQ(state_of(a), VIP_STATE_ERROR);
	EXPECT_EQ(send_done(a), (Taken{VIP_DESCRIPTOR_ERROR, at(1)}));
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
}

// The device knows nothing of this error, and would go on.
TEST_F(BusyNic, NoSendGoesOutAfterOneWhoseMemoryIsNotRegistered)
{
	VIP_DESCRIPTOR *bad = descriptor(0, {{memory.data(), 8}});

	bad->DS[0].Local.Handle++;
	be_busy();
	EXPECT_TRUE(end(
		[&] {
			uint64_t posts = fake_calls("ibv_post_send");
			EXPECT_EQ(post_send(a, bad), VIP_SUCCESS);
			posted_send(a, 2, {{memory.data(), 8}});
			EXPECT_EQ(fake_calls("ibv_post_send"), posts);
		},
		calling));
	go_on.set_value();
	busy.get();
	go_on = std::promise<void>();
	EXPECT_EQ(state_of(a), VIP_STATE_ERROR);
	expect_sent(a, bad, VIP_STATUS_PROTECTION_ERROR);
	expect_sent(a, at(2), VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(send_done(a).code, VIP_DESCRIPTOR_ERROR);
}

// Whoever tells of an error does not end the connection by itself.
TEST_F(BusyNic, ADeviceThatTakesLongToStopAQueuePairHoldsUpNobodyWhoTakes)
{
	Vi c = make_vi(cq, cq), d = make_vi();
	connect(c, d, "another");
	posted_receive(d, 900, {{memory.data(64), 8}});
	be_slow_in("ibv_modify_qp");
	EXPECT_TRUE(end(
		[&] {
			fake_complete_next(a.qp, FAKE_SEND, IBV_WC_REM_OP_ERR);
			posted_send(a, 0, {{memory.data(), 8}});
			EXPECT_EQ(send_done(a), (Taken{VIP_DESCRIPTOR_ERROR, at(0)}));
			EXPECT_EQ(cq_done(cq).code, VIP_SUCCESS);
			expect_begun(); // another thread ends it
			posted_send(c, 1, {{memory.data(), 8}});
			EXPECT_EQ(cq_done(cq).code, VIP_SUCCESS);
			EXPECT_EQ(send_done(c).code, VIP_SUCCESS);
			EXPECT_EQ(send_done(a), Taken{VIP_DESCRIPTOR_ERROR}) << "and is empty";
		},
		calling));
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, a), 0) << "it has ended before its queue pair has stopped";
	go_on.set_value();
	EXPECT_EQ(state_of(a), VIP_STATE_ERROR);
	go_on = std::promise<void>();
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
}

TEST_F(BusyNic, TheBacklogOfAnotherViOfTheCqIsSubmitted)
{
	by_hand(true);
	Vi c = make_vi(cq, cq), d = make_vi();
	connect(c, d, "another");
	for (size_t i = 0; i < SENDS; i++)
		posted_receive(d, 400 + i, {{memory.data(64), 8}});
	be_busy();
	post_sends();
	for (size_t i = 0; i < SENDS; i++)
		posted_send(c, 800 + i, {{memory.data(), 8}});
	EXPECT_TRUE(end(
		[&] {
			EXPECT_EQ(fake_progress(8), 8); // they are a's
			EXPECT_EQ(send_done(c).code, VIP_NOT_DONE) << "has found them, and submits a's";
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), static_cast<int>(DEPTH));
			EXPECT_EQ(fake_posted(c.qp, FAKE_SEND), static_cast<int>(DEPTH));
			for (size_t i = 0; i < 8; i++)
				EXPECT_EQ(send_done(a).code, VIP_SUCCESS);
		},
		calling));
}

// More VIs of a CQ have a backlog than a call tries. A VI of which something completes has its turn at once, and so has one that
// waits for others, sooner or later.
class ManyBacklogs : public BusyNic
{
      protected:
	static constexpr size_t VIS = 40, EACH = 6;

	struct Sender {
		Vi from, to;
		size_t done = 0;
	};
	void begin(const std::function<void(fake_device &)> &change)
	{
		start_over();
		options([](fake_options &o) { o.exact_depths = true; });
		open_with(change);
		cq = make_cq(1);
		for (size_t i = 0; i < VIS; i++) {
			Sender sender{make_vi(cq), make_vi()};

			connect(sender.from, sender.to, "sender " + std::to_string(i));
			for (size_t j = 0; j < EACH; j++)
				posted_receive(sender.to, 400 + EACH * i + j, {{memory.data(64), 8}});
			senders.push_back(sender);
		}
		by_hand(true);
		be_busy();
		for (size_t j = 0; j < EACH; j++)
			for (size_t i = 0; i < VIS; i++)
				posted_send(senders[i].from, EACH * i + j, {{memory.data(), 8}});
	}
	// Takes one completion.
	void take()
	{
		EXPECT_EQ(fake_progress(1), 1);
		const auto [code, vi, is_receive] = cq_done(cq);
		EXPECT_EQ(code, VIP_SUCCESS);
		EXPECT_FALSE(is_receive);
		for (size_t i = 0; i < VIS; i++)
			if (senders[i].from == vi) {
				EXPECT_EQ(send_done(vi), (Taken{VIP_SUCCESS, at(EACH * i + senders[i].done++)}));
				EXPECT_EQ(recv_done(senders[i].to).code, VIP_SUCCESS); // and the next receive is posted
			}
	}
	std::vector<Sender> senders;
};

TEST_F(ManyBacklogs, TheOneThatHasRoomIsSubmittedAtOnce)
{
	begin([](fake_device &d) { d.max_qp_wr = 2; });
	EXPECT_TRUE(end(
		[this] {
			for (size_t taken = 0; taken < VIS * EACH && !HasFailure(); taken++) {
				take();
				for (const Sender &sender : senders)
					EXPECT_EQ(fake_posted(sender.from.qp, FAKE_SEND),
						  static_cast<int>(std::min(size_t{2}, EACH - sender.done)));
			}
		},
		calling));
}

TEST_F(ManyBacklogs, RoomInTheCqIsAlwaysUsed)
{
	static constexpr int ROOM = 14; // one entry is the library's own

	begin([](fake_device &d) {
		d.max_cqe = ROOM + 1;
		d.resize_cq = false;
	});
	EXPECT_TRUE(end(
		[this] {
			for (int left = VIS * EACH; left && !HasFailure(); left--) {
				int posted = 0;

				for (const Sender &sender : senders)
					posted += fake_posted(sender.from.qp, FAKE_SEND);
				EXPECT_EQ(posted, std::min(ROOM, left));
				take();
			}
		},
		calling));
}

// Receives leave a quarter of the CQ to sends. There are more of them than a call tries.
TEST_F(ManyBacklogs, RoomThatOnlySendsMayUseIsUsedAtOnce)
{
	static constexpr int ROOM = 16, FOR_RECEIVES = ROOM / 4 * 3;

	start_over();
	options([](fake_options &o) { o.exact_depths = true; });
	open_with([](fake_device &d) {
		d.max_cqe = ROOM + 1;
		d.resize_cq = false;
	});
	cq = make_cq(1);
	make_pair(cq, nullptr);
	for (size_t i = 0; i < VIS; i++) {
		Vi from = make_vi(), to = make_vi(nullptr, cq);

		connect(from, to, "receiver " + std::to_string(i));
		posted_receive(to, 200 + i, {{memory.data(8), 8}});
		posted_receive(b, 300 + i, {{memory.data(64), 8}});
	}
	by_hand(true);
	be_busy();
	for (size_t i = 0; i < EACH; i++)
		posted_send(a, i, {{memory.data(), 8}});
	EXPECT_TRUE(end(
		[this] {
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), ROOM - FOR_RECEIVES);
			EXPECT_EQ(fake_progress(1), 1);
			EXPECT_EQ(cq_done(cq), (CqEntry{VIP_SUCCESS, a.handle, VIP_FALSE}));
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), ROOM - FOR_RECEIVES);
		},
		calling));
}

} // namespace
