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
std::string machine = "no-such-host.invalid";
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

class Names : public testing::Test
{
      protected:
	Names()
	{
		int fd = mkstemp(path);
		EXPECT_GE(fd, 0);
		close(fd);
	}
	~Names() override
	{
		unlink(path);
	}
	// What the body prints, with this hosts file.
	std::string printed(const std::string &hosts, const std::function<void()> &body)
	{
		FILE *file = fopen(path, "w");
		fputs(hosts.c_str(), file);
		fclose(file);
		Child child = in_child({{"VIPL_HOSTS", path}, {"VIPL_ADDRESS_BYTES", bytes}}, body);
		EXPECT_EQ(child.status, 0) << child.err;
		return child.out;
	}
	// Looks `name` up with this hosts file. Returns "" if there is no such name.
	std::string look_up(const std::string &hosts, const std::string &name, VIP_ULONG index = 0)
	{
		return printed(hosts, [&] { print(name, index); });
	}
	void open_nic(VIP_NIC_HANDLE *nic) const
	{
		fake_device device;

		fake_reset();
		fake_device_default(&device);
		device.addresses[1] = nic_ipv6;
		fake_set_devices(1, &device);
		ASSERT_EQ(VipOpenNic("nic0", nic), VIP_SUCCESS);
	}
	void print(const std::string &name, VIP_ULONG index) const
	{
		VIP_NIC_HANDLE nic;
		Address address;
		std::string copy = name;

		open_nic(&nic);
		ASSERT_EQ(VipNSInit(nic, nullptr), VIP_SUCCESS);
		memset(address.bytes, 0xFF, 4); // the bytes there on entry are ignored
		VIP_RETURN rc = VipNSGetHostByName(nic, &copy[0], address.get(), index);
		if (rc == VIP_SUCCESS) {
			const unsigned char *h =
				address.bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
			char text[INET6_ADDRSTRLEN];
			EXPECT_EQ(std::to_string(address.get()->HostAddressLen), bytes);
			if (bytes == "16")
				printf("%s", inet_ntop(AF_INET6, h, text, sizeof(text)));
			else
				printf("%d.%d.%d.%d.%d.%d", h[0], h[1], h[2], h[3], h[4], h[5]);
		} else {
			EXPECT_EQ(rc, VIP_ERROR_NAMESERVICE);
		}
		EXPECT_EQ(VipNSShutdown(nic), VIP_SUCCESS);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		EXPECT_EQ(fake_live_total(), 0);
	}
	// The name of an address with this hosts file, or "" if it has none.
	std::string name_of(const std::string &hosts, const std::vector<int> &six)
	{
		Address address;

		for (size_t i = 0; i < six.size(); i++)
			address.bytes[offsetof(VIP_NET_ADDRESS, HostAddress) + i] =
				static_cast<unsigned char>(six[i]);
		return name_of(hosts, address);
	}
	std::string name_of(const std::string &hosts, Address address)
	{
		return printed(hosts, [&] { print_name(address); });
	}
	void print_name(Address &address) const
	{
		VIP_NIC_HANDLE nic;
		char name[64];
		VIP_ULONG length = sizeof(name);

		open_nic(&nic);
		VIP_RETURN rc = VipNSGetHostByAddr(nic, address.get(), name, &length);
		if (rc == VIP_SUCCESS) {
			EXPECT_EQ(length, strlen(name));
			printf("%s", name);
		} else {
			EXPECT_EQ(rc, VIP_ERROR_NAMESERVICE);
		}
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	}
	std::string bytes = "6"; // the length of a host address
	const char *nic_ipv6 = nullptr;
	char path[32] = "/tmp/vipl-hosts-XXXXXX";
};

TEST_F(Names, TheHostsFileNamesAddresses)
{
	const char *hosts = "# comment\n\n  alpha   10.1.1.1\nbeta\t10.1.1.2 # more\n"
			    "gamma 0a:01:01:03:00:00\r\nlast 10.1.1.4";

	EXPECT_EQ(look_up(hosts, "alpha"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "ALPHA"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "beta"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "gamma"), "10.1.1.3.0.0");
	EXPECT_EQ(look_up(hosts, "last"), "10.1.1.4.0.0");
}

TEST_F(Names, ShortAndFullNamesMeanTheSameHost)
{
	const char *hosts = "alpha 10.1.1.1\nbeta.some.domain 10.1.1.2\n";

	EXPECT_EQ(look_up(hosts, "alpha.any.domain"), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "beta"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "beta.some.domain"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "beta.other.invalid"), "");
	EXPECT_EQ(look_up(hosts, "alph.invalid"), "");
}

