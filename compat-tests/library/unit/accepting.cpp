// SPDX-License-Identifier: BSD-2-Clause
// VipConnectWait, Accept and Reject, whatever requesters do.
#include "talking.h"

#include <chrono>

using namespace std::chrono_literals;

namespace
{

class Accepting : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		a = make_vi();
		b = make_vi();
	}
	// When this returns, a thread waits. The discriminator must not have been waited for lately.
	std::future<VIP_RETURN> wait_async(const std::string &discriminator)
	{
		auto waited = std::async(std::launch::async, [=] { return wait(discriminator, PATIENCE, &conn); });
		EXPECT_TRUE(eventually([&] { return is_listened_for(discriminator); }));
		return waited;
	}
	// A talker whose request a wait has got, as `conn`.
	Talker make_request(const Described &described = {}, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
			    uint32_t max_transfer = 65536)
	{
		const std::string door = "door " + std::to_string(doors++);
		auto waited = wait_async(door);
		Talker talker(door);

		EXPECT_TRUE(talker.say(good_message(MESSAGE_REQUEST, door, "", level, max_transfer, described)));
		EXPECT_EQ(waited.get(), VIP_SUCCESS);
		return talker;
	}
	std::future<VIP_RETURN> accept_async()
	{
		return std::async(std::launch::async, [&] { return VipConnectAccept(conn, b); });
	}
	static void expect_answer(const message &request, int wanted)
	{
		Talker talker("door");

		EXPECT_TRUE(talker.say(request));
		EXPECT_EQ(talker.next(), wanted);
	}
	void expect_works()
	{
		connect(a, b, "again");
		expect_traffic(a, b);
	}
	VIP_CONN_HANDLE conn = nullptr;
	int doors = 0;
};

TEST_F(Accepting, DiscriminatorsAreWaitedForAtTheSamePortsByEveryProcess)
{
	for (auto [name, port] : {std::pair{"", 0x4000 + (0x811c9dc5 % 4096) * 4}, {"a", 0x4000 + (0xe40c292c % 4096) * 4}}) {
		EXPECT_EQ(place_of(name), port);
		EXPECT_EQ(wait(name, 0, &conn), VIP_TIMEOUT);
		EXPECT_TRUE(is_listened_for(name));
		EXPECT_FALSE(is_listened_for(name, 1));
	}
}

TEST_F(Accepting, ManyRequestsOfAnotherVersionDoNotFillTheLog)
{
	auto waited = wait_async("door");
	message request = good_message(MESSAGE_REQUEST, "door");
	const std::string line = "refused a request by another version";
	const auto start = std::chrono::steady_clock::now();
	size_t lines = 0;

	request.version++;
	testing::internal::CaptureStderr();
	for (int i = 0; i < 10; i++)
		expect_answer(request, MESSAGE_BAD_VERSION);
	const std::string log = testing::internal::GetCapturedStderr();

	for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1))
		lines++;
	/* The log gets one line at once, and one in five seconds. This process has logged no such line before. */
	EXPECT_GE(lines, 1u);
	EXPECT_LE(lines, 1 + (std::chrono::steady_clock::now() - start) / 5s) << log;
	auto requested = request_async(a, "door");
	EXPECT_EQ(waited.get(), VIP_SUCCESS) << "and the wait goes on";
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_REJECT);
}

TEST_F(Accepting, RequestsThatAreNoneAreRefusedAndTheWaitGoesOn)
{
	auto waited = wait_async("door");
	message request = good_message(MESSAGE_REQUEST, "door");

	memset(&request, 0xA5, sizeof(request));
	expect_answer(request, Talker::END);
	for (int code : {0, +MESSAGE_HERE, +MESSAGE_ACCEPT, +MESSAGE_CONFIRM, +MESSAGE_REJECT, +MESSAGE_DISCONNECT, 77}) {
		SCOPED_TRACE(code);
		request = good_message(MESSAGE_REQUEST, "door");
		request.code = static_cast<uint8_t>(code);
		expect_answer(request, Talker::END);
	}
	for (uint8_t message::*length : {&message::own_length, &message::wanted_length}) {
		request = good_message(MESSAGE_REQUEST, "door");
		request.*length = 255;
		expect_answer(request, Talker::END);
	}
	expect_answer(good_message(MESSAGE_REQUEST, "another one"), MESSAGE_NO_MATCH);
	expect_answer(good_message(MESSAGE_PEER_REQUEST, "door"), MESSAGE_NO_MATCH);
	auto requested = request_async(a, "door");
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_traffic(a, b);
}

