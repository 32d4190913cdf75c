// SPDX-License-Identifier: BSD-2-Clause
// Threads wait for something, and another thread takes it away.
#include "support.h"

#include <atomic>
#include <thread>

namespace
{

class Waiters : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
	}
	// Starts a call that will sleep. Returns when the call is about to: it has armed a CQ, or
	// it listens.
	std::future<VIP_RETURN> start(const char *signature, std::function<VIP_RETURN()> call)
	{
		uint64_t before = fake_calls(signature);
		auto result = std::async(std::launch::async, std::move(call));
		EXPECT_TRUE(eventually([&] { return fake_calls(signature) > before; }));
		return result;
	}
	std::future<VIP_RETURN> recv_wait(const Vi &vi)
	{
		return start("ibv_req_notify_cq", [=] {
			VIP_DESCRIPTOR *done;
			return VipRecvWait(vi, VIP_INFINITE, &done);
		});
	}
	std::future<VIP_RETURN> send_wait(const Vi &vi)
	{
		return start("ibv_req_notify_cq", [=] {
			VIP_DESCRIPTOR *done;
			return VipSendWait(vi, VIP_INFINITE, &done);
		});
	}
	std::future<VIP_RETURN> cq_wait(VIP_CQ_HANDLE cq)
	{
		return start("ibv_req_notify_cq", [=] {
			VIP_VI_HANDLE vi;
			VIP_BOOLEAN is_receive;
			return VipCQWait(cq, VIP_INFINITE, &vi, &is_receive);
		});
	}
	std::future<VIP_RETURN> connect_wait()
	{
		return start("listen", [=] {
			VIP_CONN_HANDLE conn;
			return wait("wait", VIP_INFINITE, &conn);
		});
	}
	std::future<VIP_RETURN> connect_request(const Vi &vi)
	{
		fake_address("10.9.9.50", FAKE_REACH_SILENT);
		return start("connect",
			     [=] { return request(vi, "x", VIP_INFINITE, "10.9.9.50"); });
	}
};

TEST_F(Waiters, PollingBeforeSleepingIsLeftOutMostlyWhereItIsInVain)
{
	constexpr uint64_t without = 3; // before, once the CQ is armed, and at the end
	a = make_vi();
	const auto polls_of_a_wait = [&] {
		const uint64_t before = fake_calls("ibv_poll_cq");
		VIP_DESCRIPTOR *done;

		EXPECT_EQ(VipRecvWait(a, 1, &done), VIP_TIMEOUT);
		return fake_calls("ibv_poll_cq") - before;
	};
	int spinning = 0;

	for (int i = 0; i < 8; ++i)
		spinning += polls_of_a_wait() > without;
	EXPECT_GT(spinning, 0);
	spinning = 0;
	for (int i = 0; i < 63; ++i)
		spinning += polls_of_a_wait() > without;
	EXPECT_EQ(spinning, 0);
	for (int i = 0; i < 64; ++i)
		spinning += polls_of_a_wait() > without;
	EXPECT_EQ(spinning, 1);
}

TEST_F(Waiters, OneThatSleepsAloneReadsTheChannelAtMostOnce)
{
	make_pair();
	ASSERT_EQ(post_recv(b, descriptor(0, {{memory.data(), 8}})), VIP_SUCCESS);
	const uint64_t before = fake_calls("ibv_get_cq_event");
	auto waiting = recv_wait(b);
	VIP_DESCRIPTOR *sent = descriptor(1, {{memory.data(100), 8}});

	EXPECT_EQ(post_send(a, sent), VIP_SUCCESS);
	EXPECT_EQ(waiting.get(), VIP_SUCCESS);
	EXPECT_LE(fake_calls("ibv_get_cq_event") - before, 1U);
}

