// SPDX-License-Identifier: BSD-2-Clause
// RDMA reads on devices that differ: requests, waits, refusals, and the errors at each end.
#include "peer_requests.h"

#include <cstring>

namespace
{

const VIP_UINT32 READ = VIP_STATUS_OP_RDMA_READ, REFUSED = VIP_STATUS_RDMA_PROT_ERROR;

class RdmaRead : public NicTest
{
      protected:
	void start(const std::function<void(fake_device &)> &change = [](fake_device &) {})
	{
		open_with(change);
		allow_reads();
		make_pair();
	}
	VIP_DESCRIPTOR *read(size_t number, size_t from, size_t to, size_t bytes)
	{
		return read_descriptor(number, memory.data(from), {memory.data(to), bytes});
	}
	void expect_read()
	{
		VIP_DESCRIPTOR *d = read(0, 1000, 5000, 700);
		memset(memory.data(1000), 'r', 700);
		memset(memory.data(5000), 0, 701);
		expect_send(a, d, READ);
		EXPECT_EQ(memcmp(memory.data(1000), memory.data(5000), 700), 0);
		EXPECT_EQ(*memory.data(5700), 0);
	}
};

TEST_F(RdmaRead, AsManyAreUnderWayAsTheDeviceCan)
{
	for (int most : {1, 4, 128}) {
		start([=](fake_device &d) { d.max_rd_atomic = most; });
		for (const Vi &vi : {a, b}) {
			EXPECT_EQ(qp_attributes(vi).max_rd_atomic, std::min(most, 16));
			EXPECT_EQ(qp_attributes(vi).max_dest_rd_atomic, std::min(most, 16));
		}
		expect_read();
		start_over();
	}
}

// The device gets a fence. The send has no inline data, which would be fetched before the read is
// done.
TEST_F(RdmaRead, AFencedSendIsFencedAndNotInline)
{
	start();
	for (bool is_write : {false, true}) {
		VIP_DESCRIPTOR *r = is_write ? nullptr : posted_receive(b, 1, {{memory.data(9000), 8}});
		VIP_DESCRIPTOR *d = read(2, 1000, 5000, 8);
		VIP_DESCRIPTOR *s = is_write ? write_descriptor(3, memory.data(9000), {memory.data(5000), 8})
					     : descriptor(3, {{memory.data(5000), 8}});
		s->CS.Control |= VIP_CONTROL_QFENCE;
		memset(memory.data(1000), 'f', 8);
		memset(memory.data(5000), 0, 8);
		memset(memory.data(9000), 0, 8);
		by_hand(true);
		post_sends(a, {d, s});
		EXPECT_FALSE(fake_posted_flags(a.qp, 0) & IBV_SEND_FENCE);
		EXPECT_TRUE(fake_posted_flags(a.qp, 1) & IBV_SEND_FENCE);
		EXPECT_EQ(fake_progress(2), 2);
		by_hand(false);
		expect_sent(a, d, READ);
		expect_sent(a, s, is_write ? VIP_STATUS_OP_RDMA_WRITE : 0);
		if (!is_write)
			expect_received(b, r);
		EXPECT_EQ(memcmp(memory.data(1000), memory.data(9000), 8), 0);
	}
}

// An Unreliable VI has no reads, so a fence has nothing to wait for, and the device gets none.
TEST_F(RdmaRead, AFenceOnAnUnreliableViIsNone)
{
	vi_kind.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
	open();
	make_pair();
	by_hand(true);
	VIP_DESCRIPTOR *s = posted_send(a, 0, {{memory.data(), 8}}, VIP_CONTROL_QFENCE);
	EXPECT_FALSE(fake_posted_flags(a.qp, 0) & IBV_SEND_FENCE);
	EXPECT_EQ(fake_progress(1), 1);
	expect_sent(a, s);
}

TEST_F(RdmaRead, DevicesWithoutReadsRefuseAllOfIt)
{
	VIP_MEM_ATTRIBUTES rights{};
	VIP_MEM_HANDLE handle;
	VIP_VI_HANDLE vi;

	open_with([](fake_device &d) { d.max_rd_atomic = 0; });
	const VIP_NIC_ATTRIBUTES limits = nic_attributes();
	EXPECT_EQ(limits.RDMAReadSupport, 0);
	EXPECT_EQ(limits.ReliabilityLevelSupport, VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY)
		<< "the mark of Reliable Reception is answered, too";
	rights.EnableRdmaRead = VIP_TRUE;
	EXPECT_EQ(VipRegisterMem(nic, memory.base, 64, &rights, &handle), VIP_INVALID_RDMAREAD);
	vi_kind.EnableRdmaRead = VIP_TRUE;
	EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_INVALID_RDMAREAD);
	vi_kind.EnableRdmaRead = VIP_FALSE;
	make_pair();
	expect_traffic(a, b);
	expect_send(a, read(0, 0, 100, 8), VIP_STATUS_FORMAT_ERROR | READ);
}

// One of its hosts can answer no read.
class HostWithoutReads : public TwoHosts
{
      protected:
	void give_addresses(fake_device &own, fake_device &other) override
	{
		TwoHosts::give_addresses(own, other);
		other.max_rd_atomic = 0;
	}
};

// The library reports that, and no call waits for ever.
TEST_F(HostWithoutReads, RefusesThem)
{
	ASSERT_EQ(ask(a, "a", "b", PATIENCE, "10.9.9.2"), VIP_SUCCESS);
	ASSERT_EQ(ask(b, "b", "a", PATIENCE, "10.9.9.1"), VIP_SUCCESS);
	ASSERT_EQ(outcome(a), VIP_SUCCESS);
	expect_send(a, read_descriptor(0, memory.data(), {memory.data(100), 8}), REFUSED | READ);
	expect_state(a, VIP_STATE_ERROR);
	expect_state(b, VIP_STATE_ERROR);
}

struct Refusal : Named {
	bool write, read;
	VIP_ERROR_CODE code;
	VIP_ULONG operation = 0;
};

using RefusedRead = Each<RdmaRead, Refusal>;

// The device reports that it has refused an access, but not which kind of access.
TEST_P(RefusedRead, TellsTheTargetWhatIsKnown)
{
	options([](fake_options &o) { o = fake_options_mlx5(); });
	open();
	allow_reads();
	vi_kind.EnableRdmaWrite = GetParam().write;
	vi_kind.EnableRdmaRead = GetParam().read;
	make_pair();
	VIP_DESCRIPTOR *d = read(0, 0, 100, 8);
	d->DS[0].Remote.Handle = 0xDEADBEEF;
	expect_send(a, d, REFUSED | READ);
	expect_state(a, VIP_STATE_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_TRUE(errors.reach(GetParam().code, b));
	if (GetParam().operation) {
		errors.expect_first(GetParam().code, VIP_RESOURCE_VI, nic, b, GetParam().operation);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, b), 0);
	}
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a));
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, a), 1);
}

INSTANTIATE_TEST_SUITE_P(Rights, RefusedRead,
			 testing::Values(Refusal{"Read", false, true, VIP_ERROR_RDMAR_PROT, VIP_STATUS_OP_RDMA_READ},
					 Refusal{"Both", true, true, VIP_ERROR_CONN_LOST},
					 Refusal{"Write", true, false, VIP_ERROR_RDMAW_PROT,
						 VIP_STATUS_OP_REMOTE_RDMA_WRITE}),
			 ByName());

} // namespace
