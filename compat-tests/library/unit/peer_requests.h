/* SPDX-License-Identifier: BSD-2-Clause */
// The base class of the tests of peer-to-peer connections. Of "a" and "b", a has the lesser name
// and makes the request, and b listens.
#pragma once

#include "stranger.h"
#include "two_vis.h"

constexpr char OWN[] = "10.9.9.1";

class PeerRequests : public TwoVis
{
      protected:
	VIP_RETURN ask(const Vi &vi, const std::string &own, const std::string &other,
		       VIP_ULONG timeout = PATIENCE, const char *ip = OWN)
	{
		Address local("0.0.0.0", own), remote(ip, other);

		return VipConnectPeerRequest(vi, local.get(), remote.get(), timeout);
	}
	void ask_both(VIP_ULONG timeout = PATIENCE)
	{
		ASSERT_EQ(ask(b, "b", "a", timeout), VIP_SUCCESS);
		ASSERT_EQ(ask(a, "a", "b", timeout), VIP_SUCCESS);
	}
	VIP_RETURN outcome(const Vi &vi)
	{
		VIP_VI_ATTRIBUTES attributes;

		return VipConnectPeerWait(vi, &attributes);
	}
	VIP_RETURN outcome_so_far(const Vi &vi)
	{
		VIP_VI_ATTRIBUTES attributes;

		return VipConnectPeerDone(vi, &attributes);
	}
	void expect_connected()
	{
		EXPECT_EQ(outcome(a), VIP_SUCCESS);
		EXPECT_EQ(outcome(b), VIP_SUCCESS);
		ASSERT_EQ(state_of(a), VIP_STATE_CONNECTED);
		ASSERT_EQ(state_of(b), VIP_STATE_CONNECTED);
		expect_messages();
	}
	// Checks that the VIs are IDLE, and that they connect and work.
	void expect_works()
	{
		fake_forget_faults();
		expect_state(a, VIP_STATE_IDLE);
		expect_state(b, VIP_STATE_IDLE);
		EXPECT_EQ(fake_live().ids, 0) << "something still listens or asks";
		ask_both();
		expect_connected();
	}
	// a makes a request to a silent host. Only the test can answer it.
	void ask_silence(VIP_ULONG timeout = PATIENCE)
	{
		fake_address("10.9.9.50", FAKE_REACH_SILENT, 1000000);
		ASSERT_EQ(ask(a, "a", "b", timeout, "10.9.9.50"), VIP_SUCCESS);
		next_look(0);
	}
	// Waits until there have been more than `before` requests to connect.
	void next_look(uint64_t before)
	{
		EXPECT_TRUE(eventually([&] { return fake_calls("rdma_connect") > before; }));
	}
	rdma_cm_id *id_of(const Vi &vi)
	{
		rdma_cm_id *found = nullptr;
		EXPECT_TRUE(eventually([&] { return (found = fake_id_of_qp(vi.qp)) != nullptr; }));
		return found;
	}
};

// a is on one host, b on the other one.
class TwoHosts : public PeerRequests
{
      protected:
	void SetUp() override
	{
		fake_device devices[2];

		NicTest::SetUp();
		for (fake_device &device : devices)
			fake_device_default(&device);
		devices[1].name = "fake1";
		give_addresses(devices[0], devices[1]);
		fake_set_devices(2, devices);
		options([](fake_options &to) { to.sockets = true; });
		open();
		a = make_vi();
		ASSERT_EQ(VipOpenNic("nic1", &other_nic), VIP_SUCCESS);
		VIP_VI_ATTRIBUTES attributes = vi_attributes();
		ASSERT_EQ(VipCreateVi(other_nic, &attributes, nullptr, nullptr, &b.handle),
			  VIP_SUCCESS);
		b.qp = newest_qp();
	}
	void TearDown() override
	{
		if (other_nic) {
			EXPECT_EQ(VipCloseNic(other_nic), VIP_SUCCESS);
		}
		NicTest::TearDown();
	}
	// The first device has 10.9.9.1.
	virtual void give_addresses(fake_device &, fake_device &other)
	{
		other.addresses[0] = "10.9.9.2";
	}
	VIP_NIC_HANDLE other_nic = nullptr;
};
