// SPDX-License-Identifier: BSD-2-Clause
// Completions with an error: the right bit of VIA's status, all other descriptors flushed in order,
// the VI and its peer in ERROR, and one report for each.
#include "support.h"

namespace
{

class Statuses : public PairTest
{
      protected:
	// `told` is the error that the handler gets about the VI whose descriptor has failed.
	void expect_broken(const std::vector<VIP_DESCRIPTOR *> &receives_of_peer, const Vi &vi, const Vi &peer,
			   VIP_ERROR_CODE told = VIP_ERROR_CONN_LOST)
	{
		expect_state(vi, VIP_STATE_ERROR);
		expect_state(peer, VIP_STATE_ERROR);
		for (VIP_DESCRIPTOR *d : receives_of_peer)
			expect_received(peer, d, VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_TRUE(errors.reach(told, vi));
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, peer));
		for (const Vi &each : {vi, peer}) {
			EXPECT_EQ(VipDisconnect(each), VIP_SUCCESS);
			EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, each) +
					  errors.count(VIP_ERROR_RDMA_TRANSPORT, each),
				  1);
			EXPECT_EQ(send_done(each), Taken{VIP_DESCRIPTOR_ERROR});
			EXPECT_EQ(recv_done(each), Taken{VIP_DESCRIPTOR_ERROR});
		}
	}
};

struct Case {
	ibv_wc_status status;
	VIP_UINT32 send, write, receive;
};

void PrintTo(const Case &each, std::ostream *out)
{
	*out << ibv_wc_status_str(each.status);
}

const VIP_UINT32 LENGTH = VIP_STATUS_LENGTH_ERROR, PROTECTION = VIP_STATUS_PROTECTION_ERROR,
		 FLUSHED = VIP_STATUS_DESC_FLUSHED_ERROR, TRANSPORT = VIP_STATUS_TRANSPORT_ERROR,
		 RDMA = VIP_STATUS_RDMA_PROT_ERROR, REMOTE = VIP_STATUS_REMOTE_DESC_ERROR;

// All others are transport errors.
const Case listed[] = {
	{IBV_WC_LOC_LEN_ERR, LENGTH, LENGTH, LENGTH},
	{IBV_WC_LOC_QP_OP_ERR, TRANSPORT, TRANSPORT, LENGTH}, // the memory is registered
	{IBV_WC_LOC_PROT_ERR, PROTECTION, PROTECTION, PROTECTION},
	{IBV_WC_WR_FLUSH_ERR, FLUSHED, FLUSHED, FLUSHED},
	{IBV_WC_LOC_ACCESS_ERR, PROTECTION, PROTECTION, PROTECTION},
	{IBV_WC_REM_INV_REQ_ERR, REMOTE, RDMA, REMOTE},
	{IBV_WC_REM_ACCESS_ERR, RDMA, RDMA, RDMA},
	{IBV_WC_REM_OP_ERR, REMOTE, RDMA, REMOTE},
	{IBV_WC_RNR_RETRY_EXC_ERR, REMOTE, REMOTE, REMOTE},
};

std::vector<Case> all_cases()
{
	std::vector<Case> all;

	for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++) {
		all.push_back({static_cast<ibv_wc_status>(status), TRANSPORT, TRANSPORT, TRANSPORT});
		for (const Case &each : listed)
			if (each.status == status)
				all.back() = each;
	}
	return all;
}

class EachStatus : public Statuses, public testing::WithParamInterface<Case>
{
      protected:
	void fail_first_send(bool write, VIP_UINT32 bit)
	{
		VIP_DESCRIPTOR *sends[3], *own[2], *theirs[2];
		VIP_UINT32 op = write ? VIP_STATUS_OP_RDMA_WRITE : VIP_STATUS_OP_SEND;

		by_hand(true);
		for (size_t i = 0; i < 2; i++) {
			own[i] = posted_receive(a, i, {{memory.data(), 8}});
			theirs[i] = posted_receive(b, 10 + i, {{memory.data(100), 8}});
		}
		for (size_t i = 0; i < 3; i++) {
			sends[i] = write ? write_descriptor(20 + i, memory.data(500), {memory.data(), 8})
					 : descriptor(20 + i, {{memory.data(), 8}});
			ASSERT_EQ(post_send(a, sends[i]), VIP_SUCCESS);
		}
		fake_complete_next(a.qp, FAKE_SEND, GetParam().status);
		EXPECT_EQ(fake_progress(1), 1);
		expect_sent(a, sends[0], bit | op);
		expect_sent(a, sends[1], FLUSHED | op);
		expect_sent(a, sends[2], FLUSHED | op);
		EXPECT_EQ(state_of(a), VIP_STATE_ERROR) << "who is told finds the VI in ERROR";
		expect_received(a, own[0], FLUSHED);
		expect_received(a, own[1], FLUSHED);
		bool transport = write && bit == TRANSPORT;
		if (transport)
			errors.expect_first(VIP_ERROR_RDMA_TRANSPORT, VIP_RESOURCE_VI, nic, a,
					    VIP_STATUS_OP_RDMA_WRITE);
		expect_broken({theirs[0], theirs[1]}, a, b, transport ? VIP_ERROR_RDMA_TRANSPORT : VIP_ERROR_CONN_LOST);
	}
};

