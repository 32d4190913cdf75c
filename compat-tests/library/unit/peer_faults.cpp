// SPDX-License-Identifier: BSD-2-Clause
// Peer-to-peer connections when a call below fails. The end where it fails returns the documented
// code, and the other end goes on.
#include "faults.h"
#include "peer_requests.h"

namespace
{

TEST_F(PeerRequests, WhoCannotListenIsToldAtOnce)
{
	for (const char *function : {"rdma_create_id", "rdma_bind_addr", "rdma_listen"}) {
		fake_fail(function, 1, ENOMEM);
		EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE) << function;
		EXPECT_EQ(outcome_so_far(b), VIP_INVALID_STATE) << function;
	}
	fake_fail_always("rdma_bind_addr", EADDRINUSE); // as if four processes waited there
	EXPECT_EQ(ask(b, "b", "a"), VIP_ERROR_RESOURCE);
	expect_works();
}

TEST_F(PeerRequests, AQueuePairThatCannotBeUsedIsToldAtOnce)
{
	for (Vi *vi : {&a, &b}) {
		fake_fail("ibv_modify_qp", 1, ENOMEM);
		fake_fail("ibv_create_qp", 1, ENOMEM);
		EXPECT_EQ(ask(*vi, vi == &a ? "a" : "b", vi == &a ? "b" : "a"), VIP_ERROR_RESOURCE);
		EXPECT_EQ(fake_live().ids, 0) << "it still listens";
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
			Fault{"rdma_create_id", 7, EMFILE, VIP_ERROR_RESOURCE},
			Fault{"rdma_resolve_addr", 1, ENETUNREACH, VIP_NOT_REACHABLE},
			Fault{"rdma_resolve_addr", 2, EHOSTUNREACH, VIP_NOT_REACHABLE},
			Fault{"rdma_resolve_addr", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"rdma_resolve_route", 1, ENETUNREACH, VIP_NOT_REACHABLE},
			Fault{"rdma_resolve_route", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"rdma_connect", 1, ENOMEM, VIP_ERROR_RESOURCE},
			Fault{"rdma_connect", 6, ENOMEM, VIP_ERROR_RESOURCE}),
	name_of);

// The transitions after b's request: INIT of a; RTR, RTS of b; RTR, RTS of a.
using ListenerFails = Failing<PeerRequests>;

TEST_P(ListenerFails, WithTheDocumentedCodeAndTheOtherOneIsTold)
{
	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fail();
	ASSERT_EQ(ask(a, "a", "b", 600), VIP_SUCCESS);
	EXPECT_EQ(outcome(b), GetParam().wanted);
	VIP_RETURN other = outcome(a);
	EXPECT_TRUE(other == VIP_REJECT || other == VIP_TIMEOUT) << testing::PrintToString(other);
	expect_works();
}

INSTANTIATE_TEST_SUITE_P(PeerRequests, ListenerFails,
			 testing::Values(Fault{"rdma_accept", 1, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 1, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 2, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 3, ENOMEM, VIP_ERROR_RESOURCE},
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
			 testing::Values(Fault{"rdma_establish", 1, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 4, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 5, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"rdma_init_qp_attr", 6, ENOMEM, VIP_ERROR_RESOURCE},
					 Fault{"ibv_modify_qp", 4, ENOMEM, VIP_ERROR_RESOURCE},
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
			 testing::Values(Fault{"rdma_accept", 1, EINVAL, VIP_SUCCESS},
					 Fault{"rdma_init_qp_attr", 1, EINVAL, VIP_SUCCESS},
					 Fault{"rdma_init_qp_attr", 2, EINVAL, VIP_SUCCESS},
					 Fault{"rdma_init_qp_attr", 4, EINVAL, VIP_SUCCESS},
					 Fault{"rdma_init_qp_attr", 5, EINVAL, VIP_SUCCESS},
					 Fault{"rdma_establish", 1, EINVAL, VIP_SUCCESS}),
			 name_of);

TEST_F(PeerRequests, WhoCannotGoOnIsErrorResource)
{
	wire_message message = good_request("b", "a", WIRE_PEER_REQUEST);

	ASSERT_EQ(ask(b, "b", "a"), VIP_SUCCESS);
	fake_fail("rdma_accept", 1, EINVAL);
	fake_fail("ibv_modify_qp", 6, ENOMEM); // after RTR, RTS, ERR, ERR again to drain, and RESET
	fake_fail("ibv_create_qp", 1, ENOMEM);
	Stranger s("b", &message, sizeof(message));
	EXPECT_EQ(outcome(b), VIP_ERROR_RESOURCE);
	s.give_up();
	expect_works();
}

} // namespace
