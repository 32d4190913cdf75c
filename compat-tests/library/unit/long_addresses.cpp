// SPDX-License-Identifier: BSD-2-Clause
// Host addresses of 16 bytes: the addresses that programs see, those that an RDMA device has, and
// connections by IPv4 and by IPv6.
#include "peer_requests.h"

#include <arpa/inet.h>
#include <cstdlib>

namespace
{

// This is set before the library reads it.
const int asked_for = setenv("VIPL_ADDRESS_BYTES", "16", 1);

constexpr size_t HEADER = offsetof(VIP_NET_ADDRESS, HostAddress);

std::string text_of(const unsigned char *host)
{
	char text[INET6_ADDRSTRLEN];

	return inet_ntop(AF_INET6, host, text, sizeof(text));
}

void set_addresses(fake_device &device, const std::vector<const char *> &addresses)
{
	for (size_t i = 0; i < FAKE_MAX_ADDRESSES; i++)
		device.addresses[i] = i < addresses.size() ? addresses[i] : nullptr;
}

class LongAddresses : public NicTest
{
      protected:
	// Opens a NIC on a device with these addresses. Returns the NIC's address.
	std::string open_at(const std::vector<const char *> &addresses)
	{
		open_with([&](fake_device &device) { set_addresses(device, addresses); });
		return own_address();
	}
	std::string own_address() const
	{
		const VIP_NIC_ATTRIBUTES attributes = nic_attributes();

		EXPECT_EQ(attributes.NicAddressLen, 16);
		return text_of(attributes.LocalNicAddress);
	}
	// b waits, and a makes a request to this address. Returns the address of a that VipConnectWait gives to b.
	std::string meet(const char *ip)
	{
		a = make_vi();
		b = make_vi();
		std::future<VIP_RETURN> requested = request_async(a, "door", ip);
		Address local("::", "door"), remote;
		VIP_VI_ATTRIBUTES attributes;

		memset(remote.bytes, 0xEE, sizeof(remote.bytes));
		EXPECT_EQ(VipConnectWait(nic, local.get(), PATIENCE, remote.get(), &attributes, &conn), VIP_SUCCESS);
		EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
		EXPECT_EQ(requested.get(), VIP_SUCCESS);
		EXPECT_EQ(remote.get()->HostAddressLen, 16);
		EXPECT_EQ(remote.get()->DiscriminatorLen, 2);
		EXPECT_EQ(memcmp(remote.bytes + HEADER + 16, "me", 2), 0);
		EXPECT_EQ(remote.bytes[HEADER + 16 + 2], 0xEE) << "no byte more";
		return text_of(remote.bytes + HEADER);
	}
};

TEST(LongAddress, IsOfSomebodyInBothLengths)
{
	in6_addr out;

	for (const char *nobody : {"::", "::ffff:0.0.0.0"})
		EXPECT_FALSE(address_host(Address(nobody, "d").get(), &out));
	Address odd("10.1.2.3", "d");
	odd.bytes[HEADER + 5] = 1;
	EXPECT_FALSE(address_host(odd.get(), &out));
}

TEST_F(LongAddresses, OfTheNicAreTheBestThatTheDeviceHas)
{
	const std::pair<std::string, std::vector<const char *>> cases[] = {
		{"fd00::1", {"10.9.9.1", "fd00::1"}},
		{"::ffff:10.9.9.1", {"10.9.9.1", "10.9.9.2"}},
		{"fe80::1", {"10.9.9.1", "fe80::1"}}, // link-local where nothing else is IPv6
		{"fd00::1", {"fd00::1", "fe80::1"}},
		{"fd00::1", {"fe80::1", "fd00::1"}},
		{"fd00::1", {"fd00::3", "fd00::2", "fd00::1", "fe80::1"}}, // the oldest: the kernel lists the newest first
	};

	for (const auto &[own, addresses] : cases) {
		EXPECT_EQ(open_at(addresses), own);
		close();
	}
}

TEST_F(LongAddresses, ThatCannotBeBoundToAreNotTheNics)
{
	fake_fail("rdma_bind_addr", 2, EADDRNOTAVAIL);
	EXPECT_EQ(open_at({"10.9.9.1", "fd00::1"}), "::ffff:10.9.9.1");
}

TEST_F(LongAddresses, OfAVlanThatHasComeLaterAreNotTheNics)
{
	open_with([&](fake_device &device) {
		set_addresses(device, {"10.9.9.1", "fd00::2", "fd00::1", "fe80::1"});
		device.vlan[0] = "10.9.8.1";
		device.vlan[1] = "fd00:100::1";
	});
	EXPECT_EQ(own_address(), "fd00::1");
	a = make_vi();
	EXPECT_EQ(request(a, "nobody", PATIENCE, "10.9.9.1"), VIP_NO_MATCH);
}

TEST_F(LongAddresses, AreOfTheInterfaceThatIsAskedFor)
{
	const std::pair<const char *, const char *> cases[] = {
		{"eth0.100", "fd00:100::1"},
		{"fake0@fd00:100::1", "fd00:100::1"},
		{"fake0@10.9.8.1", "fd00:100::1"}, // of the same interface
		{"eth0", "fd00::1"},
		{"fake0@fd00:0:0::2", "fd00::2"},
		{"eth0@10.9.9.2", "fd00::1"},
	};

	for (const auto &[name, own] : cases) {
		const auto change = [](fake_device &device) {
			set_addresses(device, {"10.9.9.1", "10.9.9.2", "fd00::2", "fd00::1", "fe80::1"});
			device.vlan[0] = "10.9.8.1";
			device.vlan[1] = "fd00:100::1";
		};

		open_with(change, name);
		EXPECT_EQ(own_address(), own) << name;
		close();
	}
}

TEST_F(LongAddresses, OfAnotherDeviceAreNotTheNics)
{
	fake_device devices[2];

	devices[1].name = "fake1";
	set_addresses(devices[0], {"10.9.9.1"});
	set_addresses(devices[1], {"fd00::2", "10.9.9.2"});
	fake_set_devices(2, devices);
	open();
	EXPECT_EQ(own_address(), "::ffff:10.9.9.1");
}

TEST_F(LongAddresses, OfRequestersAreOfTheFamilyTheyAskBy)
{
	open_at({"10.9.9.1", "fd00::1"});
	for (const char *ip : {"fd00::1", "::ffff:10.9.9.1", "10.9.9.1"}) {
		SCOPED_TRACE(ip);
		EXPECT_EQ(meet(ip), strcmp(ip, "fd00::1") ? "::ffff:10.9.9.1" : ip);
		expect_traffic(a, b);
		disconnect_pair();
	}
}

TEST_F(LongAddresses, OfALinkAreUsedOnTheDevicesInterface)
{
	open_at({"fe80::1"});
	EXPECT_EQ(meet("fe80::1"), "fe80::1");
}

TEST_F(LongAddresses, OfALinkAreAskedFromAGlobalOneToo)
{
	open_at({"fd00::1", "fe80::1"});
	a = make_vi();
	EXPECT_EQ(request(a, "nobody", PATIENCE, "fe80::1"), VIP_NO_MATCH);
}

TEST_F(LongAddresses, OfAFamilyThatTheDeviceLacksAreNotReachable)
{
	open_at({"10.9.9.1"});
	a = make_vi();
	EXPECT_EQ(request(a, "x", PATIENCE, "fd00::1"), VIP_NOT_REACHABLE);
	close();
	open_at({"fd00::1"});
	a = make_vi();
	EXPECT_EQ(request(a, "x", PATIENCE, "10.9.9.1"), VIP_NOT_REACHABLE);
	Address local("::", "x"), remote("10.9.9.1", "y");
	EXPECT_EQ(VipConnectPeerRequest(a, local.get(), remote.get(), PATIENCE), VIP_NOT_REACHABLE);
	expect_state(a, VIP_STATE_IDLE);
}

// ---- listening, at both addresses ----

TEST_F(LongAddresses, AreBothListenedOnOrNeither)
{
	open_at({"10.9.9.1", "fd00::1"});
	for (const char *function : {"socket", "bind", "listen"})
		for (int nth : {1, 2}) {
			fake_fail(function, nth, ENOMEM);
			EXPECT_EQ(wait("door", 10), VIP_ERROR_RESOURCE) << function << nth;
			EXPECT_FALSE(is_listened_for("door"));
		}
	fake_forget_faults();
	EXPECT_EQ(meet("fd00::1"), "fd00::1");
}

// bind() says that one of the addresses is not there. An interface that was down has lost
// its IPv6 addresses, but not those of IPv4.
TEST_F(LongAddresses, ThatHaveGoneAreNotListenedOnAndTheOthersAre)
{
	open_at({"10.9.9.1", "fd00::1"});
	for (int nth : {1, 2}) {
		uint64_t before = fake_calls("listen");

		fake_fail("bind", nth, EADDRNOTAVAIL);
		/* Each wait needs another discriminator: the one before is still listened for. */
		EXPECT_EQ(wait("half " + std::to_string(nth), 1), VIP_TIMEOUT) << nth;
		EXPECT_EQ(fake_calls("listen") - before, 1u) << nth;
	}
	fake_fail_always("bind", EADDRNOTAVAIL);
	EXPECT_EQ(wait("none", 1), VIP_ERROR_RESOURCE);
	fake_fail_always("bind", 0);
}

TEST_F(LongAddresses, AreListenedOnAtTheSamePort)
{
	open_at({"10.9.9.1", "fd00::1"});
	for (int taken : {1, 2}) { // the port of this number of the two addresses is another program's
		uint64_t before = fake_calls("listen");

		fake_fail("bind", taken, EADDRINUSE);
		const std::string door = "half " + std::to_string(taken);
		EXPECT_EQ(wait(door, 0), VIP_TIMEOUT);
		EXPECT_EQ(fake_calls("listen") - before, taken == 2 ? 3u : 2u);
		EXPECT_FALSE(is_listened_for(door, 0));
		EXPECT_TRUE(is_listened_for(door, 1));
	}
	EXPECT_EQ(meet("fd00::1"), "fd00::1");
}

// ---- peer-to-peer ----

// One of the two hosts has the lesser IPv4 address, and the other one the lesser IPv6 address.
class TwoLongHosts : public TwoHosts
{
      protected:
	void give_addresses(fake_device &own, fake_device &other) override
	{
		set_addresses(own, {"10.9.9.1", "fd00::2"});
		set_addresses(other, {"10.9.9.2", "fd00::1"});
	}
};

// By IPv4 they meet at addresses that the NICs do not report. Both ends still agree which one makes the request.
TEST_F(TwoLongHosts, WithTheSameNameMeetByEitherFamily)
{
	for (const auto &[a_host, b_host] : {std::pair("fd00::2", "fd00::1"), {"10.9.9.1", "::ffff:10.9.9.2"}}) {
		ASSERT_EQ(ask(a, "same", "same", PATIENCE, b_host), VIP_SUCCESS);
		ASSERT_EQ(ask(b, "same", "same", PATIENCE, a_host), VIP_SUCCESS);
		EXPECT_EQ(outcome(a), VIP_SUCCESS);
		EXPECT_EQ(outcome(b), VIP_SUCCESS);
		disconnect_pair();
	}
}

TEST_F(TwoLongHosts, ThatAreTheSameCannotBeConnected)
{
	EXPECT_EQ(ask(a, "same", "same", PATIENCE, "fd00::2"), VIP_INVALID_PARAMETER);
	EXPECT_EQ(ask(a, "same", "same", PATIENCE, "10.9.9.1"), VIP_INVALID_PARAMETER);
}

} // namespace
