// SPDX-License-Identifier: BSD-2-Clause
// Events at established connections.
#include "support.h"

namespace
{

class CmConnected : public PairTest
{
      protected:
	void expect_lost(const Vi &vi)
	{
		expect_state(vi, VIP_STATE_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, vi));
	}
	// No end may be told twice.
	void expect_again_told_once()
	{
		expect_again();
		EXPECT_LE(errors.count(VIP_ERROR_CONN_LOST, a), 1);
		EXPECT_LE(errors.count(VIP_ERROR_CONN_LOST, b), 1);
	}
};

using Losing = Each<CmConnected, rdma_cm_event_type>;

TEST_P(Losing, TheConnectionFlushesAllAndIsToldOnceOnBothSides)
{
	VIP_DESCRIPTOR *r = descriptor(0, {});

	ASSERT_EQ(post_recv(a, r), VIP_SUCCESS);
	fake_cm_event(fake_id_of_qp(a.qp), GetParam(), 0, nullptr, 0);
	expect_lost(a);
	expect_lost(b);
	expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_again_told_once();
}

// Soft-RoCE may have an acknowledgement that it has not worked on yet. Receives stay posted on both sides: stopping a
// queue pair without one would take long, as no completion comes.
TEST_P(Losing, TheConnectionWhileASendIsOutstandingIsToldALittleLater)
{
	using namespace std::chrono;
	VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}});

	options([](fake_options &o) { o.hold_completions = true; });
	ASSERT_EQ(post_recv(a, descriptor(1, {})), VIP_SUCCESS);
	ASSERT_EQ(post_recv(b, descriptor(2, {{memory.data() + 64, 8}})), VIP_SUCCESS);
	ASSERT_EQ(post_recv(b, descriptor(3, {})), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	auto begin = steady_clock::now();
	fake_cm_event(fake_id_of_qp(a.qp), GetParam(), 0, nullptr, 0);
	expect_lost(a);
	EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
	options([](fake_options &o) { o.hold_completions = false; });
}

INSTANTIATE_TEST_SUITE_P(CmConnected, Losing,
			 testing::Values(RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_UNREACHABLE,
					 RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_REJECTED));

// None of these events can come for a connection. If one does, the connection stays.
using OutOfPlace = Each<CmConnected, rdma_cm_event_type>;

TEST_P(OutOfPlace, EventsDoNotEndTheConnection)
{
	fake_cm_event(fake_id_of_qp(a.qp), GetParam(), -EINVAL, nullptr, 0);
	// This connection comes after the event, so the event has been handled then.
	Vi x = make_vi(), y = make_vi();
	connect(x, y, "after it");
	expect_traffic(a, b);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
	expect_again_told_once();
}

INSTANTIATE_TEST_SUITE_P(CmConnected, OutOfPlace,
			 testing::Values(RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR,
					 RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR,
					 RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_ESTABLISHED,
					 RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_TIMEWAIT_EXIT,
					 RDMA_CM_EVENT_MULTICAST_ERROR));

TEST_F(CmConnected, ThePeersProcessDiesIsConnectionLost)
{
	VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}});

	options([](fake_options &o) { o.manual = true; });
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	fake_kill_peer_of(a.qp);
	expect_lost(a);
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_clean = true;
}

using QueuePairError = Each<CmConnected, ibv_event_type>;

TEST_P(QueuePairError, BreaksTheConnection)
{
	fake_async_event_qp(GetParam(), a.qp);
	expect_state(a, VIP_STATE_ERROR);
	expect_lost(b);
	expect_again_told_once();
}

INSTANTIATE_TEST_SUITE_P(CmConnected, QueuePairError,
			 testing::Values(IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
					 IBV_EVENT_QP_ACCESS_ERR));

TEST_F(CmConnected, OtherEventsOfTheDeviceChangeNothing)
{
	for (ibv_event_type type : {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
				    IBV_EVENT_QP_LAST_WQE_REACHED})
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

TEST_F(CmConnected, AFailedCompletionQueueBreaksItsVis)
{
	ibv_qp *qp = fake_qp(a.qp);

	fake_async_event_cq(IBV_EVENT_CQ_ERR, qp->recv_cq);
	EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
}

TEST_F(CmConnected, TheDeviceFailsIsCatastrophicAndLosesAllConnections)
{
	Vi x = make_vi(), y = make_vi(), idle = make_vi();

	connect(x, y, "more");
	fake_async_event_port(IBV_EVENT_DEVICE_FATAL, "fake0");
	for (const Vi &vi : {a, b, x, y})
		expect_lost(vi);
	EXPECT_EQ(state_of(idle), VIP_STATE_IDLE);
	errors.expect_first(VIP_ERROR_CATASTROPHIC, VIP_RESOURCE_NIC, nic, nullptr, 0);
	EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 1);
}

// rdma_cm reports the removal once per connection.
TEST_F(CmConnected, TheDeviceIsRemovedIsToldOnce)
{
	fake_cm_event(fake_id_of_qp(a.qp), RDMA_CM_EVENT_DEVICE_REMOVAL, 0, nullptr, 0);
	expect_lost(a);
	expect_lost(b);
	Vi x = make_vi();
	EXPECT_EQ(request(x, "nobody", 5000), VIP_NO_MATCH); // its events come last
	EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 1);
}

TEST_F(CmConnected, ADisconnectionThatCrossesOursIsNotTold)
{
	for (int round = 0; round < 30; round++) {
		auto other = std::async(std::launch::async, [&] { return VipDisconnect(b); });
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(other.get(), VIP_SUCCESS);
		EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
		connect(a, b, "round");
	}
	expect_traffic(a, b);
}

// Kernels have bugs with a queue pair that is reset while they handle a message: see drain() in queuepair.c.
TEST_F(CmConnected, AQueuePairWithoutReceivesFlushesOneBeforeItIsReset)
{
	uint64_t before = fake_calls("ibv_post_recv");

	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_EQ(fake_calls("ibv_post_recv"), before + 2) << "one at each end";
	VIP_DESCRIPTOR *none;
	EXPECT_EQ(VipRecvDone(a, &none), VIP_DESCRIPTOR_ERROR) << "nobody is told of it";
	EXPECT_EQ(none, nullptr);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	connect(a, b, "again");
	expect_traffic(a, b);
}

TEST_F(CmConnected, AQueuePairWithReceivesNeedsNoOther)
{
	VIP_DESCRIPTOR *r = descriptor(0, {}), *r2 = descriptor(1, {});

	ASSERT_EQ(post_recv(a, r), VIP_SUCCESS);
	ASSERT_EQ(post_recv(b, r2), VIP_SUCCESS);
	uint64_t before = fake_calls("ibv_post_recv");
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_EQ(fake_calls("ibv_post_recv"), before);
	expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_received(b, r2, VIP_STATUS_DESC_FLUSHED_ERROR);
}

TEST_F(CmConnected, AQueuePairThatIsNotDrainedIsWaitedForBriefly)
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

} // namespace
