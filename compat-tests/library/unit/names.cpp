// SPDX-License-Identifier: BSD-2-Clause
// The name service: it asks the hosts file first, and then the system.
#include "support.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <dlfcn.h>
#include <netdb.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace
{

// The answers of the system: the names of addresses, the name of this machine, and the addresses of
// names.
std::map<std::string, std::string> known;
std::string machine;
std::map<std::string, std::vector<const char *>> listed;

std::string text_of(const sockaddr *address)
{
	char text[INET6_ADDRSTRLEN];
	const void *bytes = &reinterpret_cast<const sockaddr_in *>(address)->sin_addr;

	if (address->sa_family == AF_INET6)
		bytes = &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr;
	return inet_ntop(address->sa_family, bytes, text, sizeof(text));
}

} // namespace

// The real function answers for names that are not in `listed`.
extern "C" int getaddrinfo(const char *name, const char *service, const addrinfo *hints,
			   addrinfo **all)
{
	static auto real =
		reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
	auto found = listed.find(name);
	addrinfo **end = all;

	if (found == listed.end())
		return real(name, service, hints, all);
	*all = nullptr;
	for (const char *address : found->second)
		if (!real(address, service, hints, end)) // else it is of another family
			end = &(*end)->ai_next;
	return *all ? 0 : EAI_NONAME;
}

extern "C" int getnameinfo(const sockaddr *address, socklen_t, char *name, socklen_t room, char *,
			   socklen_t, int flags)
{
	auto found = known.find(text_of(address));

	EXPECT_TRUE(flags & NI_NAMEREQD) << "else numbers would be told as a name";
	if (found == known.end())
		return EAI_NONAME;
	if (found->second.size() >= room)
		return EAI_OVERFLOW;
	strcpy(name, found->second.c_str());
	return 0;
}

extern "C" int gethostname(char *name, size_t room) noexcept
{
	strncpy(name, machine.c_str(), room);
	return 0;
}

