// SPDX-License-Identifier: BSD-2-Clause
// Error handlers may call the library, closing their own NIC included.
#include "support.h"

#include <atomic>
#include <cstring>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace
{

using Handlers = PairTest;

TEST_F(Handlers, MayDisconnectAndDestroyTheVi)
{
	std::atomic<int> done{0};

	errors.then = [&](const VIP_ERROR_DESCRIPTOR &error) {
		if (error.ErrorCode != VIP_ERROR_CONN_LOST)
			return;
		EXPECT_EQ(error.NicHandle, nic);
		EXPECT_EQ(error.ResourceCode, VIP_RESOURCE_VI);
		EXPECT_EQ(VipDisconnect(error.ViHandle), VIP_SUCCESS);
		EXPECT_EQ(VipDestroyVi(error.ViHandle), VIP_SUCCESS);
		done++;
	};
	ASSERT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return done == 1; }));
	EXPECT_EQ(VipDisconnect(b), VIP_INVALID_PARAMETER);
}

TEST_F(Handlers, MayCloseTheirOwnNic)
{
	std::atomic<bool> closed{false};

	errors.then = [&](const VIP_ERROR_DESCRIPTOR &error) {
		EXPECT_EQ(VipDisconnect(error.ViHandle), VIP_SUCCESS);
		EXPECT_EQ(VipCloseNic(error.NicHandle), VIP_SUCCESS);
		closed = true;
	};
	ASSERT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return closed.load(); }));
	EXPECT_EQ(VipCloseNic(nic), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipDisconnect(a), VIP_INVALID_PARAMETER);
	nic = nullptr;
}

TEST_F(Handlers, RunOneAtATimeAndNoneStartsAfterTheNicIsClosed)
{
	std::atomic<int> running{0}, most{0};
	std::atomic<bool> closed{false};

	errors.then = [&](const VIP_ERROR_DESCRIPTOR &) {
		EXPECT_FALSE(closed);
		most = std::max(most.load(), ++running);
		std::this_thread::yield();
		running--;
	};
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + 1);
	for (int i = 0; i < 500; i++)
		EXPECT_EQ(post_send(a, odd), VIP_INVALID_PARAMETER);
	EXPECT_TRUE(errors.reach(VIP_ERROR_POST_DESC, a, 10));
	EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	closed = true;
	nic = nullptr;
	EXPECT_EQ(most, 1);
}

// A program may make the same wrong post in a loop. Other errors must still reach the handler.
TEST_F(Handlers, OfManyMistakesHearSomeAndOfALostConnectionAllTheSame)
{
	std::promise<void> go;
	auto gone = go.get_future().share();
	errors.then = [gone](const VIP_ERROR_DESCRIPTOR &) { gone.wait(); };
	auto *odd = reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + 1);
	for (int i = 0; i < 5000; i++)
		EXPECT_EQ(post_send(a, odd), VIP_INVALID_PARAMETER);
	ASSERT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_state(b, VIP_STATE_ERROR);
	go.set_value();
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
	EXPECT_LT(errors.count(VIP_ERROR_POST_DESC), 1000);
	EXPECT_GT(errors.count(VIP_ERROR_POST_DESC), 10);
}

TEST_F(Handlers, ThatAreNullLeaveItToTheDefaultOne)
{
	int ends[2], before = dup(STDERR_FILENO);
	ASSERT_EQ(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	EXPECT_EQ(VipErrorCallback(nic, nullptr, nullptr), VIP_SUCCESS);
	fake_async_event_qp(IBV_EVENT_QP_FATAL, b.qp);
	pollfd readable = {ends[0], POLLIN, 0};
	char text[512] = "";
	bool told = poll(&readable, 1, PATIENCE) == 1 && read(ends[0], text, sizeof(text) - 1) > 0;
	dup2(before, STDERR_FILENO);
	for (int fd : {ends[0], ends[1], before})
		::close(fd);
	EXPECT_TRUE(told && strstr(text, "connection lost")) << text;
	EXPECT_EQ(VipErrorCallback(nullptr, nullptr, nullptr), VIP_INVALID_PARAMETER);
}

} // namespace