// The agent greets whom it accepts. Of those who say nothing it keeps 64, and then the oldest one goes.
TEST_F(Accepting, TheOldestOfTooManyWhoSayNothingGoes)
{
	auto waited = wait_async("door");
	std::vector<Talker> silent;

	for (int i = 0; i < 65; i++) {
		silent.emplace_back("door");
		EXPECT_EQ(silent.back().next(true), MESSAGE_HERE);
	}
	EXPECT_EQ(silent[0].next(), +Talker::END);
	EXPECT_EQ(silent[1].next(false, 0), +Talker::NOTHING);
	ASSERT_TRUE(silent[64].say(good_message(MESSAGE_REQUEST, "door")));
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
}

TEST_F(Accepting, ARequestWithOddAttributesIsNotAccepted)
{
	struct {
		int reliability;
		uint32_t transfer;
		VIP_RETURN wanted;
	} cases[] = {{VIP_SERVICE_UNRELIABLE, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {0, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {15, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {VIP_SERVICE_RELIABLE_DELIVERY, 0, VIP_INVALID_MTU},
		     {VIP_SERVICE_RELIABLE_DELIVERY, 0xFFFFFFFF, VIP_INVALID_MTU}};

	for (const auto &each : cases) {
		Talker talker = make_request({}, static_cast<VIP_RELIABILITY_LEVEL>(each.reliability), each.transfer);
		EXPECT_EQ(VipConnectAccept(conn, b), each.wanted);
		EXPECT_EQ(VipConnectAccept(conn, b), each.wanted) << "it stays pending";
		EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
		EXPECT_EQ(talker.next(), MESSAGE_REJECT);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	}
}

TEST_F(Accepting, ADescriptionThatMakesNoSenseIsNotAccepted)
{
	for (uint8_t mtu : {0, IBV_MTU_4096 + 1}) {
		Described described;
		described.mtu = mtu;
		Talker talker = make_request(described);
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_ERROR_RESOURCE);
		EXPECT_EQ(talker.next(), MESSAGE_REJECT);
	}
	expect_works();
}

TEST_F(Accepting, ARequesterThatGaveUpBeforeIsTimeout)
{
	make_request().hang_up();
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_INVALID_PARAMETER);
	expect_works();
}

// The kernel asks where the host is.
TEST_F(Accepting, ARequesterWhoseHostHasDiedIsTimeout)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH}) {
		Talker talker = make_request();

		fake_fail("ibv_modify_qp", 2, error); // 1 is INIT, 2 is RTR
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	}
	expect_works();
}

// Both ends know the lesser MTU when they have each other's description.
TEST_F(Accepting, TheLesserMtuIsThatOfTheConnection)
{
	for (ibv_mtu mtu : {IBV_MTU_512, IBV_MTU_4096}) {
		Described described;
		described.mtu = static_cast<uint8_t>(mtu);
		Talker talker = make_request(described);
		auto accepted = accept_async();
		ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
		EXPECT_EQ(talker.last.description[36], std::min(mtu, IBV_MTU_1024));
		ASSERT_TRUE(talker.say(MESSAGE_CONFIRM));
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		ibv_qp_attr attributes;
		ibv_qp_init_attr unused;
		ibv_query_qp(fake_qp(newest_qp()), &attributes, IBV_QP_PATH_MTU, &unused);
		EXPECT_EQ(attributes.path_mtu, std::min(mtu, IBV_MTU_1024));
		EXPECT_EQ(attributes.dest_qp_num, described.qp);
		EXPECT_EQ(attributes.rq_psn, described.psn);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	}
}

