// SPDX-License-Identifier: BSD-2-Clause
// Connecting when a call below fails. The side where it fails returns the documented code, and the wait of the other
// side ends. Both VIs are IDLE and keep their receives, and the next try works.
#include "faults.h"
#include "peer_requests.h"

#include <atomic>

namespace
{

class FaultsConnect : public TwoVis
{
      protected:
	// Makes requests in another thread until there is an answer.
	std::future<VIP_RETURN> request_until_answered()
	{
		return std::async(std::launch::async, [this] {
			VIP_RETURN rc;
			while ((rc = request(a, "fault", PATIENCE)) == VIP_NO_MATCH && !answered)
				;
			return rc;
		});
	}
	std::atomic<bool> answered{false};
};

using RequestFails = Failing<PeerRequests>;

TEST_P(RequestFails, WithTheDocumentedCode)
{
	fail();
	EXPECT_EQ(GetParam().during([this] { return request(a, "nobody", 5000); }), GetParam().wanted);
	TwoVis::expect_works();
}

struct PeerRequestFails : RequestFails {
};

TEST_P(PeerRequestFails, WithTheSameCode)
{
	fail();
	EXPECT_EQ(GetParam().during([this] {
		EXPECT_EQ(ask(a, "a", "b"), VIP_SUCCESS) << "the agent looks, not the caller";
		return outcome(a);
	}), GetParam().wanted);
	expect_works();
}

const Fault OF_A_REQUEST[] = {
	{"rdma_create_id", 1, ENOMEM},
	{"rdma_resolve_addr", 1, ENETUNREACH, VIP_NOT_REACHABLE},
	{"rdma_resolve_addr", 1, ENETDOWN, VIP_NOT_REACHABLE},
	{"rdma_resolve_addr", 1, ENOMEM},
	{"rdma_resolve_route", 1, ENOMEM},
	{"rdma_resolve_route", 1, ENETUNREACH, VIP_NOT_REACHABLE},
	{"ibv_query_gid_ex", 1, EIO},
	{"socket", 1, EMFILE},
	{"socket", 3, ENFILE},
	{"socket", 7, EMFILE}, // in the second round
	{"bind", 1, EADDRNOTAVAIL, VIP_NOT_REACHABLE}, // the address has gone
	{"connect", 1, ENETUNREACH, VIP_NOT_REACHABLE},
	{"connect", 4, EADDRNOTAVAIL}, // no port is free
	{"connect", 6, EADDRNOTAVAIL},
};
// A peer asks such a host again: peer_requests.cpp.
const Fault OF_A_DEAD_HOST[] = {
	{"rdma_resolve_addr", 1, EHOSTUNREACH, VIP_NOT_REACHABLE},
	{"connect", 2, EHOSTUNREACH, VIP_NOT_REACHABLE},
};
INSTANTIATE_TEST_SUITE_P(FaultsConnect, RequestFails, testing::ValuesIn(OF_A_REQUEST), name_of);
INSTANTIATE_TEST_SUITE_P(DeadHost, RequestFails, testing::ValuesIn(OF_A_DEAD_HOST), name_of);
INSTANTIATE_TEST_SUITE_P(FaultsConnect, PeerRequestFails, testing::ValuesIn(OF_A_REQUEST), name_of);

struct Handshake : Fault {
	VIP_RETURN requester; // what its call returns, if that is certain
};

using HandshakeFails = Failing<FaultsConnect, Handshake>;

TEST_P(HandshakeFails, WithTheDocumentedCodeAndTheOtherSideIsTold)
{
	auto requested = request_until_answered();

	ASSERT_EQ(wait("fault", PATIENCE), VIP_SUCCESS);
	fail();
	answered = true;
	VIP_RETURN told = VIP_SUCCESS;
	EXPECT_EQ(GetParam().during([&] {
		const VIP_RETURN accepted = VipConnectAccept(conn, b);
		told = requested.get();
		return accepted;
	}), GetParam().wanted);
	EXPECT_NE(told, VIP_SUCCESS);
	EXPECT_TRUE(told == GetParam().requester || !GetParam().requester) << testing::PrintToString(told);
	EXPECT_EQ(VipConnectReject(conn), VIP_INVALID_PARAMETER) << "it is answered";
	expect_works();
}

// The transitions: INIT, RTR, RTS of the server, and then RTR and RTS of the requester. Messages: ACCEPT, CONFIRM.
// Where the requester fails, the connection never came to be for the server.
INSTANTIATE_TEST_SUITE_P(
	FaultsConnect, HandshakeFails,
	testing::Values(Handshake{{"sendmsg", 1, EPIPE, VIP_TIMEOUT}, {}}, Handshake{{"ibv_query_gid_ex", 1, EIO}, {}},
			Handshake{{"ibv_modify_qp", 2, ENOMEM}, {}}, Handshake{{"ibv_modify_qp", 3, ENOMEM}, {}},
			Handshake{{"ibv_modify_qp", 4, ENOMEM, VIP_TIMEOUT}, VIP_ERROR_RESOURCE},
			Handshake{{"ibv_modify_qp", 5, ENOMEM, VIP_TIMEOUT}, VIP_ERROR_RESOURCE},
			Handshake{{"sendmsg", 2, EPIPE, VIP_TIMEOUT}, VIP_NO_MATCH}), // it has asked again
	name_of);

// Some devices never let a queue pair out of ERR again, although the change to RESET succeeds.
TEST_F(FaultsConnect, AQueuePairThatCannotBeUsedAgainIsReplaced)
{
	fake_fail("ibv_modify_qp", 1, EINVAL);
	EXPECT_EQ(request(a, "nobody", 5000), VIP_NO_MATCH);
	fake_fail("ibv_modify_qp", 1, EINVAL);
	fake_fail("ibv_modify_qp", 2, EINVAL);
	EXPECT_EQ(request(a, "nobody", 5000), VIP_ERROR_RESOURCE);
	fake_fail("ibv_modify_qp", 1, EINVAL);
	fake_fail("ibv_create_qp", 1, ENOMEM);
	EXPECT_EQ(request(a, "nobody", 5000), VIP_ERROR_RESOURCE);
	expect_works();
}

// A queue pair of soft-RoCE would go on with the read that it was answering. A program may have as many VIs as the
// device has queue pairs.
TEST_F(FaultsConnect, AQueuePairThatWasConnectedIsUsedAgainOnlyWhereThereIsNoRoomForAnother)
{
	connect(a, b, "once");
	disconnect_pair();
	const uint64_t created = fake_calls("ibv_create_qp"), destroyed = fake_calls("ibv_destroy_qp");
	EXPECT_EQ(request(a, "nobody", 200), VIP_NO_MATCH);
	EXPECT_EQ(fake_calls("ibv_create_qp"), created + 1);
	connect(a, b, "again");
	EXPECT_EQ(fake_calls("ibv_create_qp"), created + 2) << "one that was not connected is";
	EXPECT_EQ(fake_calls("ibv_destroy_qp"), destroyed + 2);
	disconnect_pair();
	fake_fail_always("ibv_create_qp", ENOMEM);
	connect(a, b, "once more");
}

TEST_F(FaultsConnect, AnAcceptThatCannotPrepareItsViLeavesTheRequestPending)
{
	auto requested = request_async(a, "fault");

	ASSERT_EQ(wait("fault", PATIENCE), VIP_SUCCESS);
	fake_fail("ibv_modify_qp", 1, ENOMEM);
	fake_fail("ibv_create_qp", 1, ENOMEM);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_ERROR_RESOURCE);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECTED);
}

