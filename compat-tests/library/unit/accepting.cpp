// SPDX-License-Identifier: BSD-2-Clause
// VipConnectWait, Accept and Reject, whatever requesters do.
#include "line.h"
#include "two_vis.h"

#include <chrono>

using namespace std::chrono_literals;

namespace
{

class Accepting : public TwoVis
{
      protected:
	// One whose request a wait has got, as `conn`.
	Line make_request(const Described &described = {}, VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY,
			    uint32_t max_transfer = 65536)
	{
		const std::string door = "door " + std::to_string(doors++);
		auto waited = std::async(std::launch::async, [=] { return wait(door, PATIENCE, &conn); });
		Line talker(door);

		EXPECT_TRUE(talker.say(good_message(MESSAGE_REQUEST, door, "", level, max_transfer, described)));
		EXPECT_EQ(waited.get(), VIP_SUCCESS);
		return talker;
	}
	std::future<VIP_RETURN> accept_async()
	{
		return std::async(std::launch::async, [&] { return VipConnectAccept(conn, b); });
	}
	void expect_works()
	{
		connect(a, b, "again");
		expect_messages();
		for (const auto &[vi, receive] : {std::pair(&a, d), {&b, e}}) {
			EXPECT_EQ(VipDisconnect(*vi), VIP_SUCCESS);
			ASSERT_EQ(post_recv(*vi, receive), VIP_SUCCESS);
		}
	}
	VIP_CONN_HANDLE conn = nullptr;
	int doors = 0;
};

TEST_F(Accepting, DiscriminatorsAreWaitedForAtTheSamePortsByEveryProcess)
{
	// FNV-1a: of "" 0x811c9dc5, of "a" 0xe40c292c. All tests look where place_of() says.
	EXPECT_EQ(place_of(""), 0x4000 + (0x811c9dc5 % 4096) * 4);
	EXPECT_EQ(place_of("a"), 0x4000 + (0xe40c292c % 4096) * 4);
	EXPECT_EQ(wait("a", 0, &conn), VIP_TIMEOUT);
	EXPECT_TRUE(is_listened_for("a"));
	EXPECT_FALSE(is_listened_for("a", 1));
}

TEST_F(Accepting, ManyRequestsOfAnotherVersionDoNotFillTheLog)
{
	auto waited = std::async(std::launch::async, [=] { return wait("door", PATIENCE, &conn); });
	message request = good_message(MESSAGE_REQUEST, "door");
	const std::string line = "refused a request by another version";
	const auto start = std::chrono::steady_clock::now();
	size_t lines = 0;

	request.version++;
	testing::internal::CaptureStderr();
	for (int i = 0; i < 10; i++) {
		Line talker("door");
		EXPECT_TRUE(talker.say(request));
		EXPECT_EQ(talker.next(), MESSAGE_BAD_VERSION);
	}
	const std::string log = testing::internal::GetCapturedStderr();

	for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1))
		lines++;
	/* The log gets one line at once, and one in five seconds. This process has logged no such line before. */
	EXPECT_GE(lines, 1u);
	EXPECT_LE(lines, 1 + (std::chrono::steady_clock::now() - start) / 5s) << log;
	Line other("door"), right("door");
	EXPECT_TRUE(other.say(good_message(MESSAGE_REQUEST, "another one")));
	EXPECT_EQ(other.next(), MESSAGE_NO_MATCH);
	EXPECT_TRUE(right.say(good_message(MESSAGE_REQUEST, "door")));
	EXPECT_EQ(waited.get(), VIP_SUCCESS) << "and the wait goes on";
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
		Line talker = make_request({}, static_cast<VIP_RELIABILITY_LEVEL>(each.reliability), each.transfer);
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
		Line talker = make_request(described);
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_ERROR_RESOURCE);
		EXPECT_EQ(talker.next(), MESSAGE_REJECT);
	}
	expect_works();
}

