// SPDX-License-Identifier: BSD-2-Clause
// Unreliable VIs on a UC queue pair. It is revived after an error. Tests failures on the way, too. Last, RDMA writes: on soft-RoCE
// each packet is a request of its own.
#include "line.h"
#include "node.h"

#include <future>

namespace
{

const VIP_UINT32 LENGTH = VIP_STATUS_LENGTH_ERROR, PROTECTION = VIP_STATUS_PROTECTION_ERROR,
		 FLUSHED = VIP_STATUS_DESC_FLUSHED_ERROR, WRITE = VIP_STATUS_OP_RDMA_WRITE;
const VIP_UINT32 WRITTEN = VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE;

class Unreliable : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		vi_kind.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
	}
	void start()
	{
		open();
		make_pair();
	}
	// Posts receives 0 .. count - 1 at b, of 8 bytes each.
	void post_receives(size_t count)
	{
		for (size_t i = 0; i < count; i++)
			receives.push_back(posted_receive(b, i, {{memory.data(8 * i), 8}}));
	}
	VIP_DESCRIPTOR *message(size_t bytes)
	{
		return descriptor(100, {{memory.data(1000), bytes}});
	}
	void send(Vi &from, size_t bytes)
	{
		VIP_DESCRIPTOR *s = message(bytes);
		ASSERT_EQ(post_send(from, s), VIP_SUCCESS);
		expect_sent(from, s);
	}
	void expect_unharmed()
	{
		EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
		EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
		expect_traffic(a, b);
	}
	std::vector<VIP_DESCRIPTOR *> receives;
};

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
			expect_send(*vi, message(8), VIP_STATUS_TRANSPORT_ERROR);
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
	expect_send(a, message(8), VIP_STATUS_TRANSPORT_ERROR);
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
	expect_send(a, message(8), VIP_STATUS_TRANSPORT_ERROR);
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
	expect_send(a, message(8), VIP_STATUS_TRANSPORT_ERROR);
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

// ---- RDMA writes ----

class UnreliableWrite : public Unreliable
{
      protected:
	static constexpr size_t SOURCE = 0, TARGET = 120000, MOST = 100000;
	static constexpr size_t LAST = 8; // bytes that go in a request of their own

	VIP_DESCRIPTOR *long_write(size_t bytes, unsigned control = 0)
	{
		for (size_t i = 0; i < bytes; i++)
			*memory.data(SOURCE + i) = static_cast<char>(i * 7 + i / 256);
		memset(memory.data(TARGET), 0, MOST);
		return write_descriptor(200, memory.data(TARGET), {memory.data(SOURCE), bytes}, control, 77);
	}
	bool is_written(size_t bytes)
	{
		return !memcmp(memory.data(SOURCE), memory.data(TARGET), bytes) && !*memory.data(TARGET + bytes);
	}
};

TEST_F(UnreliableWrite, IsCutAtThePathMtu)
{
	vi_kind.MaxTransferSize = MOST;
	for (int mtu : {256, 1024, 4096})
		for (size_t bytes : {1, 256, 257, 1024, 4096, 4097, 20000}) {
			open_with([=](fake_device &d) { d.mtu = mtu; });
			make_pair();
			size_t others = bytes > LAST ? bytes - LAST : 0, most = static_cast<size_t>(mtu);
			auto pieces = static_cast<int>((others + most - 1) / most + 1);
			by_hand(true);
			VIP_DESCRIPTOR *w = long_write(bytes);
			ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
			EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), pieces);
			EXPECT_EQ(fake_progress(pieces - 1), pieces - 1);
			EXPECT_EQ(send_done(a).code, VIP_NOT_DONE);
			EXPECT_EQ(fake_progress(1), 1);
			expect_sent(a, w, WRITE);
			EXPECT_TRUE(is_written(bytes));
			start_over();
		}
}

TEST_F(UnreliableWrite, IsNotCutOnDevicesThatRecoverFromALostPacket)
{
	open_with([](fake_device &d) { d.vendor_id = 0x2c9; });
	options([](fake_options &o) { o = fake_options_mlx5(); });
	make_pair();
	post_receives(1);
	by_hand(true);
	VIP_DESCRIPTOR *w = long_write(20000, VIP_CONTROL_IMMEDIATE);
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 1);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, w, WRITE);
	expect_received(b, receives[0], WRITTEN);
	EXPECT_EQ(receives[0]->CS.Length, 20000u);
}

TEST_F(UnreliableWrite, QueuePairsAreDrainedOfReceivesOnSoftRoceAlone)
{
	for (uint32_t vendor : {0xffffffU, 0x2c9U}) {
		open_with([=](fake_device &d) { d.vendor_id = vendor; });
		make_pair();
		uint64_t before = fake_calls("ibv_post_recv");
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_EQ(fake_calls("ibv_post_recv") - before, vendor == 0xffffff ? 2U : 0U);
		start_over();
	}
}

// The device has room for 128 of the 392 pieces, and then for ten.
TEST_F(UnreliableWrite, OfMorePiecesThanTheDeviceHoldsGoesOnByItself)
{
	vi_kind.MaxTransferSize = MOST;
	for (int depth : {1048576, 10}) {
		SCOPED_TRACE(depth);
		open_with([=](fake_device &d) {
			d.mtu = 256;
			d.max_qp_wr = depth;
		});
		make_pair();
		receives.clear();
		post_receives(2);
		VIP_DESCRIPTOR *w = long_write(MOST, VIP_CONTROL_IMMEDIATE), *s = message(0);
		post_sends(a, {w, s});
		// The program does not ask for a's completions.
		expect_received(b, receives[0], WRITTEN);
		EXPECT_TRUE(is_written(MOST));
		EXPECT_EQ(receives[0]->CS.ImmediateData, 77u);
		expect_received(b, receives[1]);
		expect_sent(a, w, WRITE);
		expect_sent(a, s);
		EXPECT_EQ(fake_posted(a.qp, FAKE_SEND), 0);
		start_over();
	}
}

// The device has all pieces of the shorter writes, and does not have all of the longest when an early one fails.
TEST_F(UnreliableWrite, APieceThatFailsHereIsTheDescriptorsErrorOnceAndTheEndOfTheWrite)
{
	vi_kind.MaxTransferSize = MOST;
	for (auto [bytes, failing] : {std::pair(size_t{20000}, 0), {20000, 1}, {20000, 78}, {MOST, 0}}) {
		SCOPED_TRACE(testing::Message() << bytes << ", piece " << failing);
		open_with([](fake_device &d) { d.mtu = 256; });
		make_pair();
		by_hand(true);
		VIP_DESCRIPTOR *w = long_write(bytes), *s = message(8);
		post_sends(a, {w, s});
		uint64_t posted = fake_calls("ibv_post_send");
		EXPECT_EQ(fake_progress(failing), failing);
		fake_complete_next(a.qp, FAKE_SEND, IBV_WC_LOC_PROT_ERR);
		EXPECT_EQ(fake_progress(1), 1);
		by_hand(false);
		expect_sent(a, w, PROTECTION | WRITE);
		expect_sent(a, s);
		EXPECT_LT(fake_calls("ibv_post_send"), posted + 300) << "written once more";
		expect_unharmed();
		start_over();
	}
}

} // namespace