namespace
{

// A name, the address that it is to have ("" if it has none), and which of its addresses that is.
struct Found {
	std::string name, address;
	VIP_ULONG index = 0;
};

// An address of six bytes.
Address six(const std::vector<int> &bytes)
{
	Address address;

	for (size_t i = 0; i < bytes.size(); i++)
		address.bytes[offsetof(VIP_NET_ADDRESS, HostAddress) + i] = static_cast<unsigned char>(bytes[i]);
	return address;
}

class Names : public testing::Test
{
      protected:
	Names()
	{
		known.clear();
		listed.clear();
		machine = "no-such-host.invalid";
		int fd = mkstemp(path);
		EXPECT_GE(fd, 0);
		close(fd);
	}
	~Names() override
	{
		unlink(path);
	}
	// In a child with this hosts file.
	void with(const std::string &hosts, const std::function<void(VIP_NIC_HANDLE)> &body)
	{
		FILE *file = fopen(path, "w");
		fputs(hosts.c_str(), file);
		fclose(file);
		passing_child({{"VIPL_HOSTS", path}, {"VIPL_ADDRESS_BYTES", bytes}}, [&] {
			VIP_NIC_HANDLE nic;
			fake_device device;

			fake_reset();
			device.addresses[1] = nic_ipv6;
			fake_set_devices(1, &device);
			ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
			ASSERT_EQ(VipNSInit(nic, nullptr), VIP_SUCCESS);
			body(nic);
			EXPECT_EQ(VipNSShutdown(nic), VIP_SUCCESS);
			EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
			EXPECT_EQ(fake_live_total(), 0);
		});
	}
	void expect_addresses(const std::string &hosts, const std::vector<Found> &all)
	{
		with(hosts, [&](VIP_NIC_HANDLE nic) {
			for (Found each : all)
				EXPECT_EQ(address_of(nic, &each.name[0], each.index), each.address) << each.name << " " << each.index;
		});
	}
	std::string address_of(VIP_NIC_HANDLE nic, char *name, VIP_ULONG index) const
	{
		Address address;
		char text[INET6_ADDRSTRLEN];
		const unsigned char *h = address.bytes + offsetof(VIP_NET_ADDRESS, HostAddress);

		memset(address.bytes, 0xFF, 4); // the bytes there on entry are ignored
		VIP_RETURN rc = VipNSGetHostByName(nic, name, address.get(), index);
		if (rc != VIP_SUCCESS) {
			EXPECT_EQ(rc, VIP_ERROR_NAMESERVICE);
			return "";
		}
		EXPECT_EQ(std::to_string(address.get()->HostAddressLen), bytes);
		if (bytes == "16")
			return inet_ntop(AF_INET6, h, text, sizeof(text));
		EXPECT_EQ(h[4] + h[5], 0);
		return inet_ntop(AF_INET, h, text, sizeof(text));
	}
	// The names of these addresses, or "" for those that have none.
	void expect_names(const std::string &hosts, const std::vector<std::pair<Address, std::string>> &all)
	{
		with(hosts, [&](VIP_NIC_HANDLE nic) {
			for (size_t i = 0; i < all.size(); i++) {
				Address address = all[i].first;
				char name[64] = "";
				VIP_ULONG length = sizeof(name);
				VIP_RETURN rc = VipNSGetHostByAddr(nic, address.get(), name, &length);

				EXPECT_EQ(rc, all[i].second.empty() ? VIP_ERROR_NAMESERVICE : VIP_SUCCESS) << i;
				EXPECT_EQ(name, all[i].second) << i;
				if (rc == VIP_SUCCESS) {
					EXPECT_EQ(length, strlen(name));
				}
			}
		});
	}
	std::string bytes = "6"; // the length of a host address
	const char *nic_ipv6 = nullptr;
	char path[32] = "/tmp/vipl-hosts-XXXXXX";
};

TEST_F(Names, TheHostsFileNamesAddresses)
{
	expect_addresses("# comment\n\n  alpha   10.1.1.1\nbeta\t10.1.1.2 # more\n"
			 "gamma 0a:01:01:03:00:00\r\nlast 10.1.1.4",
			 {{"alpha", "10.1.1.1"}, {"ALPHA", "10.1.1.1"}, {"beta", "10.1.1.2"}, {"gamma", "10.1.1.3"}, {"last", "10.1.1.4"},
			  {"", ""}});
}

TEST_F(Names, ShortAndFullNamesMeanTheSameHost)
{
	expect_addresses("alpha 10.1.1.1\nbeta.some.domain 10.1.1.2\n",
			 {{"alpha.any.domain", "10.1.1.1"},
			  {"beta", "10.1.1.2"},
			  {"beta.some.domain", "10.1.1.2"},
			  {"beta.other.invalid", ""},
			  {"alph.invalid", ""}});
}

TEST_F(Names, TheIndexPicksAmongSeveralAddresses)
{
	expect_addresses("alpha 10.1.1.1\nbeta 10.2.2.2\nalpha 10.1.1.3\n",
			 {{"alpha", "10.1.1.1"}, {"alpha", "10.1.1.3", 1}, {"alpha.invalid", "", 2}});
}

TEST_F(Names, JunkLinesAreSkipped)
{
	expect_addresses("alpha\nalpha 10.1.1\nalpha 10.1.1.1.1\nalpha zz:01:01:03:00:00\n"
			 "alpha 0a:01:01:03:00\nalpha 0a:01:01:03:00:00:00\n" +
				 std::string(5000, 'x') + "\n" + std::string(600, 'y') + " 10.3.3.3\nalpha 10.1.1.9\n",
			 {{"alpha", "10.1.1.9"}});
}

// What stands behind the bytes that are read at once is not taken for a line.
TEST_F(Names, LongLinesAreOneLineEach)
{
	expect_addresses(std::string(511, '#') + "alpha 10.6.6.6\n" + std::string(1022, '#') + "alpha 10.6.6.6\nalpha 10.1.1.9",
			 {{"alpha", "10.1.1.9"}, {"alpha", "", 1}});
}

TEST_F(Names, LoopbackInTheHostsFileMeansThisNicsOwnAddress)
{
	expect_addresses("me 127.0.1.1\n", {{"me", "10.9.9.1"}});
}

TEST_F(Names, TheMachinesOwnIsThisNicsOwnAddressWhereNobodyKnowsIt)
{
	utsname own{};
	ASSERT_EQ(uname(&own), 0);
	const std::string name = own.nodename, first = name.substr(0, name.find('.'));
	for (const std::string &each : {name, first, name + "x"})
		listed[each] = {};
	expect_addresses("", {{name, "10.9.9.1"}, {first, "10.9.9.1"}, {name, "", 1}, {name + "x", ""}});
	expect_addresses(name + " 10.1.1.1\n", {{name, "10.1.1.1"}}); // somebody knows it
}

TEST_F(Names, TheHostsFileTellsTheFirstNameOfAnAddressAndTheSystemThoseOfOthers)
{
	known["10.1.1.1"] = "not-asked";
	known["10.1.1.7"] = "seven.some.domain";
	expect_names("alpha 10.1.1.1\njunk\nbeta.some.domain 10.1.1.2\nalso-alpha 10.1.1.1\n"
		     "gamma 0a:01:01:03:00:00\nmac 02:01:01:03:00:07\n",
		     {{six({10, 1, 1, 1}), "alpha"},
		      {six({10, 1, 1, 2}), "beta.some.domain"},
		      {six({10, 1, 1, 3}), "gamma"},
		      {six({2, 1, 1, 3, 0, 7}), "mac"},
		      {six({10, 1, 1, 7}), "seven.some.domain"},
		      {six({10, 1, 1, 8}), ""},
		      {six({10, 1, 1, 7, 0, 1}), ""}, // not an IPv4 address
		      {six({0, 0, 0, 0}), ""}});
}

TEST_F(Names, LoopbackAddressesAreThisNicsAlsoInReverse)
{
	expect_names("me 127.0.1.1\n", {{six({10, 9, 9, 1}), "me"}});
	expect_names("me 10.9.9.1\n", {{six({127, 0, 0, 1}), "me"}});
	known["10.9.9.1"] = "node9";
	known["127.0.0.1"] = "not-asked";
	expect_names("", {{six({127, 0, 0, 1}), "node9"}});
}

TEST_F(Names, OwnAddressThatNobodyKnowsHasTheMachinesNameIfThatLeadsBack)
{
	machine = "localhost";
	expect_names("", {{six({10, 9, 9, 1}), "localhost"}, {six({10, 9, 9, 2}), ""}});
	for (const char *elsewhere : {"10.1.2.3", "no-such-host.invalid"}) {
		machine = elsewhere;
		expect_names("", {{six({10, 9, 9, 1}), ""}});
	}
}

// What room a name needs is in the conformance suite.
TEST_F(Names, ANameOfAnAddressNeedsALengthThatIsKnown)
{
	with("alpha 10.1.1.1\n", [](VIP_NIC_HANDLE nic) {
		Address address("10.1.1.1", "any");
		char name[8];

		for (VIP_UINT16 length : {0, 4, 5, 7, 16}) {
			VIP_ULONG room = sizeof(name);
			address.get()->HostAddressLen = length;
			EXPECT_EQ(VipNSGetHostByAddr(nic, address.get(), name, &room), VIP_INVALID_PARAMETER);
		}
	});
}

TEST_F(Names, OfIPv6AddressesAreNotThereWhereAddressesHaveSixBytes)
{
	listed["both"] = {"fd00::5", "10.1.1.5"};
	expect_addresses("beta fd00::7\nbeta 10.1.1.2\nmapped ::ffff:10.1.1.4\nnone fd00::8\n",
			 {{"beta", "10.1.1.2"}, {"mapped", "10.1.1.4"}, {"none", ""}, {"both", "10.1.1.5"}, {"both", "", 1}, {"fd00::7", ""}});
}

class NamesOfLongAddresses : public Names
{
      protected:
	NamesOfLongAddresses()
	{
		bytes = "16";
		nic_ipv6 = "fd00::1";
	}
};

TEST_F(NamesOfLongAddresses, TheHostsFileNamesBothFamilies)
{
	expect_addresses("alpha 10.1.1.1\nbeta fd00::7 # more\ngamma 0a:01:01:03:00:00\n"
			 "mapped ::ffff:10.1.1.4\nlong 1111:2222:3333:4444:5555:6666:7777:8888\n"
			 "mac 02:01:01:03:00:07\nmac fd00::9\njunk fd00::g\n",
			 {{"alpha", "::ffff:10.1.1.1"},
			  {"beta", "fd00::7"},
			  {"gamma", "::ffff:10.1.1.3"},
			  {"mapped", "::ffff:10.1.1.4"},
			  {"long", "1111:2222:3333:4444:5555:6666:7777:8888"},
			  {"mac", "fd00::9"}, // six bytes that are not IPv4 are no address
			  {"junk", ""}});
}

TEST_F(NamesOfLongAddresses, LoopbackOfEitherFamilyMeansThisNicsOwnAddress)
{
	expect_addresses("me ::1\n", {{"::1", "fd00::1"}, {"127.0.1.1", "fd00::1"}, {"localhost", "fd00::1"}, {"me", "fd00::1"},
				     {"128.0.0.1", "::ffff:128.0.0.1"}, {"::127.0.0.0", "::127.0.0.0"}}); // these are others'
	nic_ipv6 = nullptr;
	expect_addresses("", {{"::1", "::ffff:10.9.9.1"}, {"127.0.0.1", "::ffff:10.9.9.1"}, {"localhost", "::ffff:10.9.9.1"}});
}

TEST_F(NamesOfLongAddresses, TheSystemsOfTheNicsOwnFamilyComeFirst)
{
	listed["both"] = {"10.1.1.5", "fd00::5", "10.1.1.6"};
	listed["old"] = {"10.1.1.7"};
	expect_addresses("", {{"both", "fd00::5"}, {"both", "::ffff:10.1.1.5", 1}, {"both", "::ffff:10.1.1.6", 2}, {"both", "", 3},
			      {"old", "::ffff:10.1.1.7"}});
	nic_ipv6 = nullptr;
	expect_addresses("", {{"both", "::ffff:10.1.1.5"}, {"both", "fd00::5", 2}});
}

TEST_F(NamesOfLongAddresses, HaveTheirReverse)
{
	known["fd00::8"] = "eight";
	known["10.1.1.8"] = "old-eight";
	expect_names("alpha 10.1.1.1\nbeta fd00::7\nme 127.0.1.1\n",
		     {{Address("fd00::7", ""), "beta"},
		      {Address("::ffff:10.1.1.1", ""), "alpha"},
		      {Address("10.1.1.1", ""), "alpha"}, // six bytes are taken, too
		      {six({10, 1, 1, 1, 0, 7}), ""},
		      {Address("fd00::8", ""), "eight"},
		      {Address("::ffff:10.1.1.8", ""), "old-eight"},
		      {Address("fd00::1", ""), "me"},
		      {Address("::1", ""), "me"},
		      {Address("fd00::9", ""), ""},
		      {Address("::", ""), ""}});
	machine = "localhost";
	expect_names("", {{Address("fd00::1", ""), "localhost"}, {Address("fd00::2", ""), ""}});
}

} // namespace
