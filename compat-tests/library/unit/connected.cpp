// SPDX-License-Identifier: BSD-2-Clause
// The end of established connections, and events that are none.
#include "support.h"

#include <atomic>
#include <chrono>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

using Connected = PairTest;

// Soft-RoCE may have an acknowledgement that it has not worked on yet. Receives stay posted: stopping a queue pair without
// one would take long, as no completion comes.
TEST_F(Connected, AnEndWhileASendIsOutstandingIsToldALittleLater)
{
	using namespace std::chrono;

	options([](fake_options &o) { o.manual = true; });
	posted_receive(a, 1, {});
	posted_receive(b, 2, {});
	VIP_DESCRIPTOR *s = posted_send(a, 0, {{memory.data(), 8}});
	const auto begin = steady_clock::now();
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	expect_lost(a);
	EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
}

using QueuePairError = Each<Connected, ibv_event_type>;

TEST_P(QueuePairError, BreaksTheConnection)
{
	fake_async_event_qp(GetParam(), a.qp);
	expect_state(a, VIP_STATE_ERROR);
	expect_lost(b);
	expect_again();
	for (const Vi &vi : {a, b}) {
		EXPECT_LE(errors.count(VIP_ERROR_CONN_LOST, vi), 1) << "no end may be told twice";
	}
}

INSTANTIATE_TEST_SUITE_P(Connected, QueuePairError,
			 testing::Values(IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR));

TEST_F(Connected, OtherEventsOfTheDeviceChangeNothing)
{
	for (ibv_event_type type :
	     {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_QP_LAST_WQE_REACHED})
		fake_async_event_qp(type, a.qp);
	for (ibv_event_type type :
	     {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,
	      IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_PKEY_CHANGE})
		fake_async_event_port(type, "fake0");
	uint64_t handled = fake_calls("ibv_ack_async_event");
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_ack_async_event") >= 11; })) << handled;
	expect_traffic(a, b);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
}

TEST_F(Connected, AFailedCompletionQueueBreaksItsVis)
{
	ibv_qp *qp = fake_qp(a.qp);

	fake_async_event_cq(IBV_EVENT_CQ_ERR, qp->recv_cq);
	EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
}

using DeviceEnds = Each<Connected, bool>;

TEST_P(DeviceEnds, IsCatastrophicAndLosesAllConnections)
{
	Vi x = make_vi(), y = make_vi(), idle = make_vi();

	connect(x, y, "more");
	if (GetParam())
		fake_remove_devices(); // each id hears of it
	else
		fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	for (const Vi &vi : {a, b, x, y})
		expect_lost(vi);
	EXPECT_EQ(state_of(idle), VIP_STATE_IDLE);
	errors.expect_first(VIP_ERROR_CATASTROPHIC, VIP_RESOURCE_NIC, nic, nullptr, 0);
	EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 1);
}

INSTANTIATE_TEST_SUITE_P(Connected, DeviceEnds, testing::Bool());

// Kernels have bugs with a queue pair that is reset while they handle a message: see soft_drain() in verbs_soft.c.
TEST_F(Connected, AQueuePairWithoutReceivesFlushesOneBeforeItIsReset)
{
	for (bool has_receives : {false, true}) {
		VIP_DESCRIPTOR *r[2] = {};
		for (size_t i = 0; has_receives && i < 2; i++)
			r[i] = posted_receive(i ? b : a, i, {});
		const uint64_t before = fake_calls("ibv_post_recv");
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_EQ(fake_calls("ibv_post_recv"), before + (has_receives ? 0 : 2)) << "one at each end";
		for (size_t i = 0; has_receives && i < 2; i++)
			expect_received(i ? b : a, r[i], VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_EQ(recv_done(a), Taken{VIP_DESCRIPTOR_ERROR}) << "nobody is told of it";
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		connect(a, b, "again");
		expect_traffic(a, b);
	}
}

TEST_F(Connected, AQueuePairThatIsNotDrainedIsWaitedForBriefly)
{
	options([](fake_options &o) { o.hold_completions = true; });
	disconnect_pair();
	options([](fake_options &o) { o.hold_completions = false; });
	fake_release(-1);
	connect(a, b, "again");
	expect_traffic(a, b);
	fake_fail("ibv_post_recv", 1, ENOMEM);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
}

// A program may make the same wrong post in a loop. Other errors must still reach the handler.
TEST_F(Connected, HandlersHearOfSomeOfManyMistakesAndOfALostConnectionAllTheSame)
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

bool has_socket_of_a_connection()
{
	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
		int type = 0, domain = 0;
		socklen_t length = sizeof(int);

		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) &&
		    (type == SOCK_SEQPACKET || (domain == AF_INET && type == SOCK_STREAM)))
			return true;
	}
	return false;
}

// Or else a peer would not hear of the parent's end. Nor of one that is just being made.
TEST_F(Connected, NoConnectionIsAForkedChilds)
{
	std::atomic<bool> is_over{false};

	disconnect_pair();
	auto connecting = std::async(std::launch::async, [&] {
		for (int i = 0; !is_over; i++) {
			connect(a, b, "forked " + std::to_string(i % 4));
			disconnect_pair();
		}
	});
	for (int i = 0; i < 300; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(has_socket_of_a_connection());
		int status = -1;
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		EXPECT_EQ(status, 0) << i;
	}
	is_over = true;
}

} // namespace
