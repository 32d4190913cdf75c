/* SPDX-License-Identifier: BSD-2-Clause */
// The base class of the tests of peer-to-peer connections. Of "a" and "b", a has the lesser name
// and makes the request, and b listens.
#pragma once

#include "line.h"
#include "two_vis.h"

constexpr char OWN[] = "10.9.9.1";
constexpr VIP_RETURN GOES_ON = VIP_NOT_DONE;

class PeerRequests : public TwoVis
{
      protected:
	VIP_RETURN ask(const Vi &vi, const std::string &own, const std::string &other, VIP_ULONG timeout = PATIENCE,
		       const char *ip = OWN)
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
	// b asks, and accepts one that is not of this library.
	Line accepted(VIP_ULONG timeout = PATIENCE)
	{
		EXPECT_EQ(ask(b, "b", "a", timeout), VIP_SUCCESS);
		Line other("b");
		EXPECT_TRUE(other.say(good_message(MESSAGE_PEER_REQUEST, "b", "a")));
		EXPECT_EQ(other.next(), MESSAGE_ACCEPT);
		return other;
	}
	void expect_connected()
	{
		EXPECT_EQ(outcome(a), VIP_SUCCESS);
		EXPECT_EQ(outcome(b), VIP_SUCCESS);
		expect_messages();
	}
	// Checks that the VIs are IDLE, and that they connect and work.
	void expect_works()
	{
		fake_forget_faults();
		expect_state(a, VIP_STATE_IDLE);
		expect_state(b, VIP_STATE_IDLE);
		EXPECT_TRUE(eventually([] { return !is_listened_for("b"); })) << "b still listens";
		ask_both();
		expect_connected();
	}
	// Ends a request in the midst. Its receive is posted again.
	void break_off(const Vi &vi)
	{
		VIP_DESCRIPTOR *receive = vi.handle == a.handle ? d : e;

		EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
		EXPECT_EQ(outcome_so_far(vi), VIP_INVALID_STATE);
		EXPECT_EQ(state_of(vi), VIP_STATE_IDLE);
		expect_received(vi, receive, VIP_STATUS_DESC_FLUSHED_ERROR);
		ASSERT_EQ(post_recv(vi, receive), VIP_SUCCESS);
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
		devices[1].name = "fake1";
		give_addresses(devices[0], devices[1]);
		fake_set_devices(2, devices);
		open();
		a = make_vi();
		ASSERT_EQ(VipOpenNic("nic1", &other_nic), VIP_SUCCESS);
		ASSERT_EQ(VipCreateVi(other_nic, &vi_kind, nullptr, nullptr, &b.handle), VIP_SUCCESS);
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