TEST_F(FaultsConnect, AWaitThatCannotListenIsErrorResource)
{
	for (const Fault fault : {Fault{"socket", 1, ENOMEM}, {"bind", 1, ENOMEM}, {"listen", 1, ENOMEM}, {"socket", 1, EMFILE},
				  {"bind", 1, EADDRNOTAVAIL}, {"bind", 1, EACCES}}) {
		fake_fail(fault.function, fault.nth, fault.error);
		EXPECT_EQ(fault.during([&] { return wait("fault", 5000); }), VIP_ERROR_RESOURCE) << fault;
	}
	fake_fail_always("bind", EADDRINUSE); // as if four processes waited there
	EXPECT_EQ(wait("fault", 1), VIP_TIMEOUT) << "they may only have waited lately";
	EXPECT_EQ(wait("fault", PATIENCE), VIP_ERROR_RESOURCE) << "for longer than the grace time";
	expect_works();
}

TEST_F(FaultsConnect, PortsInUseByOthersArePassedOver)
{
	for (int taken = 1; taken <= 3; taken++)
		fake_fail("bind", taken, EADDRINUSE);
	EXPECT_EQ(wait("fourth port", 0), VIP_TIMEOUT);
	connect(a, b, "fourth port");
}

TEST_F(FaultsConnect, ARejectionThatCannotBeSentStillEndsTheRequest)
{
	auto requested = request_until_answered();

	ASSERT_EQ(wait("fault", PATIENCE), VIP_SUCCESS);
	fake_fail("sendmsg", 1, EPIPE);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	answered = true;
	EXPECT_EQ(requested.get(), VIP_NO_MATCH) << "an end without a word";
	expect_works();
}

} // namespace