TEST_F(Accepting, ARequesterThatGaveUpMayBeRejected)
{
	make_request().hang_up();
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_INVALID_PARAMETER);
}

// ---- the last step ----

// What the requester does when it has been accepted.
struct LastWord {
	const char *name;
	void (*act)(Talker &talker);
	VIP_RETURN wanted;
};

void PrintTo(const LastWord &word, std::ostream *out)
{
	*out << word.name;
}

using EachLastWord = Each<Accepting, LastWord>;

// If there is no connection, no message may reach memory that is the program's again, and receives stay posted.
TEST_P(EachLastWord, HasItsDocumentedCode)
{
	VIP_DESCRIPTOR *receive = descriptor(0, {{memory.data(0), 8}}), *done;
	Talker talker = make_request();

	ASSERT_EQ(post_recv(b, receive), VIP_SUCCESS);
	auto accepted = accept_async();
	ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
	GetParam().act(talker);
	EXPECT_EQ(accepted.get(), GetParam().wanted);
	if (GetParam().wanted == VIP_SUCCESS)
		return;
	uint32_t numbers[16];
	int count = fake_qps(numbers, 16);
	for (int i = 0; i < count; i++) {
		ibv_qp_state state = fake_qp(numbers[i])->state;
		EXPECT_TRUE(state != IBV_QPS_RTR && state != IBV_QPS_RTS) << state;
		EXPECT_EQ(fake_posted(numbers[i], FAKE_RECV), 0);
	}
	EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE) << "it stays posted";
	connect(a, b, "again");
	ASSERT_EQ(post_send(a, descriptor(1, {{memory.data(64), 8}})), VIP_SUCCESS);
	expect_received(b, receive);
}

INSTANTIATE_TEST_SUITE_P(
	Accepting, EachLastWord,
	testing::Values(LastWord{"Confirm", [](Talker &peer) { peer.say(MESSAGE_CONFIRM); }, VIP_SUCCESS},
			LastWord{"Reject", [](Talker &peer) { peer.say(MESSAGE_REJECT); }, VIP_TIMEOUT},
			LastWord{"Disconnect", [](Talker &peer) { peer.say(MESSAGE_DISCONNECT); }, VIP_TIMEOUT},
			LastWord{"Repetition", [](Talker &peer) { peer.say(good_message(MESSAGE_REQUEST, "door")); }, VIP_TIMEOUT},
			LastWord{"End", [](Talker &peer) { peer.hang_up(); }, VIP_TIMEOUT},
			LastWord{"Reset", [](Talker &peer) { peer.reset(); }, VIP_TIMEOUT},
			LastWord{"Removal", [](Talker &) { fake_remove_devices(); }, VIP_ERROR_RESOURCE}),
	[](const auto &each) { return each.param.name; });

// Its messages may have arrived already.
TEST_F(Accepting, ARequesterThatDisconnectsAtOnceWasConnected)
{
	for (bool with_a_word : {true, false}) {
		Talker talker = make_request();
		auto accepted = accept_async();
		ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
		talker.say(MESSAGE_CONFIRM);
		if (with_a_word)
			talker.say(MESSAGE_DISCONNECT);
		talker.hang_up();
		EXPECT_EQ(accepted.get(), VIP_SUCCESS);
		expect_state(b, VIP_STATE_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b, with_a_word ? 1 : 2));
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	}
}

// ---- several threads ----