// The kernel asks where the host is.
TEST_F(Accepting, ARequesterWhoseHostHasDiedIsTimeout)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH}) {
		Line talker = make_request();

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
		Line talker = make_request(described);
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

// ---- the last step ----

using EachLastWord = Each<Accepting, Act>;

// If there is no connection, no message may reach memory that is the program's again, and receives stay posted.
TEST_P(EachLastWord, IsNoConfirmation)
{
	VIP_DESCRIPTOR *done;
	Line talker = make_request();
	auto accepted = accept_async();

	ASSERT_EQ(talker.next(), MESSAGE_ACCEPT);
	GetParam().act(talker);
	EXPECT_EQ(accepted.get(), GetParam().wanted);
	uint32_t numbers[16];
	int count = fake_qps(numbers, 16);
	for (int i = 0; i < count; i++) {
		ibv_qp_state state = fake_qp(numbers[i])->state;
		EXPECT_TRUE(state != IBV_QPS_RTR && state != IBV_QPS_RTS) << state;
		EXPECT_EQ(fake_posted(numbers[i], FAKE_RECV), 0);
	}
	EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE) << "it stays posted";
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(Accepting, EachLastWord,
			 testing::Values(Act{"Disconnect", [](Line &other) { other.say(MESSAGE_DISCONNECT); }, VIP_TIMEOUT},
					 Act{"End", [](Line &other) { other.hang_up(); }, VIP_TIMEOUT},
					 Act{"Reset", [](Line &other) { other.reset(); }, VIP_TIMEOUT},
					 Act{"Removal", [](Line &) { fake_remove_devices(); }, VIP_ERROR_RESOURCE}),
			 ByName());

// Its messages may have arrived already.
TEST_F(Accepting, ARequesterThatDisconnectsAtOnceWasConnected)
{
	for (bool with_a_word : {true, false}) {
		Line talker = make_request();
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

TEST_F(Accepting, OfTwoAnswersAtOnceOneIsGiven)
{
	for (int round = 0; round < 40; round++) {
		const bool rejects = round % 2;
		Vi x = make_vi();
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		auto other = std::async(std::launch::async,
					[&] { return rejects ? VipConnectReject(conn) : VipConnectAccept(conn, x); });
		const VIP_RETURN accept = VipConnectAccept(conn, b), answer = other.get();
		EXPECT_EQ((accept == VIP_SUCCESS) + (answer == VIP_SUCCESS), 1);
		EXPECT_TRUE(accept == VIP_INVALID_PARAMETER || answer == VIP_INVALID_PARAMETER);
		EXPECT_EQ(requested.get(), rejects && answer == VIP_SUCCESS ? VIP_REJECT : VIP_SUCCESS);
		disconnect_pair();
		EXPECT_EQ(VipDisconnect(x), VIP_SUCCESS);
		EXPECT_EQ(VipDestroyVi(x), VIP_SUCCESS);
	}
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
		fake_before("sendmsg", nth, [this] {
			expect_state(answering, VIP_STATE_CONNECT_PENDING);
			EXPECT_EQ(post_send(answering, descriptor(2, {{memory.data(32), 8}})), VIP_SUCCESS);
			EXPECT_EQ(at(2)->CS.Status, 0u);
		});
	}
	Vi answering;
};

TEST_F(EarlyAnswers, OfTheOneWhoAcceptsAreSentWhenItIsConnected)
{
	post_before_message(3, b); // HERE, REQUEST, ACCEPT
	connect(a, b);
	expect_sent(b, at(2));
	expect_received(a, d);
}

TEST_F(EarlyAnswers, OfTheRequesterAreSentWhenItIsConnected)
{
	post_before_message(4, a); // CONFIRM
	connect(a, b);
	expect_sent(a, at(2));
	expect_received(b, e);
}

TEST_F(EarlyAnswers, AreFlushedWhenThereIsNoConnection)
{
	Line talker = make_request();

	post_before_message(1, b);
	fake_fail("sendmsg", 1, ECONNABORTED);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	expect_sent(b, at(2), VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(talker.next(), Line::END);
}

} // namespace
