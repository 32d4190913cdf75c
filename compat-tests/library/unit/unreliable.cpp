// SPDX-License-Identifier: BSD-2-Clause
// Unreliable VIs on a UC queue pair. It is revived after an error. Tests failures on the way, too.
#include "unreliable_vis.h"

#include <future>

namespace
{

TEST_F(Unreliable, VisOnOneCqComeBack)
{
	open();
	VIP_CQ_HANDLE cq = make_cq(16);
	make_pair(cq, cq);
	post_receives(3);
	for (VIP_UINT32 bytes : {9u, 8u, 8u}) {
		VIP_DESCRIPTOR *s = message(bytes);
		size_t i = bytes == 9 ? 0 : receives[1]->CS.Status ? 2 : 1;
		ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
		for (int both = 0; both < 2; both++) {
			const auto [code, vi, is_receive] = cq_wait(cq);
			ASSERT_EQ(code, VIP_SUCCESS);
			ASSERT_EQ(vi == b.handle, !!is_receive);
			if (is_receive)
				expect_received(b, receives[i], i ? 0 : LENGTH);
			else
				expect_sent(a, s);
		}
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED); // this waits for a revival, during which messages are lost
	}
	EXPECT_EQ(cq_done(cq).code, VIP_NOT_DONE) << "told twice";
}

TEST_F(Unreliable, ASendThatFailsHereIsItsDescriptorsErrorOnly)
{
	start();
	post_receives(2);
	VIP_DESCRIPTOR *s[3], *own = posted_receive(a, 50, {{memory.data(500), 8}});
	by_hand(true);
	for (size_t i = 0; i < 3; i++)
		s[i] = posted_send(a, 100 + i, {{memory.data(1000), 8}});
	fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_EQ(fake_progress(1), 1);
	by_hand(false);
	expect_sent(a, s[0], VIP_STATUS_TRANSPORT_ERROR);
	expect_sent(a, s[1]);
	expect_sent(a, s[2]);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED); // waits for the revival
	send(b, 8);
	expect_received(a, own);
	send(a, 8);
	expect_received(b, receives[0]);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	expect_received(b, receives[1], FLUSHED);
}

// The requester sends a message before its last message of connecting.
TEST_F(Unreliable, AMessageThatIsTooLongBeforeTheConnectionIsKnownHarmsNoLaterOne)
{
	open();
	b = make_vi();
	post_receives(2);
	auto accepted = std::async(std::launch::async, [&] {
		VIP_RETURN rc = wait("door", PATIENCE);
		return rc == VIP_SUCCESS ? VipConnectAccept(conn, b) : rc;
	});
	ASSERT_TRUE(eventually([] { return is_listened_for("door"); }));
	Node hasty{IBV_QPT_UC};
	Described described;
	described.qp = hasty.qp->qp_num;
	Line talker("door");
	ASSERT_TRUE(talker.say(good_message(MESSAGE_REQUEST, "door", "", VIP_SERVICE_UNRELIABLE, described)));
	ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
	hasty.to_rts(b.qp);
	hasty.send(1, 9);
	expect_received(b, receives[0], LENGTH);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECT_PENDING);
	ASSERT_TRUE(talker.say(MESSAGE_CONFIRM));
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	hasty.send(2, 8);
	expect_received(b, receives[1]);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
}

// The library waits for the flush of a receive of its own, with the NIC's lock, and for a second at most.
TEST_F(Unreliable, AQueuePairWhoseAcceptHasFailedStopsAtOnce)
{
	open();
	a = make_vi();
	b = make_vi();
	post_receives(1);
	auto requested = request_async(a, "door");
	ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
	uint64_t polls = fake_calls("ibv_poll_cq");
	fake_fail("sendmsg", 1, EPIPE); // ACCEPT
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	EXPECT_LE(fake_calls("ibv_poll_cq") - polls, 20u) << "its flush is not noticed";
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	requested.get();
	connect(a, b, "again");
	send(a, 8);
	expect_received(b, receives[0]);
}

// Completions from before the error may come after the revival.
TEST_F(Unreliable, CompletionsFromBeforeTheRevivalMeanNothingAfterIt)
{
	start();
	post_receives(3);
	options([](fake_options &o) { o.hold_completions = true; });
	ASSERT_EQ(post_send(a, message(9)), VIP_SUCCESS);
	uint64_t changes = fake_calls("ibv_modify_qp");
	fake_async_event_qp(IBV_EVENT_QP_REQ_ERR, b.qp);
	EXPECT_TRUE(eventually(
		[&] { return fake_calls("ibv_modify_qp") >= changes + 5 && fake_posted(b.qp, FAKE_RECV) == 3; }));
	options([](fake_options &o) { o.hold_completions = false; });
	EXPECT_EQ(fake_release(-1), 4) << "a's send, and b's three receives";
	expect_sent(a, at(100));
	for (size_t i = 0; i < 3; i++) {
		send(a, 8);
		expect_received(b, receives[i]);
	}
	expect_unharmed();
}

