// SPDX-License-Identifier: BSD-2-Clause
// Each adapter of adapters.def: its NIC opens or says why not, its attributes can be had, and each kind of its addresses connects.
// What its data path does is in conformance, by the profiles.
#include "adapters.h"
#include "settings.h"
#include "support.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>

void PrintTo(const fake_adapter &adapter, std::ostream *out)
{
	*out << adapter.name;
}

namespace
{

// IPv6 addresses need host addresses of 16 bytes. This is set before the library reads it.
const int asked_for = setenv("VIPL_ADDRESS_BYTES", "16", 1);

class Adapter : public Each<NicTest, fake_adapter>
{
      protected:
	// The only device is the adapter, with this address.
	void plug_in(const char *address, const std::function<void(fake_device &)> &change)
	{
		fake_device device = GetParam().device;

		device.addresses[0] = address;
		change(device);
		fake_set_devices(1, &device);
		fake_set_options(&GetParam().options);
	}
	void open_it(const char *address = "10.9.9.1",
		     const std::function<void(fake_device &)> &change = [](fake_device &) {})
	{
		plug_in(address, change);
		open(GetParam().device.name);
	}
	std::vector<VIP_RELIABILITY_LEVEL> levels() const
	{
		std::vector<VIP_RELIABILITY_LEVEL> all;

		for (VIP_RELIABILITY_LEVEL level :
		     {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION})
			if (GetParam().levels & level)
				all.push_back(level);
		return all;
	}
};

TEST_P(Adapter, OpensAndTellsWhatItHas)
{
	open_it();
	const VIP_NIC_ATTRIBUTES attributes = nic_attributes();
	EXPECT_STREQ(attributes.Name, GetParam().device.name);
	EXPECT_EQ(attributes.ReliabilityLevelSupport, GetParam().levels);
	EXPECT_EQ(attributes.RDMAReadSupport, GetParam().levels & ~unsigned(VIP_SERVICE_UNRELIABLE));
	EXPECT_EQ(attributes.MaxSegmentsPerDesc, 252u);
	EXPECT_GE(attributes.MaxTransferSize, 32u * 1024) << "as VIA asks for";
}

using RefusedAdapter = Adapter;

TEST_P(RefusedAdapter, SaysWhy)
{
	plug_in("10.9.9.1", [](fake_device &) {});
	testing::internal::CaptureStderr();
	EXPECT_EQ(VipOpenNic(GetParam().device.name, &nic), VIP_ERROR_RESOURCE);
	expect_said(testing::internal::GetCapturedStderr(), GetParam().refused);
	EXPECT_EQ(fake_live_total(), 0);
}

// As many VIs as are told are made on a device that has few, since the real ones have thousands.
TEST_P(Adapter, GivesAsManyEntriesAndVisAsItTells)
{
	VIP_CQ_HANDLE cq = nullptr;

	open_it("10.9.9.1", [](fake_device &d) { d.max_qp = 40; });
	const VIP_NIC_ATTRIBUTES attributes = nic_attributes();
	EXPECT_EQ(VipCreateCQ(nic, attributes.MaxCQEntries, &cq), VIP_SUCCESS) << attributes.MaxCQEntries;
	if (cq) {
		EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	}
	EXPECT_LE(attributes.MaxVI, 40u);
	for (VIP_ULONG i = 0; i < attributes.MaxVI && !HasFailure(); i++)
		make_vi();
}

// A copy needs registered memory of the library's, which it has not yet.
TEST_P(Adapter, SendsAsManySegmentsAsARequestTakesWithoutACopy)
{
	const size_t count = std::min<size_t>(static_cast<size_t>(GetParam().device.max_sge), 16);
	std::vector<Segment> segments;
	std::string sent;

	open_it();
	make_pair();
	ASSERT_FALSE(HasFatalFailure());
	const uint64_t regions = fake_calls("ibv_reg_mr");
	for (size_t i = 0; i < 64 * count; i++)
		*memory.data(1000 + i) = static_cast<char>(i * 37 / 4);
	for (size_t i = 0; i < count; i++) { // of uneven lengths, and a few bytes apart
		segments.push_back({memory.data(1000 + 64 * i), 1 + i * 7 % 61});
		sent.append(memory.data(1000 + 64 * i), segments[i].length);
	}
	VIP_DESCRIPTOR *r = posted_receive(b, 0, {{memory.data(), 1000}}), *s = posted_send(a, 1, segments);
	expect_received(b, r);
	expect_sent(a, s);
	EXPECT_EQ(std::string(memory.data(), sent.size()), sent);
	EXPECT_EQ(fake_calls("ibv_reg_mr"), regions);
}

// So they need not be fetched from memory. A device that ignores the flag does no harm.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they handle SIGSEGV: then memory may be protected
TEST_P(Adapter, TakesShortMessagesInline)
{
	open_it();
	make_pair();
	ASSERT_FALSE(HasFatalFailure());
	by_hand(true);
	posted_receive(b, 0, {{memory.data(), 64}});
	VIP_DESCRIPTOR *s = posted_send(a, 1, {{memory.data(64), 32}});
	EXPECT_EQ((fake_posted_flags(a.qp, 0) & IBV_SEND_INLINE) != 0, GetParam().device.max_inline > 0);
	by_hand(false);
	expect_sent(a, s);
}
#endif

// The end waits until the device has answered. It cannot be seen whether one has that does not tell a queue pair's state.
TEST_P(Adapter, IsNotAskedAgainAndAgainWhetherItHasAnswered)
{
	open_it();
	vi_kind.EnableRdmaWrite = VIP_FALSE;
	make_pair();
	ASSERT_FALSE(HasFatalFailure());
	const uint64_t asked = fake_calls("ibv_query_qp");
	VIP_DESCRIPTOR *w = write_descriptor(0, memory.data(64), {memory.data(), 8});
	expect_send(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_LT(fake_calls("ibv_query_qp"), asked + 20);
}

// Giving RDMA rights to a registered region needs ibv_rereg_mr.
TEST_P(Adapter, GivesRightsToARegionIfItCanRegisterAnew)
{
	VIP_MEM_ATTRIBUTES rights{};
	VIP_MEM_HANDLE handle = 0;

	open_it();
	ASSERT_EQ(VipRegisterMem(nic, memory.data(), 4096, &rights, &handle), VIP_SUCCESS);
	EXPECT_TRUE(handle && handle != 0xFFFFFFFF);
	rights.EnableRdmaWrite = VIP_TRUE;
	EXPECT_EQ(VipSetMemAttributes(nic, memory.data(), handle, &rights),
		  GetParam().device.rereg_mr ? VIP_SUCCESS : VIP_ERROR_NOT_SUPPORTED);
}

// Over RoCE each address has a GID of its own; over InfiniBand the addresses are IPoIB's, and the GID is the port's.
TEST_P(Adapter, IsReachedAtEachKindOfAddress)
{
	const std::vector<const char *> addresses = {"10.9.9.1", "fd00::1", "fe80::1"};
	const unsigned ports = strncmp(GetParam().name, "mlx4", 4) == 0 ? 2 : 1; // of the device
	for (unsigned i = 0; i < ports * addresses.size(); i++) {
		const char *address = addresses[i % addresses.size()];
		const auto port = static_cast<uint8_t>(1 + i / addresses.size()); // the one that is up
		SCOPED_TRACE(std::string(address) + " at port " + std::to_string(port));
		open_it(address, [=](fake_device &device) { device.port = port; });
		ASSERT_FALSE(HasFatalFailure());
		host = address;
		for (VIP_RELIABILITY_LEVEL level : levels()) {
			vi_kind.ReliabilityLevel = level;
			make_pair();
			ASSERT_FALSE(HasFatalFailure());
			expect_traffic(a, b);
		}
		start_over();
	}
}

std::vector<fake_adapter> adapters(bool are_refused)
{
	std::vector<fake_adapter> all;

	for (const fake_adapter &each : fake_adapters())
		if ((each.refused != nullptr) == are_refused)
			all.push_back(each);
	return all;
}

INSTANTIATE_TEST_SUITE_P(Adapters, Adapter, testing::ValuesIn(adapters(false)), ByName());
INSTANTIATE_TEST_SUITE_P(Adapters, RefusedAdapter, testing::ValuesIn(adapters(true)), ByName());

// Connects the NICs of two adapters, of which the first one requests, and calls `check`.
void connect_two(const char *first, const char *second, const std::function<void()> &check, VIP_RETURN wanted = VIP_SUCCESS)
{
	fake_reset();
	fake_device devices[2];
	VIP_NIC_HANDLE nics[2];

	for (size_t i = 0; i < 2; i++) {
		devices[i] = fake_adapter_named(i ? second : first)->device;
		devices[i].name = i ? "mlx5_1" : "mlx5_0";
		devices[i].addresses[0] = i ? "10.9.9.2" : "10.9.9.1";
	}
	fake_set_devices(2, devices);
	for (size_t i = 0; i < 2; i++) {
		VIP_NIC_ATTRIBUTES attributes{};
		char text[INET6_ADDRSTRLEN];
		ASSERT_EQ(VipOpenNic(devices[i].name, &nics[i]), VIP_SUCCESS);
		ASSERT_EQ(VipQueryNic(nics[i], &attributes), VIP_SUCCESS);
		EXPECT_STREQ(inet_ntop(AF_INET6, attributes.LocalNicAddress, text, sizeof(text)),
			     ("::ffff:" + std::string(devices[i].addresses[0])).c_str());
	}
	VIP_VI_ATTRIBUTES kind = vi_attributes();
	VIP_VI_HANDLE vis[2];
	for (size_t i = 0; i < 2; i++)
		ASSERT_EQ(VipCreateVi(nics[i], &kind, nullptr, nullptr, &vis[i]), VIP_SUCCESS);
	std::future<VIP_RETURN> requested = std::async(std::launch::async, [&] {
		Address local("::", "me"), remote("10.9.9.2", "door");
		VIP_RETURN rc;
		while ((rc = VipConnectRequest(vis[0], local.get(), remote.get(), PATIENCE, &kind)) == VIP_NO_MATCH)
			;
		return rc;
	});
	Address door("::", "door"), from;
	VIP_VI_ATTRIBUTES theirs;
	VIP_CONN_HANDLE conn = nullptr;
	EXPECT_EQ(VipConnectWait(nics[1], door.get(), PATIENCE, from.get(), &theirs, &conn), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, vis[1]), wanted == VIP_SUCCESS ? VIP_SUCCESS : VIP_TIMEOUT);
	EXPECT_EQ(requested.get(), wanted);
	check();
	for (VIP_NIC_HANDLE nic : nics)
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	EXPECT_EQ(fake_live_total(), 0);
	EXPECT_EQ(fake_take_misuse(), std::vector<std::string>());
}

// Both logs name a cause.
TEST(TwoDevices, WithoutACommonVersionOfRoceDoNotConnect)
{
	for (const bool is_server : {false, true}) {
		const Child child = passing_child({}, [&] {
			const Setting info{&config::log_level, 2};
			connect_two(is_server ? "rxe" : "vmw_pvrdma", is_server ? "vmw_pvrdma" : "rxe", [] {}, VIP_NOT_REACHABLE);
		});
		const std::string theirs = is_server ? "1" : "2", ours = is_server ? "2" : "1";
		for (const std::string &said : {"RDMA device mlx5_0: its port has no GID of RoCE v" + theirs + " for a connection",
						"RDMA device mlx5_1: its port has no GID of RoCE v" + ours +
							", with which 10.9.9.1 asks, so it answers with v" + theirs})
			EXPECT_NE(child.err.find(said), std::string::npos) << said << "\n" << child.err;
	}
}

void expect_gids_of(ibv_gid_type type)
{
	uint32_t numbers[2];

	ASSERT_EQ(fake_qps(numbers, 2), 2);
	for (uint32_t number : numbers) {
		ibv_gid_entry entry{};
		const uint32_t index = qp_attributes(Vi{nullptr, number}).ah_attr.grh.sgid_index;

		EXPECT_EQ(ibv_query_gid_ex(fake_qp(number)->context, 1, index, &entry, 0), 0);
		EXPECT_EQ(entry.gid_type, static_cast<uint32_t>(type));
	}
}

TEST(TwoDevices, TakeTheLatestVersionOfRoceThatBothHave)
{
	const struct {
		const char *requester, *server;
		ibv_gid_type type;
	} cases[] = {
		{"mlx5_roce", "mlx5_roce", IBV_GID_TYPE_ROCE_V2},   {"mlx5_roce", "mlx4_roce", IBV_GID_TYPE_ROCE_V1},
		{"mlx4_roce", "mlx5_roce", IBV_GID_TYPE_ROCE_V1},   {"bnxt_re", "vmw_pvrdma", IBV_GID_TYPE_ROCE_V1},
		{"vmw_pvrdma", "vmw_pvrdma", IBV_GID_TYPE_ROCE_V1}, {"rxe", "mlx5_roce", IBV_GID_TYPE_ROCE_V2},
		{"mlx5_roce", "rxe", IBV_GID_TYPE_ROCE_V2},
	};

	for (const auto &each : cases) {
		SCOPED_TRACE(std::string(each.requester) + " " + each.server);
		connect_two(each.requester, each.server, [&] { expect_gids_of(each.type); });
	}
}

// A virtual function shares its LID with others, so it gets no packets without a GRH.
TEST(TwoDevices, OneOfWhichDemandsAGrhBothHaveOne)
{
	for (bool is_server : {false, true})
		connect_two(is_server ? "mlx5_infiniband" : "mlx5_vf", is_server ? "mlx5_vf" : "mlx5_infiniband", [] {
			uint32_t numbers[2];
			ASSERT_EQ(fake_qps(numbers, 2), 2);
			for (uint32_t number : numbers)
				EXPECT_TRUE(qp_attributes(Vi{nullptr, number}).ah_attr.is_global);
		});
}

} // namespace