TEST_F(Names, TheIndexPicksAmongSeveralAddresses)
{
	const char *hosts = "alpha 10.1.1.1\nbeta 10.2.2.2\nalpha 10.1.1.3\n";

	EXPECT_EQ(look_up(hosts, "alpha", 0), "10.1.1.1.0.0");
	EXPECT_EQ(look_up(hosts, "alpha", 1), "10.1.1.3.0.0");
	EXPECT_EQ(look_up(hosts, "alpha.invalid", 2), "");
}

TEST_F(Names, JunkLinesAreSkipped)
{
	std::string hosts = "alpha\nalpha 10.1.1\nalpha 10.1.1.1.1\nalpha zz:01:01:03:00:00\n"
			    "alpha 0a:01:01:03:00\nalpha 0a:01:01:03:00:00:00\n" +
			    std::string(5000, 'x') + "\n" + std::string(600, 'y') +
			    " 10.3.3.3\nalpha 10.1.1.9\n";

	EXPECT_EQ(look_up(hosts, "alpha"), "10.1.1.9.0.0");
}

TEST_F(Names, DottedQuadsNeedNoFile)
{
	EXPECT_EQ(look_up("", "10.20.30.40"), "10.20.30.40.0.0");
}

TEST_F(Names, LoopbackMeansThisNicsOwnAddress)
{
	EXPECT_EQ(look_up("", "localhost"), "10.9.9.1.0.0");
	EXPECT_EQ(look_up("", "127.0.1.1"), "10.9.9.1.0.0");
}

TEST_F(Names, LoopbackInTheHostsFileMeansThisNicsOwnAddressToo)
{
	EXPECT_EQ(look_up("me 127.0.1.1\n", "me"), "10.9.9.1.0.0");
}

TEST_F(Names, TheMachinesOwnIsThisNicsOwnAddressWhereNobodyKnowsIt)
{
	utsname own{};
	ASSERT_EQ(uname(&own), 0);
	const std::string name = own.nodename, first = name.substr(0, name.find('.'));
	for (const std::string &each : {name, first, name + "x"})
		listed[each] = {};
	EXPECT_EQ(look_up("", name), "10.9.9.1.0.0");
	EXPECT_EQ(look_up("", first), "10.9.9.1.0.0");
	EXPECT_EQ(look_up("", name, 1), "");
	EXPECT_EQ(look_up("", name + "x"), "");
	EXPECT_EQ(look_up(name + " 10.1.1.1\n", name), "10.1.1.1.0.0") << "somebody knows it";
	listed.clear();
}

TEST_F(Names, UnknownAndEmptyNamesAreErrorNameservice)
{
	EXPECT_EQ(look_up("alpha 10.1.1.1\n", "no-such-host.invalid"), "");
	EXPECT_EQ(look_up("alpha 10.1.1.1\n", ""), "");
}

TEST_F(Names, AMissingHostsFileIsNoError)
{
	Child child = in_child({{"VIPL_HOSTS", "/no/such/file"}}, [&] { print("10.1.2.3", 0); });

	EXPECT_EQ(child.out, "10.1.2.3.0.0");
}

TEST_F(Names, TheHostsFileTellsTheFirstNameOfAnAddress)
{
	const char *hosts = "alpha 10.1.1.1\njunk\nbeta.some.domain 10.1.1.2\nalso-alpha 10.1.1.1\n"
			    "gamma 0a:01:01:03:00:00\nmac 02:01:01:03:00:07\n";

	known["10.1.1.1"] = "not-asked";
	EXPECT_EQ(name_of(hosts, {10, 1, 1, 1, 0, 0}), "alpha");
	EXPECT_EQ(name_of(hosts, {10, 1, 1, 2, 0, 0}), "beta.some.domain");
	EXPECT_EQ(name_of(hosts, {10, 1, 1, 3, 0, 0}), "gamma");
	EXPECT_EQ(name_of(hosts, {2, 1, 1, 3, 0, 7}), "mac");
	known.clear();
}

TEST_F(Names, TheSystemTellsTheNamesOfOtherAddresses)
{
	known["10.1.1.7"] = "seven.some.domain";
	EXPECT_EQ(name_of("alpha 10.1.1.1\n", {10, 1, 1, 7, 0, 0}), "seven.some.domain");
	EXPECT_EQ(name_of("", {10, 1, 1, 8, 0, 0}), "");
	EXPECT_EQ(name_of("", {10, 1, 1, 7, 0, 1}), "") << "not an IPv4 address";
	EXPECT_EQ(name_of("", {0, 0, 0, 0, 0, 0}), "");
	known.clear();
}