// Sends that the device had are not sent again, since they may have gone out.
TEST_F(Unreliable, SendsUnderWayDuringARevivalAreDoneAndNotRepeated)
{
	start();
	post_receives(3);
	options([](fake_options &o) { o.hold_completions = true; });
	ASSERT_EQ(post_send(a, message(8)), VIP_SUCCESS);
	uint64_t armed = fake_calls("ibv_req_notify_cq");
	auto sent = std::async(std::launch::async, [&] { expect_sent(a, at(100)); });
	EXPECT_TRUE(eventually([&] { return fake_calls("ibv_req_notify_cq") > armed; }));
	fake_async_event_qp(IBV_EVENT_QP_FATAL, a.qp);
	EXPECT_EQ(sent.wait_for(std::chrono::milliseconds(PATIENCE / 2)), std::future_status::ready)
		<< "who sleeps was not woken";
	sent.get();
	options([](fake_options &o) { o.hold_completions = false; });
	EXPECT_EQ(fake_release(-1), 2);
	expect_received(b, receives[0]);
	EXPECT_EQ(fake_posted(b.qp, FAKE_RECV), 2) << "it came twice";
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
}

// The agent is at the first step of the revival.
TEST_F(Unreliable, ASendThatIsPostedAfterTheErrorWasToldIsNotLost)
{
	std::promise<void> go_on;

	start();
	post_receives(1);
	fake_before("ibv_modify_qp", 1, [may_go_on = go_on.get_future().share()] { may_go_on.wait(); });
	fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_QP_OP_ERR);
	ASSERT_EQ(post_send(a, message(8)), VIP_SUCCESS);
	expect_sent(a, at(100), VIP_STATUS_TRANSPORT_ERROR);
	VIP_DESCRIPTOR *later = posted_send(a, 101, {{memory.data(1000), 8}});
	go_on.set_value();
	expect_sent(a, later);
	expect_received(b, receives[0]);
	expect_unharmed();
}

// The message comes when the queue pair can receive again, but cannot send yet.
TEST_F(Unreliable, AMessageThatIsTooLongDuringARevivalIsTheNextReceivesError)
{
	start();
	post_receives(3);
	send(a, 9);
	fake_before("ibv_modify_qp", 5, [&] { EXPECT_EQ(post_send(a, message(9)), VIP_SUCCESS); }); // the change to RTS
	expect_received(b, receives[0], LENGTH);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED); // this waits for the revival, during which messages are lost
	EXPECT_EQ(fake_take_misuse().size(), 1U) << "RTS was too late";
	expect_sent(a, at(100));
	expect_received(b, receives[1], LENGTH);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED); // this waits for the revival, during which messages are lost
	send(a, 8);
	expect_received(b, receives[2]);
	expect_unharmed();
}

// The device is still at a message, and puts the queue pair into ERR behind the change to RESET.
TEST_F(Unreliable, AnErrorBehindTheResetOfARevivalIsResetAgain)
{
	start();
	post_receives(2);
	send(a, 9);
	fake_before("ibv_modify_qp", 3, [&] { // the change to INIT
		ibv_qp_attr attributes{};
		attributes.qp_state = IBV_QPS_ERR;
		EXPECT_EQ(ibv_modify_qp(fake_qp(b.qp), &attributes, IBV_QP_STATE), 0);
	});
	expect_received(b, receives[0], LENGTH);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED); // this waits for the revival, during which messages are lost
	EXPECT_EQ(fake_take_misuse().size(), 1U) << "INIT was too late";
	send(a, 8);
	expect_received(b, receives[1]);
	expect_unharmed();
}

using RevivalFails = Each<Unreliable, int>;

// The changes are to ERR, RESET, INIT, RTR, RTS.
TEST_P(RevivalFails, ByAChangeOfStateBreaksTheConnection)
{
	start();
	post_receives(3);
	send(a, 9);
	fake_fail("ibv_modify_qp", GetParam(), EIO);
	expect_received(b, receives[0], LENGTH);
	expect_lost(b);
	expect_received(b, receives[1], FLUSHED);
	expect_received(b, receives[2], FLUSHED);
	expect_lost(a);
	expect_again();
}

