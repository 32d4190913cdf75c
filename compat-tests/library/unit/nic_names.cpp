// SPDX-License-Identifier: BSD-2-Clause
// The device that the name of a NIC means: by number, by name, or by VIPL_NIC_MAP.
#include "support.h"

namespace
{

// A child opens `name` with so many devices "fake<N>". Its output is the name of the device, or the code.
Child child_opens(const std::string &name, int devices, const std::map<std::string, std::string> &environment,
		  const std::function<void(fake_device &first)> &change = [](fake_device &) {})
{
	static const char *const names[] = {"fake0", "fake1", "fake2"};
	static const char *const addresses[] = {"10.9.9.1", "10.9.9.2", "10.9.9.3"};
	fake_device list[3];

	for (int i = 0; i < 3; i++) {
		fake_device_default(&list[i]);
		list[i].name = names[i];
		list[i].addresses[0] = addresses[i];
	}
	return passing_child(environment, [&] {
		VIP_NIC_HANDLE nic = nullptr;
		VIP_NIC_ATTRIBUTES attributes;

		fake_reset();
		change(list[0]);
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
}

std::string opened(const std::string &name, int devices, const std::string &map)
{
	return child_opens(name, devices, {{"VIPL_NIC_MAP", map}}).out;
}

constexpr char FIRST[] = "fake0 at 1", SECOND[] = "fake1 at 2", THIRD[] = "fake2 at 3", LOOPBACK[] = "via_lo at 1";
constexpr char UNKNOWN[] = "VIP_INVALID_PARAMETER";

void expect_opened(const std::vector<std::string> &names, int devices, const std::string &wanted, const std::string &map = "")
{
	for (const std::string &name : names)
		EXPECT_EQ(opened(name, devices, map), wanted) << name;
}

TEST(NicNames, OfHardwareThatIsGoneMeanDevicesByNumber)
{
	expect_opened({"nic0", "VINIC", "VINIC0", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"}, 3, FIRST);
	expect_opened({"nic1", "VINIC1", "/dev/via_eth1", "/dev/clanvi1", "\\\\.\\VI2"}, 3, SECOND);
	expect_opened({"nic2"}, 3, THIRD);
}

TEST(NicNames, MayBeTheDevicesOwn)
{
	expect_opened({"fake0"}, 1, FIRST);
	expect_opened({"fake2"}, 3, THIRD);
}

TEST(NicNames, UnknownOnesAreInvalidParameter)
{
	expect_opened({"",	 "bogus",	  "nic",	  "nic-1", "nic 0", "nic0x",  "nic1000", "nic3",  "NIC0",
		       "VINICX", "/dev/via_eth", "\\\\.\\VI0", "fake",  "fake3", "fake0 ", "nic99999999999999999999"},
		      3, UNKNOWN);
	expect_opened({"nic1", std::string(5000, 'x')}, 1, UNKNOWN);
}

TEST(NicNames, OfTheLoopbackMeanItWhateverElseIsThere)
{
	for (int devices : {0, 1})
		expect_opened({"via_lo", "/dev/via_lo", "/etc/via_lo", "/dev/via_lo0", "via_lo1"}, devices, LOOPBACK);
	expect_opened({"via_l", "via_lox", "/dev/via_lo-1", "/via_lo", "/dev//via_lo"}, 1, UNKNOWN);
}

TEST(NicNames, WithoutAnyDeviceTheFirstIsTheLoopbackAndThereIsNoSecond)
{
	expect_opened({"nic0", "VINIC", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"}, 0, LOOPBACK);
	expect_opened({"nic1", "VINIC1", "\\\\.\\VI2", "bogus", "fake0"}, 0, UNKNOWN);
}

TEST(NicNames, TheMapComesFirst)
{
	const char *map = "VINIC=fake2,my=fake1,nic0=fake1";

	expect_opened({"VINIC", "nic2"}, 3, THIRD, map); // nic2 is not in the map
	expect_opened({"my", "nic0"}, 3, SECOND, map);
	expect_opened({"m", "my=fake1"}, 3, UNKNOWN, map);
	expect_opened({"nic0"}, 1, LOOPBACK, "nic0=via_lo");
	expect_opened({"via_lo"}, 1, FIRST, "via_lo=fake0");
	for (const char *nowhere : {"my=bogus", "my="})
		expect_opened({"my"}, 3, UNKNOWN, nowhere);
}

TEST(NicNames, WithoutVerbsInTheKernelTheFirstIsTheLoopback)
{
	EXPECT_EQ(child_opens("nic0", 1, {}, [](fake_device &) { fake_fail("ibv_get_device_list", 1, ENOSYS); }).out, LOOPBACK);
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

} // namespace
