// SPDX-License-Identifier: BSD-2-Clause
// The end of established connections, and events that are none.
#include "talking.h"

#include <chrono>

namespace
{

class Connected : public PairTest
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

// What the other end does, which has been connected with `a`.
struct End {
	const char *name;
	void (*act)(Talker &talker);
};

void PrintTo(const End &end, std::ostream *out)
{
	*out << end.name;
}

class Losing : public Each<Connected, End>
{
      protected:
	void SetUp() override
	{
		Connected::SetUp();
		disconnect_pair();
		auto waited = std::async(std::launch::async, [this] {
			VIP_CONN_HANDLE conn;
			VIP_RETURN rc = wait("talker", PATIENCE, &conn);
			return rc == VIP_SUCCESS ? VipConnectAccept(conn, a) : rc;
		});
		ASSERT_TRUE(eventually([] { return is_listened_for("talker"); }));
		peer = std::make_unique<Talker>("talker");
		ASSERT_TRUE(peer->say(good_message(MESSAGE_REQUEST, "talker")));
		ASSERT_EQ(peer->next(), MESSAGE_ACCEPT);
		ASSERT_TRUE(peer->say(MESSAGE_CONFIRM));
		ASSERT_EQ(waited.get(), VIP_SUCCESS);
		a.qp = newest_qp();
	}
	std::unique_ptr<Talker> peer;
};

TEST_P(Losing, TheConnectionFlushesAllAndIsToldOnce)
{
	VIP_DESCRIPTOR *r = descriptor(0, {});

	ASSERT_EQ(post_recv(a, r), VIP_SUCCESS);
	GetParam().act(*peer);
	expect_lost(a);
	expect_received(a, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	expect_again_told_once();
}

// Soft-RoCE may have an acknowledgement that it has not worked on yet. A receive stays posted: stopping a queue pair
// without one would take long, as no completion comes.
TEST_P(Losing, TheConnectionWhileASendIsOutstandingIsToldALittleLater)
{
	using namespace std::chrono;
	VIP_DESCRIPTOR *s = descriptor(0, {{memory.data(), 8}});

	options([](fake_options &o) { o.manual = true; });
	ASSERT_EQ(post_recv(a, descriptor(1, {})), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	auto begin = steady_clock::now();
	GetParam().act(*peer);
	expect_lost(a);
	EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
	expect_sent(a, s, VIP_STATUS_DESC_FLUSHED_ERROR);
}

INSTANTIATE_TEST_SUITE_P(Connected, Losing,
			 testing::Values(End{"Disconnect", [](Talker &peer) { peer.say(MESSAGE_DISCONNECT); }},
					 End{"EndOfTheSocket", [](Talker &peer) { peer.hang_up(); }},
					 End{"Reset", [](Talker &peer) { peer.reset(); }},
					 End{"Nonsense", [](Talker &peer) { peer.say_bytes("nonsense", 8); }},
					 End{"Repetition", [](Talker &peer) { peer.say(MESSAGE_CONFIRM); }}),
			 [](const auto &each) { return each.param.name; });

TEST_F(Connected, TheOtherEndHearsOfADisconnection)
{
	VIP_DESCRIPTOR *r = descriptor(0, {});

	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_lost(b);
	expect_received(b, r, VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, a), 0);
	expect_again_told_once();
}

using QueuePairError = Each<Connected, ibv_event_type>;

TEST_P(QueuePairError, BreaksTheConnection)
{
	fake_async_event_qp(GetParam(), a.qp);
	expect_state(a, VIP_STATE_ERROR);
	expect_lost(b);
	expect_again_told_once();
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

TEST_F(Connected, ADisconnectionThatCrossesOursIsNotTold)
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

// Kernels have bugs with a queue pair that is reset while they handle a message: see drain_qp() in verbs_queuepair.c.
TEST_F(Connected, AQueuePairWithoutReceivesFlushesOneBeforeItIsReset)
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

TEST_F(Connected, AQueuePairWithReceivesNeedsNoOther)
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

} // namespace
