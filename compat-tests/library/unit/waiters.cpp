// SPDX-License-Identifier: BSD-2-Clause
// Threads that wait: what that costs, and what wakes them.
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
	posted_receive(b, 0, {{memory.data(), 8}});
	const uint64_t before = fake_calls("ibv_get_cq_event");
	auto waiting = recv_wait(b);
	posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_EQ(waiting.get(), VIP_SUCCESS);
	EXPECT_LE(fake_calls("ibv_get_cq_event") - before, 1U);
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
		posted_receive(to[i], i, {{memory.data(16 * i), 16}});
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

} // namespace