TEST_P(EachStatus, OfASendBreaksTheConnection)
{
	fail_first_send(false, GetParam().send);
}

TEST_P(EachStatus, OfAnRdmaWriteBreaksTheConnection)
{
	fail_first_send(true, GetParam().write);
}

TEST_P(EachStatus, OfAReceiveBreaksTheConnection)
{
	VIP_DESCRIPTOR *theirs = posted_receive(a, 10, {});

	for (size_t i = 0; i < 3; i++)
		posted_receive(b, i, {{memory.data(100), 8}});
	fake_complete_next(b.qp, FAKE_RECV, GetParam().status);
	VIP_DESCRIPTOR *send = posted_send(a, 11, {{memory.data(), 8}});
	for (size_t i = 0; i < 3; i++)
		expect_received(b, at(i), i ? FLUSHED : GetParam().receive);
	expect_sent(a, send, REMOTE);
	expect_broken({theirs}, b, a);
}

INSTANTIATE_TEST_SUITE_P(Statuses, EachStatus, testing::ValuesIn(all_cases()),
			 [](const auto &each) { return "Number" + std::to_string(each.param.status); });

// A program may query only the state. It learns of a failed send then, and so does its peer.
TEST_F(Statuses, BreakTheConnectionAlsoWhenTheProgramAsksForTheStateOnly)
{
	posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }, 2000));
	EXPECT_TRUE(eventually([&] { return errors.count(VIP_ERROR_CONN_LOST, a) == 1; }, 2000));
	EXPECT_TRUE(eventually([&] { return errors.count(VIP_ERROR_CONN_LOST, b) == 1; }, 2000));
}

struct Kind : Named {
	unsigned control; // of the send; VIP_CONTROL_OP_MASK: it is of the receive
	VIP_UINT32 operation;
};

using Deregistered = Each<Statuses, Kind>;

// Soft-RoCE reports memory that is gone as an error of the queue pair. So does it an address that is gone.
TEST_P(Deregistered, MemoryOfPostedWorkIsAProtectionError)
{
	const bool is_receive = GetParam().control == VIP_CONTROL_OP_MASK;
	Memory gone;
	VIP_DESCRIPTOR *d;

	by_hand(true);
	ASSERT_EQ(gone.add(nic), VIP_SUCCESS);
	d = GetParam().control == VIP_CONTROL_OP_RDMAWRITE ? write_descriptor(0, memory.data(500), {gone.data(), 8})
							   : descriptor(0, {{memory.data(), 4}, {gone.data(), 8}});
	d->DS[1].Local.Handle = gone.handle;
	ASSERT_EQ(is_receive ? post_recv(b, d) : post_send(a, d), VIP_SUCCESS);
	ASSERT_EQ(VipDeregisterMem(nic, gone.base, gone.handle), VIP_SUCCESS);
	gone.handle = 0;
	fake_complete_next(is_receive ? b.qp : a.qp, is_receive ? FAKE_RECV : FAKE_SEND, IBV_WC_LOC_QP_OP_ERR);
	if (is_receive)
		posted_send(a, 1, {{memory.data(100), 8}});
	EXPECT_EQ(fake_progress(1), 1);
	if (is_receive)
		expect_received(b, d, PROTECTION);
	else
		expect_sent(a, d, PROTECTION | GetParam().operation);
}

INSTANTIATE_TEST_SUITE_P(Statuses, Deregistered,
			 testing::Values(Kind{{"Send"}, VIP_CONTROL_OP_SENDRECV, VIP_STATUS_OP_SEND},
					 Kind{{"RdmaWrite"}, VIP_CONTROL_OP_RDMAWRITE, VIP_STATUS_OP_RDMA_WRITE},
					 Kind{{"Receive"}, VIP_CONTROL_OP_MASK, VIP_STATUS_OP_RECEIVE}),
			 ByName());

// The address from which the connection comes is taken away, by an administrator or a DHCP server.
TEST_F(Statuses, ASendFromAnAddressThatIsGoneIsATransportError)
{
	fake_move_address(nullptr, 1);
	expect_sent(a, posted_send(a, 0, {{memory.data(), 8}}), TRANSPORT);
	expect_broken({}, a, b);
}

} // namespace