TEST_F(Accepting, OnlyOneOfTwoThreadsAcceptsARequest)
{
	for (int round = 0; round < 20; round++) {
		Vi x = make_vi(), y = make_vi();
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		auto first = std::async(std::launch::async, [&] { return VipConnectAccept(conn, x); });
		VIP_RETURN second = VipConnectAccept(conn, y), other = first.get();
		EXPECT_EQ((second == VIP_SUCCESS) + (other == VIP_SUCCESS), 1);
		EXPECT_TRUE(second == VIP_INVALID_PARAMETER || other == VIP_INVALID_PARAMETER);
		EXPECT_EQ(requested.get(), VIP_SUCCESS);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		for (const Vi &vi : {x, y}) {
			EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
			EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
		}
	}
}

TEST_F(Accepting, AcceptAndRejectAtOnceGiveOneAnswer)
{
	for (int round = 0; round < 20; round++) {
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		auto rejected = std::async(std::launch::async, [&] { return VipConnectReject(conn); });
		VIP_RETURN accept = VipConnectAccept(conn, b), reject = rejected.get();
		EXPECT_NE(accept == VIP_SUCCESS, reject == VIP_SUCCESS);
		EXPECT_EQ(requested.get(), accept == VIP_SUCCESS ? VIP_SUCCESS : VIP_REJECT);
		disconnect_pair();
	}
}

TEST_F(Accepting, AViThatIsNotIdleAcceptsNothing)
{
	connect(a, b, "first");
	Vi x = make_vi(), y = make_vi();
	auto requested = request_async(x, "door");
	ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_INVALID_STATE);
	EXPECT_EQ(VipConnectAccept(conn, x), VIP_INVALID_STATE) << "it is requesting";
	EXPECT_EQ(VipConnectAccept(conn, y), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(request(b, "door", 100), VIP_INVALID_STATE);
}

TEST_F(Accepting, AWaitTimesOutAndStopsListeningAfterTheGraceTime)
{
	EXPECT_EQ(wait("door", 20, &conn), VIP_TIMEOUT);
	EXPECT_EQ(wait("door", 0, &conn), VIP_TIMEOUT);
	EXPECT_TRUE(eventually([] { return !is_listened_for("door"); }));
}

// ---- answers before the call to connect returns ----

// A first message may arrive before the call returns, and another thread may answer it.
class EarlyAnswers : public Accepting
{
      protected:
	// Has `vi` post a send before this next message of connecting. Its attempt to connect is not over by then.
	void post_before_message(int nth, const Vi &vi)
	{
		answering = vi;
		ASSERT_EQ(post_recv(vi, descriptor(0, {{memory.data(), 8}})), VIP_SUCCESS);
		fake_before(
			"sendmsg", nth,
			[](void *argument) {
				auto *self = static_cast<EarlyAnswers *>(argument);
				self->expect_state(self->answering, VIP_STATE_CONNECT_PENDING);
				EXPECT_EQ(self->post_send(self->answering, self->descriptor(1, {{self->memory.data(32), 8}})),
					  VIP_SUCCESS);
				EXPECT_EQ(self->at(1)->CS.Status, 0u);
			},
			this);
	}
	Vi answering;
};

TEST_F(EarlyAnswers, OfEitherSideAreSentWhenItIsConnected)
{
	for (bool accepting : {true, false}) {
		SCOPED_TRACE(accepting ? "the one who accepts" : "the requester");
		const Vi &early = accepting ? b : a, &other = accepting ? a : b;
		ASSERT_EQ(post_recv(other, descriptor(2, {{memory.data(64), 8}})), VIP_SUCCESS);
		post_before_message(accepting ? 3 : 4, early); // HERE, REQUEST, ACCEPT, CONFIRM
		connect(a, b, accepting ? "accepting" : "requesting");
		expect_sent(early, at(1));
		expect_received(other, at(2));
		disconnect_pair();
		expect_received(early, at(0), VIP_STATUS_DESC_FLUSHED_ERROR);
	}
}

TEST_F(EarlyAnswers, AreFlushedWhenThereIsNoConnection)
{
	Talker talker = make_request();

	post_before_message(1, b);
	fake_fail("sendmsg", 1, ECONNABORTED);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	expect_sent(b, at(1), VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(talker.next(), +Talker::END);
}

} // namespace