TEST_F(Names, LoopbackAddressesAreThisNicsAlsoInReverse)
{
	EXPECT_EQ(name_of("me 127.0.1.1\n", {10, 9, 9, 1, 0, 0}), "me");
	EXPECT_EQ(name_of("me 10.9.9.1\n", {127, 0, 0, 1, 0, 0}), "me");
	known["10.9.9.1"] = "node9";
	known["127.0.0.1"] = "not-asked";
	EXPECT_EQ(name_of("", {127, 0, 0, 1, 0, 0}), "node9");
	known.clear();
}

TEST_F(Names, OwnAddressThatNobodyKnowsHasTheMachinesNameIfThatLeadsBack)
{
	machine = "localhost";
	EXPECT_EQ(name_of("", {10, 9, 9, 1, 0, 0}), "localhost");
	EXPECT_EQ(name_of("", {10, 9, 9, 2, 0, 0}), "") << "another one's";
	machine = "10.1.2.3";
	EXPECT_EQ(name_of("", {10, 9, 9, 1, 0, 0}), "") << "leads elsewhere";
	machine = "no-such-host.invalid";
	EXPECT_EQ(name_of("", {10, 9, 9, 1, 0, 0}), "");
}

TEST_F(Names, ANameOfAnAddressNeedsItsRoom)
{
	FILE *file = fopen(path, "w");
	fputs("alpha 10.1.1.1\n", file);
	fclose(file);
	Child child = in_child({{"VIPL_HOSTS", path}}, [] {
		VIP_NIC_HANDLE nic;
		Address address("10.1.1.1", "any");
		char name[8];

		fake_reset();
		ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
		for (VIP_ULONG room : {0, 1, 5, 6, 7}) {
			VIP_ULONG length = room;
			memset(name, 'x', sizeof(name));
			VIP_RETURN rc = VipNSGetHostByAddr(nic, address.get(), name, &length);
			EXPECT_EQ(rc, room < 6 ? VIP_ERROR_RESOURCE : VIP_SUCCESS) << room;
			EXPECT_EQ(length, room < 6 ? 6u : 5u);
			EXPECT_EQ(std::string(name, 8),
				  room < 6 ? "xxxxxxxx" : std::string("alpha\0xx", 8));
		}
		for (VIP_UINT16 length : {0, 4, 5, 7, 16}) {
			VIP_ULONG room = sizeof(name);
			address.get()->HostAddressLen = length;
			EXPECT_EQ(VipNSGetHostByAddr(nic, address.get(), name, &room),
				  VIP_INVALID_PARAMETER);
		}
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	});
	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

TEST_F(Names, NullIsInvalidParameter)
{
	Child child = in_child({}, [] {
		VIP_NIC_HANDLE nic;
		Address address;
		char name[] = "10.1.2.3";

		fake_reset();
		ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
		EXPECT_EQ(VipNSGetHostByName(nic, nullptr, address.get(), 0),
			  VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSGetHostByName(nic, name, nullptr, 0), VIP_INVALID_PARAMETER);
		VIP_ULONG room = sizeof(name);
		EXPECT_EQ(VipNSGetHostByAddr(nic, nullptr, name, &room), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSGetHostByAddr(nic, address.get(), nullptr, &room),
			  VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSGetHostByAddr(nic, address.get(), name, nullptr),
			  VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		EXPECT_EQ(VipNSGetHostByName(nic, name, address.get(), 0), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSInit(nic, nullptr), VIP_INVALID_PARAMETER);
		EXPECT_EQ(VipNSShutdown(nic), VIP_INVALID_PARAMETER);
	});
	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

TEST_F(Names, OfIPv6AddressesAreNotThereWhereAddressesHaveSixBytes)
{
	const char *hosts = "beta fd00::7\nbeta 10.1.1.2\nmapped ::ffff:10.1.1.4\nnone fd00::8\n";

	listed["both"] = {"fd00::5", "10.1.1.5"};
	EXPECT_EQ(look_up(hosts, "beta"), "10.1.1.2.0.0");
	EXPECT_EQ(look_up(hosts, "mapped"), "10.1.1.4.0.0");
	EXPECT_EQ(look_up(hosts, "none"), "");
	EXPECT_EQ(look_up(hosts, "both"), "10.1.1.5.0.0");
	EXPECT_EQ(look_up(hosts, "both", 1), "");
	EXPECT_EQ(look_up(hosts, "fd00::7"), "");
	listed.clear();
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
	const char *hosts = "alpha 10.1.1.1\nbeta fd00::7 # more\ngamma 0a:01:01:03:00:00\n"
			    "mapped ::ffff:10.1.1.4\nlong 1111:2222:3333:4444:5555:6666:7777:8888\n"
			    "mac 02:01:01:03:00:07\nmac fd00::9\njunk fd00::g\n";

	EXPECT_EQ(look_up(hosts, "alpha"), "::ffff:10.1.1.1");
	EXPECT_EQ(look_up(hosts, "beta"), "fd00::7");
	EXPECT_EQ(look_up(hosts, "gamma"), "::ffff:10.1.1.3");
	EXPECT_EQ(look_up(hosts, "mapped"), "::ffff:10.1.1.4");
	EXPECT_EQ(look_up(hosts, "long"), "1111:2222:3333:4444:5555:6666:7777:8888");
	EXPECT_EQ(look_up(hosts, "mac"), "fd00::9") << "six bytes that are not IPv4 are no address";
	EXPECT_EQ(look_up(hosts, "junk"), "");
}

TEST_F(NamesOfLongAddresses, NumbersNeedNoFile)
{
	EXPECT_EQ(look_up("", "10.20.30.40"), "::ffff:10.20.30.40");
	EXPECT_EQ(look_up("", "fd00::7"), "fd00::7");
}

TEST_F(NamesOfLongAddresses, LoopbackOfEitherFamilyMeansThisNicsOwnAddress)
{
	for (const char *name : {"::1", "127.0.0.1", "127.0.1.1", "localhost"})
		EXPECT_EQ(look_up("", name), "fd00::1") << name;
	EXPECT_EQ(look_up("me ::1\n", "me"), "fd00::1");
	nic_ipv6 = nullptr;
	for (const char *name : {"::1", "127.0.0.1", "localhost"})
		EXPECT_EQ(look_up("", name), "::ffff:10.9.9.1") << name;
}

TEST_F(NamesOfLongAddresses, TheSystemsOfTheNicsOwnFamilyComeFirst)
{
	listed["both"] = {"10.1.1.5", "fd00::5", "10.1.1.6"};
	listed["old"] = {"10.1.1.7"};
	EXPECT_EQ(look_up("", "both", 0), "fd00::5");
	EXPECT_EQ(look_up("", "both", 1), "::ffff:10.1.1.5");
	EXPECT_EQ(look_up("", "both", 2), "::ffff:10.1.1.6");
	EXPECT_EQ(look_up("", "both", 3), "");
	EXPECT_EQ(look_up("", "old"), "::ffff:10.1.1.7");
	nic_ipv6 = nullptr;
	EXPECT_EQ(look_up("", "both", 0), "::ffff:10.1.1.5");
	EXPECT_EQ(look_up("", "both", 2), "fd00::5");
	listed.clear();
}

TEST_F(NamesOfLongAddresses, HaveTheirReverse)
{
	const char *hosts = "alpha 10.1.1.1\nbeta fd00::7\nme 127.0.1.1\n";

	known["fd00::8"] = "eight";
	known["10.1.1.8"] = "old-eight";
	EXPECT_EQ(name_of(hosts, Address("fd00::7", "")), "beta");
	EXPECT_EQ(name_of(hosts, Address("::ffff:10.1.1.1", "")), "alpha");
	EXPECT_EQ(name_of(hosts, Address("10.1.1.1", "")), "alpha") << "six bytes are taken, too";
	EXPECT_EQ(name_of(hosts, {10, 1, 1, 1, 0, 7}), "");
	EXPECT_EQ(name_of(hosts, Address("fd00::8", "")), "eight");
	EXPECT_EQ(name_of(hosts, Address("::ffff:10.1.1.8", "")), "old-eight");
	EXPECT_EQ(name_of(hosts, Address("fd00::1", "")), "me");
	EXPECT_EQ(name_of(hosts, Address("::1", "")), "me");
	EXPECT_EQ(name_of(hosts, Address("fd00::9", "")), "");
	EXPECT_EQ(name_of(hosts, Address("::", "")), "");
	known.clear();
}

TEST_F(NamesOfLongAddresses, OwnAddressThatNobodyKnowsHasTheMachinesNameIfThatLeadsBack)
{
	machine = "localhost";
	EXPECT_EQ(name_of("", Address("fd00::1", "")), "localhost");
	EXPECT_EQ(name_of("", Address("fd00::2", "")), "") << "another one's";
	machine = "no-such-host.invalid";
}

} // namespace
