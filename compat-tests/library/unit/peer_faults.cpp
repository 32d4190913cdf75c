// SPDX-License-Identifier: BSD-2-Clause
// Peer-to-peer connections when a call below fails. The end where it fails returns the documented
// code, and the other end goes on.
#include "faults.h"
#include "peer_requests.h"

namespace
{

TEST_F(PeerRequests, WhoCannotListenIsToldAtOnce)
{
	for (const char *function : {"socket", "bind", "listen"}) {
		fake_fail(function, 1, ENOMEM);
		EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE) << function;
		EXPECT_EQ(outcome_so_far(b), VIP_INVALID_STATE) << function;
	}
	fake_fail_always("bind", EADDRINUSE); // as if four processes waited there
	EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE);
	expect_works();
}

TEST_F(PeerRequests, AQueuePairThatCannotBeUsedIsToldAtOnce)
{
	for (Vi *vi : {&a, &b}) {
		fake_fail("ibv_modify_qp", 1, ENOMEM);
		fake_fail("ibv_create_qp", 1, ENOMEM);
		EXPECT_EQ(ask(*vi, vi == &a ? "a" : "b", vi == &a ? "b" : "a"), VIP_ERROR_RESOURCE);
	}
	expect_works();
}

using LookFails = Failing<PeerRequests>;

TEST_P(LookFails, WithTheDocumentedCode)
{
	fail();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS) << "the agent looks, not the caller";
	EXPECT_EQ(outcome(a), GetParam().wanted);
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(
	PeerRequests, LookFails,
	testing::Values(Fault{"rdma_create_id", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"rdma_resolve_addr", 1, ENETUNREACH, VIP_NOT_REACHABLE},
			Fault{"rdma_resolve_addr", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"rdma_resolve_route", 1, ENETUNREACH, VIP_NOT_REACHABLE},
			Fault{"rdma_resolve_route", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"ibv_query_gid_ex", 1, EIO, VIP_ERROR_RESOURCE},
			Fault{"ibv_query_pkey", 1, EIO, VIP_NOT_REACHABLE},
			Fault{"socket", 1, EMFILE, VIP_ERROR_RESOURCE},
			Fault{"socket", 7, EMFILE, VIP_ERROR_RESOURCE},
			Fault{"bind", 1, EADDRNOTAVAIL, VIP_NOT_REACHABLE},
			Fault{"connect", 1, ENETUNREACH, VIP_NOT_REACHABLE},
			Fault{"connect", 6, EADDRNOTAVAIL, VIP_ERROR_RESOURCE}),
	name_of);

// The transitions after b's request: INIT of a; RTR, RTS of b; RTR, RTS of a. The messages: HERE, REQUEST, ACCEPT, CONFIRM.
using ListenerFails = Failing<PeerRequests>;

TEST_P(ListenerFails, WithTheDocumentedCodeAndTheOtherOneIsTold)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fail();
	ASSERT_EQ(ask(a, "a", "b", 600), VIP_SUCCESS);
	EXPECT_EQ(outcome(b), GetParam().wanted);
	EXPECT_EQ(outcome(a), VIP_REJECT);
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(PeerRequests, ListenerFails,
			 testing::Values(Fault{"ibv_query_gid_ex", 3, EIO, VIP_ERROR_RESOURCE},
					 Fault{"ibv_modify_qp", 2, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"ibv_modify_qp", 3, ENOMEM, VIP_ERROR_RESOURCE}),
			 name_of);

using AskerFails = Failing<PeerRequests>;

TEST_P(AskerFails, WithTheDocumentedCodeAndTheOtherOneGoesOn)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fail();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	EXPECT_EQ(outcome(a), GetParam().wanted);
	EXPECT_EQ(outcome_so_far(b), VIP_NOT_DONE);
	EXPECT_EQ(state_of(b), VIP_STATE_CONNECT_PENDING);
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

INSTANTIATE_TEST_SUITE_P(PeerRequests, AskerFails,
			 testing::Values(Fault{"ibv_modify_qp", 4, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"ibv_modify_qp", 5, ENOMEM, VIP_ERROR_RESOURCE}),
			 name_of);

// Such an error says that the other end has gone again. It may come back.
using VanishesAmidConnecting = Failing<PeerRequests>;

TEST_P(VanishesAmidConnecting, AndBothGoOnUntilTheyMeet)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fail();
	ASSERT_EQ(ask(a, "a", "b"), VIP_SUCCESS);
	expect_connected();
}

INSTANTIATE_TEST_SUITE_P(PeerRequests, VanishesAmidConnecting,
			 testing::Values(Fault{"accept4", 1, ECONNABORTED, VIP_SUCCESS},
					 Fault{"accept4", 1, EMFILE, VIP_SUCCESS},
					 Fault{"sendmsg", 1, EPIPE, VIP_SUCCESS},
					 Fault{"sendmsg", 2, EPIPE, VIP_SUCCESS},
					 Fault{"sendmsg", 3, EPIPE, VIP_SUCCESS},
					 Fault{"sendmsg", 4, EPIPE, VIP_SUCCESS},
					 Fault{"recvmsg", 1, ECONNRESET, VIP_SUCCESS},
					 Fault{"recvmsg", 2, ECONNRESET, VIP_SUCCESS},
					 Fault{"ibv_modify_qp", 2, ETIMEDOUT, VIP_SUCCESS}),
			 name_of);

TEST_F(PeerRequests, WhoCannotGoOnIsErrorResource)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fake_fail("sendmsg", 2, EPIPE);	       // ACCEPT behind HERE
	fake_fail("ibv_modify_qp", 5, ENOMEM); // after RTR, RTS, ERR, ERR again to drain: INIT
	fake_fail("ibv_create_qp", 1, ENOMEM);
	Line talker("b");
	ASSERT_TRUE(talker.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	expect_works();
}

} // namespace
