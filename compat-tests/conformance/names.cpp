// SPDX-License-Identifier: BSD-2-Clause
// Names of hosts: the name service.
#include "harness.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <unistd.h>

using namespace harness;

namespace
{

const char kInHosts[] = ", a name that the system itself has to know (/etc/hosts)";

class Names : public NicTest
{
      protected:
	void SetUp() override
	{
		ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
		ASSERT_EQ(VIP_SUCCESS, VipNSInit(nic, nullptr));
	}
	VIP_RETURN resolve(std::string name, std::string *host, VIP_UINT16 lengthOnEntry = 0)
	{
		Address found(nic);
		memset(found.get()->HostAddress, 0xEE, nic.attributes().NicAddressLen);
		found.get()->HostAddressLen = lengthOnEntry;
		found.get()->DiscriminatorLen = 0x5A5A;
		VIP_RETURN result = VipNSGetHostByName(nic, name.data(), found.get(), 0);
		EXPECT_EQ(0x5A5A, found.get()->DiscriminatorLen) << "not the name service's to write";
		if (result == VIP_SUCCESS) {
			EXPECT_EQ(nic.attributes().NicAddressLen, found.get()->HostAddressLen);
			found.get()->HostAddressLen = nic.attributes().NicAddressLen;
			*host = found.host();
		}
		return result;
	}
	void expectOwn(const std::string &name)
	{
		std::string host;
		EXPECT_EQ(VIP_SUCCESS, resolve(name, &host)) << name;
		EXPECT_EQ(nic.address(), host) << name;
	}
	// Expects this NIC's own address, or another address of this machine if the system gives
	// the name that. Another test connects to it.
	void expectThisHost(const std::string &name)
	{
		std::string host;
		ASSERT_EQ(VIP_SUCCESS, resolve(name, &host)) << name << kInHosts;
		auto all = addressesOfThisMachine(nic);
		EXPECT_TRUE(host == nic.address() || std::count(all.begin(), all.end(), host))
			<< name << " is " << testing::PrintToString(host);
	}
	bool takesIpv6() const
	{
		return nic.attributes().NicAddressLen == 16;
	}
	static std::string hostname()
	{
		char name[256] = "";
		EXPECT_EQ(0, gethostname(name, sizeof name - 1));
		return name;
	}
};

// [functional: VipNSGetHostByName] A host's own name, with its domain or without, leads to itself.
TEST_F(Names, ThisHostsNameIsAnAddressOfThisHost)
{
	std::string name = hostname();
	expectThisHost(name);
	expectThisHost(name.substr(0, name.find('.')));
}
// [functional: VipNSGetHostByName] localhost, or a loopback address in text form, is this NIC.
TEST_F(Names, LocalhostAndItsAddressesAreThisNicsOwnAddress)
{
	expectOwn("localhost");
	expectOwn("127.0.0.1");
	expectOwn("127.0.1.1");
	if (takesIpv6())
		expectOwn("::1");
}

// [functional: VipNSGetHostByName] An address in writing is a name of itself.
TEST_F(Names, AddressInWritingIsTheAddressItself)
{
	// An IPv4 address is the first four bytes of a host address of six bytes. The rest is zero.
	std::string own = nic.address(), host;
	char text[INET6_ADDRSTRLEN];
	expectOwn(inet_ntop(takesIpv6() ? AF_INET6 : AF_INET, own.data(), text, sizeof text));
	EXPECT_EQ(VIP_SUCCESS, resolve("192.0.2.1", &host));
	EXPECT_EQ(hostAddress(nic, {"\xC0\0\2\1", 4}), host);
	if (takesIpv6()) {
		EXPECT_EQ(VIP_SUCCESS, resolve("2001:db8::1", &host));
		EXPECT_EQ(std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + '\1', host);
	} else {
		EXPECT_EQ(VIP_ERROR_NAMESERVICE, resolve("2001:db8::1", &host));
	}
}

// [functional: VipNSGetHostByName] The name service writes the length of the address and ignores its former value.
TEST_F(Names, HostAddressLenOnEntryIsIgnored)
{
	for (VIP_UINT16 length : {0, 1, 4, 6, 16, 0xFFFF}) {
		std::string host;
		EXPECT_EQ(VIP_SUCCESS, resolve("localhost", &host, length)) << length;
		EXPECT_EQ(nic.address(), host) << length;
	}
}

// [functional: VipNSGetHostByName] The name service writes a host address and nothing behind it.
TEST_F(Names, OnlyTheHostAddressIsWritten)
{
	std::vector<VIP_UCHAR> bytes(256, 0x5A);
	char name[] = "localhost";
	ASSERT_EQ(VIP_SUCCESS, VipNSGetHostByName(nic, name, reinterpret_cast<VIP_NET_ADDRESS *>(bytes.data()), 0));
	for (size_t i = offsetof(VIP_NET_ADDRESS, HostAddress) + nic.attributes().NicAddressLen; i < bytes.size(); i++)
		ASSERT_EQ(0x5A, bytes[i]) << "byte " << i;
}

// [functional: VipNSGetHostByName VipConnectRequest] A request to an address that the name service returns leads to a
// connection.
TEST_F(Names, ResolvedAddressCanBeConnectedTo)
{
	std::string host, discriminator = freshDiscriminator();
	ASSERT_EQ(VIP_SUCCESS, resolve(hostname(), &host)) << hostname() << kInHosts;
	Vi server(nic), client(nic);
	auto served = inThread([&] { return serve(server, discriminator); });
	EXPECT_EQ(VIP_SUCCESS, requestTo(client, discriminator, kPatience, host));
	EXPECT_TRUE(served.get());
}

// [functional: VipNSGetHostByName] An unknown name is an error of the name service.
TEST_F(Names, UnknownNameIsANameServiceError)
{
	std::string host;
	for (const char *name : {"no-such-host.invalid", "", "256.1.1.1", "a name with blanks"})
		EXPECT_EQ(VIP_ERROR_NAMESERVICE, resolve(name, &host)) << "\"" << name << "\"";
}

// [functional: VipNSGetHostByName] An index beyond the addresses of a name is an error of the name service.
TEST_F(Names, IndexBeyondTheAddressesOfANameIsANameServiceError)
{
	Address found(nic);
	char name[] = "localhost";
	EXPECT_EQ(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(nic, name, found.get(), 1000));
}

// [functional: VipNSInit VipNSShutdown] The name service can be started and ended again and again.
TEST_F(Names, InitMayBeRepeated)
{
	char info[16] = "";
	EXPECT_EQ(VIP_SUCCESS, VipNSInit(nic, nullptr));
	EXPECT_EQ(VIP_SUCCESS, VipNSInit(nic, info));
	expectOwn("localhost");
	EXPECT_EQ(VIP_SUCCESS, VipNSShutdown(nic));
	EXPECT_EQ(VIP_SUCCESS, VipNSShutdown(nic));
	EXPECT_EQ(VIP_SUCCESS, VipNSInit(nic, nullptr));
	expectOwn("localhost");
}

// [functional: VipNSShutdown] The end of the name service is not that of the NIC.
TEST_F(Names, ShutdownLeavesTheNicAndItsConnectionsAlone)
{
	Pair pair(nic);
	EXPECT_EQ(VIP_SUCCESS, VipNSShutdown(nic));
	expectTalk(pair.a, pair.b);
}

// [functional: VipNSGetHostByAddr VipNSGetHostByName] An address has a name, which fits into the room it was given or
// is not written.
TEST_F(Names, OwnAddressHasANameThatLeadsBackToIt)
{
	Address own(nic.address(), "");
	char name[256] = "";
	VIP_ULONG length = sizeof name;
	ASSERT_EQ(VIP_SUCCESS, VipNSGetHostByAddr(nic, own.get(), name, &length));
	EXPECT_EQ(strlen(name), length);
	EXPECT_GT(length, 0U);
	expectOwn(name);

	// First the room is sufficient, then it is one byte too small.
	VIP_ULONG needed = length + 1, room = needed;
	std::vector<char> exact(needed + 1, '\x5A');
	EXPECT_EQ(VIP_SUCCESS, VipNSGetHostByAddr(nic, own.get(), exact.data(), &room));
	EXPECT_STREQ(name, exact.data());
	EXPECT_EQ('\x5A', exact[needed]);
	room = needed - 1;
	exact.assign(needed + 1, '\x5A');
	EXPECT_EQ(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(nic, own.get(), exact.data(), &room));
	EXPECT_GE(room, needed - 1) << "says how much is needed";
	EXPECT_EQ('\x5A', exact[needed - 1]) << "written past the room";
}

} // namespace
