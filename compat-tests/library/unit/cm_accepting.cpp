// SPDX-License-Identifier: BSD-2-Clause
// VipConnectWait, Accept and Reject, whatever requesters do.
#include "stranger.h"
#include "support.h"

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <thread>

using namespace std::chrono_literals;

namespace
{

class CmAccepting : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		a = make_vi();
		b = make_vi();
	}
	// Waits under a new discriminator. One that was waited for lately would be listened for already.
	std::future<VIP_RETURN> wait_async(const std::string &discriminator)
	{
		uint64_t before = fake_calls("rdma_listen");
		auto waited = std::async(std::launch::async,
					 [=] { return wait(discriminator, PATIENCE, &conn); });
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_listen") > before; }));
		return waited;
	}
	// A stranger whose request a wait has got, as `conn`.
	std::unique_ptr<Stranger> make_request(const std::string &door = "door", uint32_t qp = 999)
	{
		auto waited = wait_async(door);
		wire_message message = good_request(door);
		auto s = std::make_unique<Stranger>(door, &message, sizeof(message), qp);

		EXPECT_EQ(waited.get(), VIP_SUCCESS);
		return s;
	}
	std::future<VIP_RETURN> accept_async()
	{
		return std::async(std::launch::async, [&] { return VipConnectAccept(conn, b); });
	}
	void expect_refused(const void *message, uint8_t length, int code = 0)
	{
		Stranger s("door", message, length);
		EXPECT_EQ(s.next(), RDMA_CM_EVENT_REJECTED);
		if (code) {
			EXPECT_EQ(s.code, code);
		}
	}
	VIP_CONN_HANDLE conn = nullptr;
};