INSTANTIATE_TEST_SUITE_P(Changes, RevivalFails, testing::Values(1, 2, 3, 4, 5));

TEST_F(Unreliable, AReceiveThatIsRefusedInARevivalIsItsDescriptorsErrorOnly)
{
	start();
	post_receives(3);
	send(a, 9);
	fake_fail("ibv_post_recv", 1, EIO);
	expect_received(b, receives[0], LENGTH);
	expect_received(b, receives[1], VIP_STATUS_TRANSPORT_ERROR);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED); // waits for the revival
	send(a, 8);
	expect_received(b, receives[2]);
	expect_unharmed();
}

static int index_of(const Vi &vi)
{
	return qp_attributes(vi).ah_attr.grh.sgid_index;
}

// The address has another index among the GIDs afterwards. The library is told, or a send by the former one fails.
TEST_F(Unreliable, AnAddressThatIsRemovedAndSetAgainIsUsedByItsNewIndex)
{
	for (bool tells : {true, false}) {
		start();
		receives.clear();
		fake_move_address(host, 3, tells);
		for (Vi *vi : {&a, &b}) {
			if (tells) {
				EXPECT_TRUE(eventually([&] { return index_of(*vi) == 3; })) << "though nobody sends";
				continue;
			}
			VIP_DESCRIPTOR *s = message(8);
			expect_send(*vi, s, VIP_STATUS_TRANSPORT_ERROR);
		}
		expect_unharmed();
		start_over();
	}
}

// While there is no address messages are lost, as on a broken wire. When it is back the connection goes on, though nobody sends.
TEST_F(Unreliable, WithoutTheAddressMessagesAreLostAndTheConnectionGoesOnWithIt)
{
	start();
	post_receives(1);
	VIP_DESCRIPTOR *own = posted_receive(a, 50, {{memory.data(500), 8}});
	fake_move_address(nullptr, 1);
	VIP_DESCRIPTOR *s = message(8);
	expect_send(a, s, VIP_STATUS_TRANSPORT_ERROR);
	for (int i = 0; i < 5; i++) // lost
		send(a, 8);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	fake_move_address(host, 2);
	for (Vi *vi : {&a, &b})
		EXPECT_TRUE(eventually([&] { return index_of(*vi) == 2 && fake_posted(vi->qp, FAKE_RECV) == 1; }));
	send(a, 8);
	expect_received(b, receives[0]);
	send(b, 8);
	expect_received(a, own);
	expect_unharmed();
}

// A kernel lists an address first for RoCE v1, then for the version that both ends have agreed on.
TEST_F(Unreliable, WithTheAddressOfAnotherVersionOfRoceOnlyTheQueuePairStaysInError)
{
	start();
	post_receives(1);
	fake_change_device([](fake_device &device) { device.v1_only = true; });
	fake_move_address(host, 2, false);
	VIP_DESCRIPTOR *s = message(8);
	expect_send(a, s, VIP_STATUS_TRANSPORT_ERROR);
	EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
	EXPECT_EQ(qp_attributes(a).qp_state, IBV_QPS_ERR);
	fake_change_device([](fake_device &device) { device.v1_only = false; });
	fake_move_address(host, 3);
	for (Vi *vi : {&a, &b})
		EXPECT_TRUE(eventually([&] { return index_of(*vi) == 3; }));
	EXPECT_TRUE(eventually([&] { return fake_posted(b.qp, FAKE_RECV) == 1; }));
	send(a, 8);
	expect_received(b, receives[0]);
	expect_unharmed();
}

// It is disconnected, or the program ends, without the address.
TEST_F(Unreliable, WithoutTheAddressTheConnectionCanEnd)
{
	start();
	VIP_DESCRIPTOR *own = posted_receive(a, 50, {{memory.data(500), 8}});
	fake_move_address(nullptr, 1);
	VIP_DESCRIPTOR *s = message(8);
	expect_send(a, s, VIP_STATUS_TRANSPORT_ERROR);
	send(a, 8);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	expect_received(a, own, FLUSHED);
}

TEST_F(Unreliable, ErrorsThatTheDeviceTellsOfAreNoneOfTheConnection)
{
	start();
	for (ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
		uint64_t changes = fake_calls("ibv_modify_qp");
		fake_async_event_qp(type, a.qp);
		EXPECT_TRUE(eventually([&] { return fake_calls("ibv_modify_qp") >= changes + 5; }));
		expect_unharmed();
	}
}

} // namespace
