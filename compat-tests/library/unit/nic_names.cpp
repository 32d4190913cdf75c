// SPDX-License-Identifier: BSD-2-Clause
// The device that the name of a NIC means: by number, by name, or by VIPL_NIC_MAP.
#include "support.h"

namespace
{

// Opens `name` with `devices` devices "fake<N>". Returns the name of the device, or the code.
std::string opened(const std::string &name, int devices, const std::string &map = "")
{
	static const char *const names[] = {"fake0", "fake1", "fake2"};
	static const char *const addresses[] = {"10.9.9.1", "10.9.9.2", "10.9.9.3"};
	fake_device list[3];

	for (int i = 0; i < 3; i++) {
		fake_device_default(&list[i]);
		list[i].name = names[i];
		list[i].addresses[0] = addresses[i];
	}
	std::map<std::string, std::string> environment;
	if (!map.empty())
		environment["VIPL_NIC_MAP"] = map;
	Child child = passing_child(environment, [&] {
		VIP_NIC_HANDLE nic = nullptr;
		VIP_NIC_ATTRIBUTES attributes;

		fake_reset();
		fake_set_devices(devices, list);
		VIP_RETURN rc = VipOpenNic(name.c_str(), &nic);
		if (rc == VIP_SUCCESS) {
			EXPECT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
			printf("%s at %d", attributes.Name, attributes.LocalNicAddress[3]);
			EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		} else {
			printf("%s", testing::PrintToString(rc).c_str());
		}
		EXPECT_EQ(fake_live_total(), 0);
		EXPECT_EQ(fake_misuse_count(), 0);
	});
	return child.out;
}

const char FIRST[] = "fake0 at 1", SECOND[] = "fake1 at 2", THIRD[] = "fake2 at 3";
const char LOOPBACK[] = "via_lo at 1";
const char UNKNOWN[] = "VIP_INVALID_PARAMETER";

TEST(NicNames, OfHardwareThatIsGoneMeanDevicesByNumber)
{
	for (const char *name :
	     {"nic0", "VINIC", "VINIC0", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"})
		EXPECT_EQ(opened(name, 3), FIRST) << name;
	for (const char *name : {"nic1", "VINIC1", "/dev/via_eth1", "/dev/clanvi1", "\\\\.\\VI2"})
		EXPECT_EQ(opened(name, 3), SECOND) << name;
	EXPECT_EQ(opened("nic2", 3), THIRD);
}

TEST(NicNames, MayBeTheDevicesOwn)
{
	EXPECT_EQ(opened("fake0", 1), FIRST);
	EXPECT_EQ(opened("fake2", 3), THIRD);
}

TEST(NicNames, UnknownOnesAreInvalidParameter)
{
	for (const char *name :
	     {"", "bogus", "nic", "nic-1", "nic 0", "nic0x", "nic1000", "nic3", "NIC0", "VINICX",
	      "/dev/via_eth", "\\\\.\\VI0", "fake", "fake3", "fake0 ", "nic99999999999999999999"})
		EXPECT_EQ(opened(name, 3), UNKNOWN) << name;
	EXPECT_EQ(opened("nic1", 1), UNKNOWN);
	EXPECT_EQ(opened(std::string(5000, 'x'), 1), UNKNOWN);
}

TEST(NicNames, OfTheLoopbackMeanItWhateverElseIsThere)
{
	for (const char *name : {"via_lo", "/dev/via_lo", "/etc/via_lo", "/dev/via_lo0", "via_lo1"})
		for (int devices : {0, 1})
			EXPECT_EQ(opened(name, devices), LOOPBACK) << name;
	for (const char *name : {"via_l", "via_lox", "/dev/via_lo-1", "/via_lo", "/dev//via_lo"})
		EXPECT_EQ(opened(name, 1), UNKNOWN) << name;
	EXPECT_EQ(opened("nic0", 1, "nic0=via_lo"), LOOPBACK);
	EXPECT_EQ(opened("via_lo", 1, "via_lo=fake0"), FIRST);
}

TEST(NicNames, WithoutAnyDeviceTheFirstIsTheLoopbackAndThereIsNoSecond)
{
	for (const char *name : {"nic0", "VINIC", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"})
		EXPECT_EQ(opened(name, 0), LOOPBACK) << name;
	for (const char *name : {"nic1", "VINIC1", "\\\\.\\VI2", "bogus", "fake0"})
		EXPECT_EQ(opened(name, 0), UNKNOWN) << name;
}

TEST(NicNames, WithoutVerbsInTheKernelTheFirstIsTheLoopback)
{
	VIP_NIC_ATTRIBUTES attributes;
	VIP_NIC_HANDLE nic;

	fake_reset();
	fake_fail("ibv_get_device_list", 1, ENOSYS);
	ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
	EXPECT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
	EXPECT_STREQ(attributes.Name, "via_lo");
	EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	fake_reset();
}

// The message about a NIC that cannot be opened.
std::string complaint(const char *address, const char *address_bytes)
{
	Child child = passing_child({{"VIPL_ADDRESS_BYTES", address_bytes}}, [&] {
		VIP_NIC_HANDLE nic;
		fake_device device;

		fake_reset();
		fake_device_default(&device);
		device.addresses[0] = address;
		fake_set_devices(1, &device);
		EXPECT_EQ(VipOpenNic("nic0", &nic), VIP_ERROR_RESOURCE);
		EXPECT_EQ(fake_live_total(), 0);
	});
	return child.err;
}

TEST(NicNames, OfADeviceWithoutAnAddressOfUseAreComplainedAboutInWords)
{
	std::string lacks = "vipl: error: RDMA device fake0: its network interface has no ";

	for (const char *address : {"fd00::1", "fe80::1"})
		EXPECT_EQ(complaint(address, "6"),
			  lacks + "IPv4 address; its IPv6 address needs host addresses of 16 bytes "
				  "(VIPL_ADDRESS_BYTES=16)\n");
	EXPECT_EQ(complaint(nullptr, "6"), lacks + "IPv4 address\n");
	EXPECT_EQ(complaint(nullptr, "16"), lacks + "IP address\n");
}

TEST(NicNames, OfADeviceWithSeveralAddressesMeanTheFirstAndTheLogSaysSo)
{
	Child child = passing_child({{"VIPL_LOG", "info"}}, [] {
		VIP_NIC_HANDLE nic;
		fake_device device;

		fake_reset();
		fake_device_default(&device);
		device.addresses[1] = "10.9.9.2";
		fake_set_devices(1, &device);
		EXPECT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	});
	EXPECT_NE(child.err.find("RDMA device fake0 is reached at 10.9.9.1, and not at 10.9.9.2\n"),
		  std::string::npos)
		<< child.err;
}

TEST(NicNames, TheMapComesFirst)
{
	const char *map = "VINIC=fake2,my=fake1,nic0=fake1";

	EXPECT_EQ(opened("VINIC", 3, map), THIRD);
	EXPECT_EQ(opened("my", 3, map), SECOND);
	EXPECT_EQ(opened("nic0", 3, map), SECOND);
	EXPECT_EQ(opened("nic2", 3, map), THIRD) << "not in the map";
	EXPECT_EQ(opened("m", 3, map), UNKNOWN);
	EXPECT_EQ(opened("my=fake1", 3, map), UNKNOWN);
}

TEST(NicNames, MapsToDevicesThatAreNotThereAreInvalidParameter)
{
	EXPECT_EQ(opened("my", 3, "my=bogus"), UNKNOWN);
	EXPECT_EQ(opened("my", 3, "my="), UNKNOWN);
}

TEST(NicNames, JunkInTheMapIsHarmless)
{
	for (const char *map : {",", ",,,", "=", "my", "my=fake1,", ",my=fake1", "=fake1,my=fake1",
				"my,my=fake1", "x=y,,my=fake1,z"}) {
		std::string wanted = strstr(map, "my=fake1") ? SECOND : UNKNOWN;
		EXPECT_EQ(opened("my", 3, map), wanted) << map;
		EXPECT_EQ(opened("nic0", 3, map), FIRST) << map;
	}
	EXPECT_EQ(opened("my", 3, "my=" + std::string(200, 'x')), UNKNOWN);
}

TEST(NicNames, NullIsInvalidParameter)
{
	VIP_NIC_HANDLE nic;

	EXPECT_EQ(VipOpenNic(nullptr, &nic), VIP_INVALID_PARAMETER);
	EXPECT_EQ(VipOpenNic("nic0", nullptr), VIP_INVALID_PARAMETER);
}

} // namespace