TEST_F(Waiters, DestroyingAViEndsTheirWaits)
{
	a = make_vi();
	auto receive = recv_wait(a), send = send_wait(a), another = recv_wait(a);

	EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
	EXPECT_EQ(receive.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(send.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(another.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipDestroyVi(a), VIP_INVALID_PARAMETER);
	expect_usable();
}

TEST_F(Waiters, DestroyingAViOnACqEndsTheirWaits)
{
	VIP_CQ_HANDLE cq = make_cq(5);
	a = make_vi(cq, cq);
	auto receive = recv_wait(a);
	auto completion = cq_wait(cq);
	EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
	EXPECT_EQ(receive.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(completion.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
		<< "the CQ is still there";
	EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	EXPECT_EQ(completion.get(), VIP_INVALID_PARAMETER);
}

TEST_F(Waiters, DestroyingACqEndsTheirWaits)
{
	VIP_CQ_HANDLE cq = make_cq(5);
	auto first = cq_wait(cq), second = cq_wait(cq);
	EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	EXPECT_EQ(first.get(), VIP_INVALID_PARAMETER);
	EXPECT_EQ(second.get(), VIP_INVALID_PARAMETER);
}

TEST_F(Waiters, ClosingTheNicEndsEveryWait)
{
	std::vector<std::future<VIP_RETURN>> waits;

	VIP_CQ_HANDLE cq = make_cq(5);
	make_pair();
	Vi on_cq = make_vi(cq, cq), asks = make_vi();
	waits.push_back(recv_wait(a));
	waits.push_back(send_wait(b));
	waits.push_back(recv_wait(on_cq));
	waits.push_back(cq_wait(cq));
	waits.push_back(connect_wait());
	waits.push_back(connect_request(asks));
	EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	nic = nullptr;
	for (auto &each : waits)
		EXPECT_NE(each.get(), VIP_SUCCESS);
}

TEST_F(Waiters, ClosingTheNicEndsAnAccept)
{
	VIP_CONN_HANDLE conn = nullptr;
	a = make_vi();
	b = make_vi();
	auto requested = request_async(a, "door");

	ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
	fake_fail_always("recvmsg", EAGAIN); // the answer never comes
	auto accepted = start("sendmsg", [=] { return VipConnectAccept(conn, b); });
	EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	nic = nullptr;
	EXPECT_NE(accepted.get(), VIP_SUCCESS);
	EXPECT_NE(requested.get(), VIP_SUCCESS);
}

TEST_F(Waiters, DisconnectingEndsARequestOfAnotherThread)
{
	a = make_vi();
	VIP_DESCRIPTOR *r = descriptor(0, {});
	ASSERT_EQ(post_recv(a, r), VIP_SUCCESS);
	auto requested = connect_request(a);

	EXPECT_EQ(VipDestroyVi(a), VIP_INVALID_STATE) << "it is connecting";
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_NE(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
	expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	b = make_vi();
	connect(a, b);
	expect_traffic(a, b);
}

TEST_F(Waiters, DisconnectingWakesThoseWhoWaitForTheFlushedOnes)
{
	make_pair();
	VIP_DESCRIPTOR *r = descriptor(0, {});
	ASSERT_EQ(post_recv(a, r), VIP_SUCCESS);
	ASSERT_EQ(post_recv(b, descriptor(1, {})), VIP_SUCCESS);
	auto own = recv_wait(a), theirs = recv_wait(b);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(own.get(), VIP_DESCRIPTOR_ERROR);
	EXPECT_EQ(theirs.get(), VIP_DESCRIPTOR_ERROR);
}

TEST_F(Waiters, APostWakesWhoWaitsOnAnEmptyQueueOfAViThatIsFlushing)
{
	a = make_vi();
	auto waited = send_wait(a);

	EXPECT_EQ(post_send(a, descriptor(0, {})), VIP_SUCCESS); // not connected, so it is flushed
	EXPECT_EQ(waited.get(), VIP_DESCRIPTOR_ERROR);
}

TEST_F(Waiters, OnAllQueuesOfManyVisEachGetTheirOwn)
{
	std::vector<Vi> from, to;
	std::vector<std::thread> threads;

	for (size_t i = 0; i < 40; i++) { // more CQs than there are channels
		from.push_back(make_vi());
		to.push_back(make_vi());
		connect(from[i], to[i], "vi " + std::to_string(i));
		ASSERT_EQ(post_recv(to[i], descriptor(i, {{memory.data(16 * i), 16}})),
			  VIP_SUCCESS);
	}
	std::atomic<int> got{0};
	for (size_t i = 0; i < 40; i++) {
		threads.emplace_back([&, i] {
			VIP_DESCRIPTOR *done = nullptr;
			if (VipRecvWait(to[i], PATIENCE, &done) == VIP_SUCCESS)
				got++;
		});
	}
	for (size_t i = 40; i-- > 0;) {
		VIP_DESCRIPTOR *s = descriptor(100 + i, {{memory.data(5000), 16}});
		EXPECT_EQ(post_send(from[i], s), VIP_SUCCESS);
		expect_sent(from[i], s);
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(got, 40);
}

// One of the waiting threads reads the channel for all. When its time is over, another one has to.
TEST_F(Waiters, ATimeoutOfTheFirstLeavesTheSecondItsCompletion)
{
	make_pair();
	ASSERT_EQ(post_recv(b, descriptor(0, {{memory.data(), 8}})), VIP_SUCCESS);
	auto wait_for = [=](VIP_ULONG msec) {
		return start("ibv_req_notify_cq", [=] {
			VIP_DESCRIPTOR *done;
			return VipRecvWait(b, msec, &done);
		});
	};
	auto first = wait_for(200), second = wait_for(PATIENCE);
	EXPECT_EQ(first.get(), VIP_TIMEOUT);
	ASSERT_EQ(post_send(a, descriptor(1, {{memory.data(100), 8}})), VIP_SUCCESS);
	EXPECT_EQ(second.wait_for(std::chrono::milliseconds(PATIENCE / 2)),
		  std::future_status::ready);
	EXPECT_EQ(second.get(), VIP_SUCCESS);
}

TEST_F(Waiters, ClosingTwiceAtOnceClosesOnce)
{
	for (int round = 0; round < 20; round++) {
		VIP_NIC_HANDLE more;
		ASSERT_EQ(VipOpenNic("nic0", &more), VIP_SUCCESS);
		auto other = std::async(std::launch::async, [=] { return VipCloseNic(more); });
		VIP_RETURN rc = VipCloseNic(more), rc2 = other.get();
		EXPECT_NE(rc == VIP_SUCCESS, rc2 == VIP_SUCCESS);
	}
}

} // namespace
