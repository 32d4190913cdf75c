// SPDX-License-Identifier: BSD-2-Clause
// Work goes on even if the program asks for other work only. It completes in the order of posting.
#include "support.h"

#include <atomic>
#include <thread>

namespace
{

using Progress = PairTest;

// There are far more sends than the device's queue holds. VipSendDone is called only at the very
// end.
TEST_F(Progress, SendsGoThoughTheProgramNeverPollsTheSendQueue)
{
	const size_t COUNT = 600;
	std::vector<VIP_DESCRIPTOR *> sends;

	for (size_t i = 0; i < COUNT; i++)
		ASSERT_EQ(post_recv(b, descriptor(i, {{memory.data(16 * i), 16}})), VIP_SUCCESS);
	for (size_t i = 0; i < COUNT - 100; i++) {
		sends.push_back(descriptor(COUNT + i, {{memory.data(100000), 16}}));
		ASSERT_EQ(post_send(a, sends.back()), VIP_SUCCESS);
	}
	for (size_t i = 0; i < COUNT - 100; i++) {
		VIP_DESCRIPTOR *done = nullptr;
		ASSERT_EQ(VipRecvWait(b, PATIENCE, &done), VIP_SUCCESS) << i;
	}
	for (VIP_DESCRIPTOR *send : sends)
		expect_sent(a, send);
}

TEST_F(Progress, NothingIsDoneBeforeTheDeviceHasDoneIt)
{
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}}), *done;
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});

	options([](fake_options &o) { o.manual = true; });
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	EXPECT_EQ(VipSendDone(a, &done), VIP_NOT_DONE);
	EXPECT_EQ(done, nullptr);
	EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE);
	EXPECT_EQ(VipRecvWait(b, 10, &done), VIP_TIMEOUT);
	EXPECT_EQ(s->CS.Status, 0u);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, s);
	expect_received(b, r);
}

TEST_F(Progress, CompletionsComeInTheOrderOfPosting)
{
	VIP_DESCRIPTOR *r[20], *s[20], *done;

	options([](fake_options &o) { o.hold_completions = true; });
	for (size_t i = 0; i < 20; i++) {
		r[i] = descriptor(i, {{memory.data(), 8}});
		s[i] = descriptor(50 + i, {{memory.data(100), 8}});
		ASSERT_EQ(post_recv(b, r[i]), VIP_SUCCESS);
		ASSERT_EQ(post_send(a, s[i]), VIP_SUCCESS);
	}
	for (size_t i = 0; i < 20; i++) {
		EXPECT_EQ(VipSendDone(a, &done), VIP_NOT_DONE);
		EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE);
		EXPECT_EQ(fake_release(2), 2); // one of each side
		expect_received(b, r[i]);
		expect_sent(a, s[i]);
	}
	options([](fake_options &o) { o.hold_completions = false; });
}

TEST_F(Progress, AWaitEndsWhenTheCompletionComesMuchLater)
{
	VIP_DESCRIPTOR *r = descriptor(0, {{memory.data(), 8}});
	VIP_DESCRIPTOR *s = descriptor(1, {{memory.data(100), 8}});

	options([](fake_options &o) { o.hold_completions = true; });
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	uint64_t armed = fake_calls("ibv_req_notify_cq");
	std::thread receiver([&] { expect_received(b, r); });
	std::thread sender([&] { expect_sent(a, s); });
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") >= armed + 2; }));
	EXPECT_EQ(fake_release(-1), 2);
	receiver.join();
	sender.join();
	options([](fake_options &o) { o.hold_completions = false; });
}

TEST_F(Progress, SeveralThreadsPostAndTakeOnOneVi)
{
	const size_t EACH = 300, THREADS = 2;
	std::vector<std::thread> threads;
	std::atomic<size_t> received{0}, sent{0};

	for (size_t i = 0; i < EACH * THREADS; i++)
		ASSERT_EQ(post_recv(b, descriptor(i, {{memory.data(), 8}})), VIP_SUCCESS);
	for (size_t t = 0; t < THREADS; t++) {
		threads.emplace_back([&] {
			while (received < EACH * THREADS) {
				VIP_DESCRIPTOR *done = nullptr;
				VIP_RETURN rc = VipRecvWait(b, 20, &done);
				if (rc == VIP_SUCCESS)
					received++;
				else if (rc != VIP_TIMEOUT)
					return;
			}
		});
		threads.emplace_back([&, t] {
			VIP_DESCRIPTOR *done = nullptr;
			VIP_DESCRIPTOR *s = descriptor(700 + t, {{memory.data(100), 8}});
			for (size_t i = 0; i < EACH; i++) {
				// Each thread posts its own descriptor. Any thread may take it.
				if (post_send(a, s) != VIP_SUCCESS || !eventually([&] {
					    return VipSendDone(a, &done) == VIP_SUCCESS;
				    }))
					return;
				sent++;
			}
		});
	}
	for (std::thread &thread : threads)
		thread.join();
	EXPECT_EQ(received, EACH * THREADS);
	EXPECT_EQ(sent, EACH * THREADS);
}

} // namespace