TEST_F(CmAccepting, ManyRequestsOfAnotherVersionDoNotFillTheLog)
{
	auto waited = wait_async("door");
	wire_message message = good_request("door");
	const std::string line = "refused a request by another version";
	const auto start = std::chrono::steady_clock::now();
	size_t lines = 0;

	message.version++;
	testing::internal::CaptureStderr();
	for (int i = 0; i < 10; i++)
		expect_refused(&message, sizeof(message));
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

TEST_F(CmAccepting, RequestsThatAreNoneAreRefusedAndTheWaitGoesOn)
{
	auto waited = wait_async("door");
	wire_message message = good_request("door");
	uint8_t garbage[56];

	memset(garbage, 0xA5, sizeof(garbage));
	expect_refused(garbage, sizeof(garbage), WIRE_NO_MATCH);
	expect_refused(nullptr, 0);
	message.version++;
	expect_refused(&message, sizeof(message), WIRE_BAD_VERSION);
	for (int code : {0, 2, 3, 4, 5, int{WIRE_PEER_REQUEST}, 77}) {
		SCOPED_TRACE(code);
		message = good_request("door");
		message.code = static_cast<uint8_t>(code);
		expect_refused(&message, sizeof(message));
	}
	for (int i = 0; i < 2; i++) {
		message = good_request("door");
		(i ? message.own : message.wanted)[MAX_DISCRIMINATOR_LEN - 1] = 255;
		expect_refused(&message, sizeof(message));
	}
	message = good_request("another one");
	expect_refused(&message, sizeof(message), WIRE_NO_MATCH);
	auto requested = request_async(a, "door");
	EXPECT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_traffic(a, b);
}

TEST_F(CmAccepting, ARequestWithOddAttributesIsNotAccepted)
{
	struct {
		int reliability;
		uint32_t transfer;
		VIP_RETURN wanted;
	} cases[] = {{VIP_SERVICE_UNRELIABLE, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {0, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {15, 65536, VIP_INVALID_RELIABILITY_LEVEL},
		     {VIP_SERVICE_RELIABLE_DELIVERY, 0, VIP_INVALID_MTU},
		     {VIP_SERVICE_RELIABLE_DELIVERY, 0xFFFFFF, VIP_INVALID_MTU}};

	for (const auto &each : cases) {
		const std::string door = "door " + std::to_string(&each - cases);
		auto waited = wait_async(door);
		wire_message message = good_request(door);
		message.flags = static_cast<uint8_t>((message.flags & 0xF0) | each.reliability);
		for (int i = 0; i < 3; i++)
			message.max_transfer[i] =
				static_cast<uint8_t>(each.transfer >> (16 - 8 * i));
		Stranger s(door, &message, sizeof(message));
		ASSERT_EQ(waited.get(), VIP_SUCCESS);
		EXPECT_EQ(VipConnectAccept(conn, b), each.wanted);
		EXPECT_EQ(VipConnectAccept(conn, b), each.wanted) << "it stays pending";
		EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
		EXPECT_EQ(s.next(), RDMA_CM_EVENT_REJECTED);
		EXPECT_EQ(s.code, WIRE_REJECT);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	}
}

TEST_F(CmAccepting, ARequesterThatGaveUpBeforeIsTimeout)
{
	auto s = make_request();

	s->give_up();
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_INVALID_PARAMETER);
	connect(a, b, "again");
	expect_traffic(a, b);
}

// The host of the requester does not answer, so no answer can be sent.
TEST_F(CmAccepting, ARequesterWhoseHostHasDiedIsTimeout)
{
	for (int error : {ETIMEDOUT, EHOSTUNREACH}) {
		auto s = make_request("door " + std::to_string(error));

		fake_fail("ibv_modify_qp", 2, error); // 1 is INIT, 2 is RTR
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
	}
	connect(a, b, "again");
	expect_traffic(a, b);
}

TEST_F(CmAccepting, AnAnswerTellsTheMtuOfThePort)
{
	auto s = make_request();

	auto accepted = accept_async();
	EXPECT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(s->extra.mtu, IBV_MTU_1024);
	s->give_up();
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
}

TEST_F(CmAccepting, ARequesterThatGaveUpMayBeRejected)
{
	auto s = make_request();

	s->give_up();
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_INVALID_PARAMETER);
}

TEST_F(CmAccepting, ARequesterThatGivesUpInTheLastStepIsTimeout)
{
	for (bool reject : {false, true}) {
		const std::string door = reject ? "one door" : "another door";
		auto s = make_request(door);
		auto accepted = accept_async();
		EXPECT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
		if (reject)
			rdma_reject(s->id, "no", 2);
		s->give_up();
		EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
	}
	connect(a, b, "again");
	expect_traffic(a, b);
}

// The requester takes the answer and dies. Its messages must not reach memory that is the program's again.
TEST_F(CmAccepting, AQueuePairWhoseAcceptHasFailedTakesNoMessage)
{
	VIP_DESCRIPTOR *receive = descriptor(0, {{memory.data(0), 8}}), *done;
	auto s = make_request();

	ASSERT_EQ(post_recv(b, receive), VIP_SUCCESS);
	auto accepted = accept_async();
	ASSERT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	s->give_up();
	ASSERT_EQ(accepted.get(), VIP_TIMEOUT);
	uint32_t numbers[16];
	int count = fake_qps(numbers, 16);
	for (int i = 0; i < count; i++) {
		ibv_qp_state state = fake_qp(numbers[i])->state;
		EXPECT_TRUE(state != IBV_QPS_RTR && state != IBV_QPS_RTS) << state;
		EXPECT_EQ(fake_posted(numbers[i], FAKE_RECV), 0);
	}
	EXPECT_EQ(VipRecvDone(b, &done), VIP_NOT_DONE) << "it stays posted";
	connect(a, b, "again");
	ASSERT_EQ(post_send(a, descriptor(1, {{memory.data(64), 8}})), VIP_SUCCESS);
	expect_received(b, receive);
}

struct Event {
	rdma_cm_event_type type;
	VIP_RETURN wanted;
};

void PrintTo(const Event &event, std::ostream *out)
{
	*out << rdma_event_str(event.type);
}

using EachEventInTheLastStep = Each<CmAccepting, Event>;

TEST_P(EachEventInTheLastStep, HasItsDocumentedCode)
{
	auto s = make_request("door", a.qp);

	auto accepted = accept_async();
	ASSERT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	fake_cm_event(fake_id_of_qp(b.qp), GetParam().type, -EIO, nullptr, 0);
	EXPECT_EQ(accepted.get(), GetParam().wanted);
	if (GetParam().wanted != VIP_SUCCESS) {
		expect_state(b, VIP_STATE_IDLE);
		connect(a, b, "again");
		expect_traffic(a, b);
	}
}

INSTANTIATE_TEST_SUITE_P(CmAccepting, EachEventInTheLastStep,
			 testing::Values(Event{RDMA_CM_EVENT_REJECTED, VIP_TIMEOUT},
					 Event{RDMA_CM_EVENT_UNREACHABLE, VIP_TIMEOUT},
					 Event{RDMA_CM_EVENT_CONNECT_ERROR, VIP_TIMEOUT},
					 Event{RDMA_CM_EVENT_DEVICE_REMOVAL, VIP_ERROR_RESOURCE},
					 Event{RDMA_CM_EVENT_ESTABLISHED, VIP_SUCCESS}));

// Its messages may have arrived already. They must not be lost when its last message of connecting is.
TEST_F(CmAccepting, ARequesterThatDisconnectsAtOnceWasConnected)
{
	auto s = make_request("door", a.qp);

	auto accepted = accept_async();
	ASSERT_EQ(s->next(), RDMA_CM_EVENT_CONNECT_RESPONSE);
	fake_cm_event(fake_id_of_qp(b.qp), RDMA_CM_EVENT_DISCONNECTED, 0, nullptr, 0);
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
}

TEST_F(CmAccepting, OnlyOneOfTwoThreadsAcceptsARequest)
{
	for (int round = 0; round < 20; round++) {
		Vi x = make_vi(), y = make_vi();
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		auto first =
			std::async(std::launch::async, [&] { return VipConnectAccept(conn, x); });
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

TEST_F(CmAccepting, AcceptAndRejectAtOnceGiveOneAnswer)
{
	for (int round = 0; round < 20; round++) {
		auto requested = request_async(a, "door");
		ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
		auto rejected =
			std::async(std::launch::async, [&] { return VipConnectReject(conn); });
		VIP_RETURN accept = VipConnectAccept(conn, b), reject = rejected.get();
		EXPECT_NE(accept == VIP_SUCCESS, reject == VIP_SUCCESS);
		EXPECT_EQ(requested.get(), accept == VIP_SUCCESS ? VIP_SUCCESS : VIP_REJECT);
		disconnect_pair();
	}
}

TEST_F(CmAccepting, AViThatIsNotIdleAcceptsNothing)
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

TEST_F(CmAccepting, AWaitTimesOutAndStopsListeningAfterTheGraceTime)
{
	EXPECT_EQ(wait("door", 20, &conn), VIP_TIMEOUT);
	EXPECT_EQ(wait("door", 0, &conn), VIP_TIMEOUT);
	EXPECT_TRUE(eventually([] { return fake_live().ids == 0; })) << "it still listens";
}

// ---- answers before the call to connect returns ----

// A first message may arrive before the call returns, and another thread may answer it.
class EarlyAnswers : public CmAccepting
{
      protected:
	// Has `vi` post a send when this function is called. Its attempt to connect is not over by then.
	void post_before(const char *function, const Vi &vi)
	{
		answering = vi;
		ASSERT_EQ(post_recv(vi, descriptor(0, {{memory.data(), 8}})), VIP_SUCCESS);
		fake_before(
			function, 1,
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
		post_before(accepting ? "rdma_accept" : "rdma_establish", early);
		connect(a, b, accepting ? "accepting" : "requesting");
		expect_sent(early, at(1));
		expect_received(other, at(2));
		disconnect_pair();
		expect_received(early, at(0), VIP_STATUS_DESC_FLUSHED_ERROR);
	}
}

TEST_F(EarlyAnswers, AreFlushedWhenThereIsNoConnection)
{
	auto requested = request_async(a, "door");
	ASSERT_EQ(wait("door", PATIENCE, &conn), VIP_SUCCESS);
	post_before("rdma_accept", b);
	fake_fail("rdma_accept", 1, ECONNABORTED);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	expect_sent(b, at(1), VIP_STATUS_DESC_FLUSHED_ERROR);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_INVALID_STATE);
}

} // namespace
