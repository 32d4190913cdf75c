// SPDX-License-Identifier: BSD-2-Clause
// Which device, port, interface and address the name of a NIC means, also where there are several, and what is said of those
// that cannot be used.
#include "support.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

namespace
{

using Change = std::function<void(fake_device &)>;

void as_it_is(fake_device &)
{
}

void without_address(fake_device &device)
{
	device.addresses[0] = nullptr;
}

// A child opens `name` where there is a device "fake<N>" at 10.9.9.<N + 1> for each of these changes. Its output is the
// device and the address, or the code.
Child child_opens(
	const std::string &name, const std::vector<Change> &changes, const std::function<void()> &prepare = [] {},
	const std::string &map = "", const std::function<void()> &end = [] {})
{
	return passing_child({{"VIPL_LOG", "info"}, {"VIPL_NIC_MAP", map}}, [&] {
		std::vector<fake_device> devices(changes.size());
		std::vector<std::string> texts;
		VIP_NIC_ATTRIBUTES attributes;
		VIP_NIC_HANDLE nic = nullptr;

		fake_reset();
		for (size_t i = 0; i < changes.size(); i++) {
			texts.push_back("fake" + std::to_string(i));
			texts.push_back("10.9.9." + std::to_string(i + 1));
		}
		for (size_t i = 0; i < changes.size(); i++) {
			devices[i].name = texts[2 * i].c_str();
			devices[i].addresses[0] = texts[2 * i + 1].c_str();
			changes[i](devices[i]);
		}
		fake_set_devices(static_cast<int>(devices.size()), devices.data());
		prepare();
		VIP_RETURN rc = VipOpenNic(name.c_str(), &nic);
		if (rc == VIP_SUCCESS) {
			EXPECT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
			const auto *host = attributes.LocalNicAddress;
			printf("%s at %d.%d", attributes.Name, host[2], host[3]);
			EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
		} else {
			printf("%s", testing::PrintToString(rc).c_str());
		}
		end();
		EXPECT_EQ(fake_live_total(), 0);
		EXPECT_EQ(fake_take_misuse(), std::vector<std::string>());
	});
}

// The output, and the log if it has this in it.
void expect_opened(const Child &child, const std::string &wanted, const std::string &said = "")
{
	EXPECT_EQ(child.out, wanted) << child.err;
	expect_said(child.err, said);
}

constexpr char UNKNOWN[] = "VIP_INVALID_PARAMETER", UNUSABLE[] = "VIP_ERROR_RESOURCE";

// ---- names: by number, the device's own, or by VIPL_NIC_MAP ----

constexpr char FIRST[] = "fake0 at 9.1", SECOND[] = "fake1 at 9.2", THIRD[] = "fake2 at 9.3", LOOPBACK[] = "via_lo at 0.1";

// Of so many devices that are as they are.
void expect_all_opened(const std::vector<std::string> &names, size_t devices, const std::string &wanted, const std::string &map = "")
{
	for (const std::string &name : names) {
		SCOPED_TRACE(name + " with the map " + map);
		expect_opened(child_opens(name, std::vector<Change>(devices, as_it_is), [] {}, map), wanted);
	}
}

TEST(NicNames, OfHardwareThatIsGoneMeanDevicesByNumber)
{
	expect_all_opened({"nic0", "VINIC", "VINIC0", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"}, 3, FIRST);
	expect_all_opened({"nic1", "VINIC1", "/dev/via_eth1", "/dev/clanvi1", "\\\\.\\VI2"}, 3, SECOND);
	expect_all_opened({"nic2"}, 3, THIRD);
}

TEST(NicNames, UnknownOnesAreInvalidParameter)
{
	expect_all_opened({"", "bogus", "nic", "nic-1", "nic 0", "nic0x", "nic1000", "nic3", "NIC0", "VINICX", "/dev/via_eth",
			   "\\\\.\\VI0", "fake", "fake3", "fake0 ", "nic99999999999999999999"},
			  3, UNKNOWN);
	expect_all_opened({"nic1", std::string(5000, 'x')}, 1, UNKNOWN);
}

TEST(NicNames, OfTheLoopbackMeanItWhateverElseIsThere)
{
	for (size_t devices : {0, 1})
		expect_all_opened({"via_lo", "/dev/via_lo", "/etc/via_lo", "/dev/via_lo0", "via_lo1"}, devices, LOOPBACK);
	expect_all_opened({"via_l", "via_lox", "/dev/via_lo-1", "/via_lo", "/dev//via_lo"}, 1, UNKNOWN);
}

TEST(NicNames, WithoutAnyDeviceTheFirstIsTheLoopbackAndThereIsNoSecond)
{
	expect_all_opened({"nic0", "VINIC", "/dev/via_eth0", "/dev/clanvi0", "\\\\.\\VI1"}, 0, LOOPBACK);
	expect_all_opened({"nic1", "VINIC1", "\\\\.\\VI2", "bogus", "fake0"}, 0, UNKNOWN);
}

TEST(NicNames, TheMapComesFirst)
{
	const char *map = "VINIC=fake2,my=fake1,nic0=fake1";

	expect_all_opened({"VINIC", "nic2"}, 3, THIRD, map); // nic2 is not in the map
	expect_all_opened({"my", "nic0"}, 3, SECOND, map);
	expect_all_opened({"m", "my=fake1"}, 3, UNKNOWN, map);
	expect_all_opened({"nic0"}, 1, LOOPBACK, "nic0=via_lo");
	expect_all_opened({"via_lo"}, 1, FIRST, "via_lo=fake0");
	for (const char *nowhere : {"my=bogus", "my="})
		expect_all_opened({"my"}, 3, UNKNOWN, nowhere);
}

TEST(NicNames, WithoutVerbsInTheKernelTheFirstIsTheLoopback)
{
	expect_opened(child_opens("nic0", {as_it_is}, [] { fake_fail("ibv_get_device_list", 1, ENOSYS); }), LOOPBACK);
}

TEST(NicNames, JunkInTheMapIsHarmless)
{
	for (const char *map : {",", ",,,", "=", "my", "my=fake1,", ",my=fake1", "=fake1,my=fake1",
				"my,my=fake1", "x=y,,my=fake1,z"}) {
		expect_all_opened({"my"}, 3, strstr(map, "my=fake1") ? SECOND : UNKNOWN, map);
		expect_all_opened({"nic0"}, 3, FIRST, map);
	}
	expect_all_opened({"my"}, 3, UNKNOWN, "my=" + std::string(200, 'x'));
}

// ---- several ports ----

// What can be wrong with a port, and the words for it.
const struct {
	Change change;
	const char *words;
} states[] = {
	{[](fake_device &d) { d.port_up = false; }, "fake0 port 1, eth0, 10.9.9.1: the port is not active"},
	{[](fake_device &d) { d.interface_down = true; }, "fake0 port 1, eth0, 10.9.9.1: the interface is down"},
	{without_address, "fake0 port 1, eth0: the interface has no IPv4 address"},
	{[](fake_device &d) { d.addresses[0] = "fd00::1"; },
	 "fake0 port 1, eth0: the interface has no IPv4 address; its IPv6 address needs host addresses of 16 bytes"},
	{[](fake_device &d) { d.iwarp = true; }, "fake0: the device speaks iWARP"},
	{[](fake_device &d) {
		 d.infiniband = true;
		 without_address(d);
	 },
	 "fake0 port 1: no network interface of it has an address in this network namespace"},
};

TEST(Candidates, OfNumbersAreThePortsThatCanBeUsed)
{
	for (const auto &state : states) {
		const std::vector<Change> devices = {state.change, as_it_is, without_address, as_it_is};

		expect_opened(child_opens("nic0", devices), "fake1 at 9.2", std::string("after ") + state.words);
		expect_opened(child_opens("/dev/clanvi1", devices), "fake3 at 9.4",
			      "fake2 port 1, eth2: the interface has no IPv4 address");
		expect_opened(child_opens("nic2", devices), UNKNOWN);
	}
}

TEST(Candidates, ThatCannotBeUsedAreAnErrorWithItsReasonAndNeverTheLoopback)
{
	for (const auto &state : states)
		for (const char *name : {"nic0", "nic1", "fake0", "fake0:1"})
			expect_opened(child_opens(name, {state.change}), UNUSABLE, state.words);
	const Child both = child_opens("VINIC", {states[0].change, states[1].change});
	expect_opened(both, UNUSABLE, states[0].words);
	expect_opened(both, UNUSABLE, "fake1 port 1, eth1, 10.9.9.2: the interface is down");
}

// What the kernel tells of a device: the interfaces of its GIDs, and, as the first GID, that of a fake InfiniBand port.
void make_sysfs(const std::string &at, const std::string &interfaces)
{
	const std::string gids = at + "/ports/1/gids/", attributes = at + "/ports/1/gid_attrs/ndevs/";
	std::istringstream all(interfaces);
	std::string each;

	std::filesystem::create_directories(gids);
	std::filesystem::create_directories(attributes);
	for (int i = 0; all >> each; i++)
		std::ofstream(attributes + std::to_string(i)) << each << "\n";
	std::ofstream(gids + "0") << "fe80:0000:0000:0000:6661:6b65:" << (interfaces[3] == '0' ? "3000" : "3100") << ":0000\n";
}

TEST(Candidates, HaveNames)
{
	const std::vector<Change> devices = {[](fake_device &d) {
		d.addresses[1] = "10.9.9.7";
		d.vlan[0] = "10.9.8.1";
		d.vlan[1] = "10.9.8.2";
	}};
	const std::pair<const char *, std::vector<const char *>> cases[] = {
		{"fake0 at 9.1", {"fake0", "fake0:1", "eth0", "fake0@10.9.9.1", "nic0"}},
		{"fake0 at 9.7", {"fake0@10.9.9.7", "fake0:1@10.9.9.7", "eth0@10.9.9.7"}},
		{"fake0 at 8.1", {"eth0.100", "fake0@10.9.8.1"}},
		{"fake0 at 8.2", {"eth0.100@10.9.8.2"}},
		{UNKNOWN,
		 {"fake0:2", "fake0:", "fake0:1:1", "fake0@", "fake0@10.9.9.8", "fake0@10.9.9", "@10.9.9.1",
		  "eth0@10.9.8.1", "eth1", "lo", "eth0.10", "fake", ":1", "fake0@::ffff:1.2.3.4"}},
	};

	for (const auto &[wanted, names] : cases)
		for (const char *name : names) {
			expect_opened(child_opens(name, devices), wanted);
			if (*name != '@' && strncmp(name, "nic", 3))
				expect_opened(child_opens(
						      "my", devices, [] {}, std::string("my=") + name),
					      wanted);
		}
}

TEST(Candidates, AreCalledAsTheirDevicesFirst)
{
	const std::vector<Change> devices = {[](fake_device &d) { d.name = "eth1"; }, [](fake_device &d) { d.name = "eth0"; }};

	expect_opened(child_opens("eth0", devices), "eth0 at 9.2");
	expect_opened(child_opens("eth1", devices), "eth1 at 9.1");
}

// A name may have any characters, as administrators can give it.
TEST(Candidates, HaveOddNames)
{
	for (const char *odd : {"a@b", "a:1", "a@10.9.9.2", "@", ":"}) {
		const std::vector<Change> devices = {[=](fake_device &d) { d.name = odd; }, as_it_is};

		for (const char *behind : {"", ":1", "@10.9.9.1", ":1@10.9.9.1"})
			expect_opened(child_opens(std::string(odd) + behind, devices), std::string(odd) + " at 9.1");
		expect_opened(child_opens(std::string(odd) + ":2", devices), UNKNOWN);
		expect_opened(child_opens("fake1@10.9.9.2", devices), "fake1 at 9.2");
	}
}

TEST(Candidates, AreNotWhatNoNameIsAsLongAs)
{
	for (const size_t length : {127, 128, 129, 200})
		expect_opened(child_opens("nic0", {as_it_is}, [] {}, "nic0=" + std::string(length, 'x')), UNKNOWN,
			      "is called \"xxxxx");
}

TEST(Candidates, MayBeAtTheSecondPortOfADevice)
{
	const std::vector<Change> devices = {[](fake_device &d) { d.port = 2; }};

	for (const char *name : {"nic0", "fake0", "fake0:2", "eth0"})
		expect_opened(child_opens(name, devices), "fake0 at 9.1",
			      "is RDMA device fake0 port 2, eth0, 10.9.9.1: GID 1 (RoCE v2)");
	expect_opened(child_opens("fake0:1", devices), UNUSABLE, "fake0 port 1: the port is not active");
	expect_opened(child_opens("fake0:3", devices), UNKNOWN);
	expect_opened(child_opens("nic1", devices), UNKNOWN);
}

TEST(Candidates, AreToldInOneLine)
{
	expect_opened(child_opens("nic0", {as_it_is}), "fake0 at 9.1",
		      "vipl: info: nic0 is RDMA device fake0 port 1, eth0, 10.9.9.1: GID 1 (RoCE v2), Ethernet; it is "
		      "the first port that can "
		      "be used\n");
	expect_opened(child_opens("fake0@10.9.9.1", {[](fake_device &d) { d.infiniband = true; }}), "fake0 at 9.1",
		      "vipl: info: fake0@10.9.9.1 is RDMA device fake0 port 1, eth0, 10.9.9.1: GID 0, InfiniBand; it "
		      "is called so\n");
}

// One device that hangs, or is broken, keeps no other one from being opened by its name, nor one that comes before it.
TEST(Candidates, OthersAreNotOpened)
{
	const std::string home = testing::TempDir() + "sysfs." + std::to_string(getpid());
	const std::string sysfs[] = {home + "/0", home + "/1"};

	make_sysfs(sysfs[0], "eth0");
	make_sysfs(sysfs[1], "eth1 eth1.100");
	for (const bool infiniband : {false, true})
		for (const size_t good : {0, 1}) {
			const std::string number = std::to_string(good), address = "@10.9.9." + std::to_string(good + 1);
			std::vector<std::string> names = {"fake" + number, "fake" + number + ":1", "eth" + number,
							  "fake" + number + address, "eth" + number + address};
			std::vector<Change> devices;

			for (size_t i = 0; i < 2; i++)
				devices.push_back([&, i](fake_device &d) {
					d.sysfs = sysfs[i].c_str();
					d.infiniband = infiniband;
					d.hangs = i != good;
				});
			if (!good)
				names.push_back("nic0");
			for (const std::string &name : names)
				expect_opened(child_opens(name, devices), "fake" + number + " at 9." + std::to_string(good + 1));
			for (const char *name : {"fake2", "eth2", "lo", "@10.9.9.1"})
				expect_opened(child_opens(name, devices), UNKNOWN,
					      "no RDMA device, port, interface or address is called");
		}
	std::filesystem::remove_all(home);
}

TEST(Candidates, ThatHangKeepNoOtherThreadFromOpening)
{
	std::promise<VIP_RETURN> opened;
	std::thread other;

	expect_opened(child_opens("fake0", {as_it_is, as_it_is},
				  [&] {
					  fake_before("ibv_open_device", 1, [&] {
						  other = std::thread([&] {
							  VIP_NIC_HANDLE nic = nullptr;

							  opened.set_value(VipOpenNic("fake1", &nic));
							  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
						  });
						  auto result = opened.get_future();
						  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(PATIENCE)),
							    std::future_status::ready);
					  });
				  },
				  "", [&] { other.join(); }),
		      "fake0 at 9.1");
}

// As an address is that is tentative, and one that has just gone.
TEST(Candidates, ThatRdmaCmDoesNotTakeAreNotUsed)
{
	const std::vector<Change> devices = {[](fake_device &d) { d.addresses[1] = "10.9.9.7"; }};
	const auto refuse_first = [] { fake_fail("rdma_bind_addr", 1, EADDRNOTAVAIL); };

	expect_opened(child_opens("nic0", devices, refuse_first), "fake0 at 9.7");
	expect_opened(child_opens("fake0@10.9.9.1", devices, refuse_first), UNUSABLE,
		      "fake0 port 1, eth0, 10.9.9.1: rdma_cm takes no RDMA device for this address");
}

TEST(Candidates, LinkLocalOnesComeLast)
{
	expect_opened(child_opens("nic0", {[](fake_device &d) {
					  d.addresses[0] = "169.254.7.7";
					  d.addresses[1] = "10.9.9.7";
				  }}),
		      "fake0 at 9.7");
}

// A call that fails says nothing of the device. So the next device does not take its place, and the error has its
// cause, whatever number it has.
TEST(Candidates, OfWhichNothingCanBeLearnedStayInTheirPlace)
{
	const struct {
		const char *function;
		const char *words;
	} cases[] = {
		{"ibv_open_device", "ibv_open_device(): "},
		{"ibv_query_device", "ibv_query_device(): "},
		{"ibv_query_port", "ibv_query_port(): "},
	};

	for (const auto &each : cases)
		for (int error : {ENOMEM, EMFILE, ENXIO, ENOENT, ENODEV}) {
			const auto fail = [&] { fake_fail(each.function, 1, error); };

			expect_opened(child_opens("nic0", {as_it_is, as_it_is}, fail), UNUSABLE, each.words);
			expect_opened(child_opens("nic1", {as_it_is, as_it_is}, fail), "fake1 at 9.2");
			expect_opened(child_opens("fake0", {as_it_is, as_it_is}, fail), UNUSABLE, each.words);
		}
}

TEST(Candidates, OfWhichNobodyCanBeAskedAreAnErrorWithItsCause)
{
	const struct {
		const char *function;
		int error;
		const char *words;
	} cases[] = {
		{"rdma_create_event_channel", ENOENT, "there is no /dev/infiniband/rdma_cm here: modprobe rdma_ucm"},
		{"rdma_create_event_channel", ENODEV, "the kernel has no rdma_ucm: modprobe rdma_ucm"},
		{"rdma_create_event_channel", EACCES, "this user may not open /dev/infiniband/rdma_cm"},
		{"getifaddrs", EAFNOSUPPORT,
		 "cannot list this machine's addresses: getifaddrs(): Address family not supported"},
		{"getifaddrs", EMFILE, "see ulimit -n"},
		{"ibv_get_device_list", EPERM,
		 "cannot list the RDMA devices: ibv_get_device_list(): Operation not permitted"},
		{"rdma_create_id", EMFILE, "rdma_create_id(): Too many open files"},
		{"rdma_bind_addr", EMFILE, "rdma_bind_addr(): Too many open files"},
		// The kernel has given the port a GID of this address: so it is librdmacm that does not find the
		// device.
		{"rdma_bind_addr", ENODEV, "librdmacm cannot open the device"},
	};

	for (const auto &each : cases)
		for (const char *name : {"nic0", "fake0", "fake0:1", "fake0@10.9.9.1", "eth0"})
			expect_opened(child_opens(name, {as_it_is}, [&] { fake_fail_always(each.function, each.error); }),
				      UNUSABLE, each.words);
}

} // namespace
