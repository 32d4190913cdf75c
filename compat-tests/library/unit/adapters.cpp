// SPDX-License-Identifier: BSD-2-Clause
// Each adapter of adapters.def: its NIC opens or says why not, its attributes can be had, data goes both ways at each of its
// levels, an end is told, and each kind of its addresses connects.
#include "adapters.h"
#include "support.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "base/config.h"
}
#pragma GCC diagnostic pop

void PrintTo(const fake_adapter &adapter, std::ostream *out)
{
	*out << adapter.name;
}

namespace
{

// IPv6 addresses need host addresses of 16 bytes. This is set before the library reads it.
const int asked_for = setenv("VIPL_ADDRESS_BYTES", "16", 1);

constexpr size_t MOST = 252, SOURCE = 64 * 1024, TARGET = 128 * 1024; // segments; offsets in the data

class Adapter : public Each<NicTest, fake_adapter>
{
      protected:
	// The only device is the adapter, with this address.
	void plug_in(const char *address = "10.9.9.1",
		     const std::function<void(fake_device &)> &change = [](fake_device &) {})
	{
		fake_device device = GetParam().device;

		device.addresses[0] = address;
		change(device);
		fake_set_devices(1, &device);
		fake_set_options(&GetParam().options);
	}
	void open_it()
	{
		open(GetParam().device.name);
	}
	bool is_refused() const
	{
		return GetParam().refused;
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
	// A descriptor of so many segments of uneven lengths, each a few bytes behind the former one, from this offset in the data.
	VIP_DESCRIPTOR *of_segments(size_t number, size_t offset, size_t count, unsigned control = 0, const void *remote = nullptr)
	{
		auto *d = reinterpret_cast<VIP_DESCRIPTOR *>(memory.data(number * 4096));

		memset(static_cast<void *>(d), 0, 4096);
		d->CS.Control = static_cast<VIP_UINT16>(control);
		if (remote)
			add(d, remote, 0);
		for (size_t i = 0; i < count; offset += length(i++) + 3)
			add(d, memory.data(offset), length(i));
		return d;
	}
	static size_t length(size_t segment)
	{
		return 1 + segment * 7 % 61;
	}
	static size_t total(size_t count)
	{
		size_t sum = 0;

		for (size_t i = 0; i < count; i++)
			sum += length(i);
		return sum;
	}
	void add(VIP_DESCRIPTOR *d, const void *at, size_t bytes)
	{
		VIP_DATA_SEGMENT &segment = (&d->DS[0] + d->CS.SegCount++)->Local;

		segment.Data.Address = const_cast<void *>(at);
		segment.Handle = memory.handle;
		segment.Length = static_cast<VIP_UINT32>(bytes);
	}
	std::string gathered(size_t offset, size_t count)
	{
		std::string all;

		for (size_t i = 0; i < count; offset += length(i++) + 3)
			all.append(memory.data(offset), length(i));
		return all;
	}
	// Fills the segments at the source, and clears those at the target.
	void paint(size_t count, unsigned seed)
	{
		for (size_t i = 0; i < total(count) + 3 * count; i++)
			memory.data(SOURCE)[i] = static_cast<char>(seed + i * 37 / 4);
		memset(memory.data(TARGET), 0, 64 * 1024);
	}
	void expect_message(Vi &from, Vi &to, size_t count)
	{
		paint(count, count + (&from == &a));
		VIP_DESCRIPTOR *r = of_segments(0, TARGET, count), *s = of_segments(1, SOURCE, count);
		ASSERT_EQ(post_recv(to, r), VIP_SUCCESS);
		ASSERT_EQ(post_send(from, s), VIP_SUCCESS);
		expect_received(to, r);
		expect_sent(from, s);
		EXPECT_EQ(r->CS.Length, total(count));
		EXPECT_EQ(gathered(TARGET, count), gathered(SOURCE, count));
	}
	// The address segment is one of the 252.
	void expect_write_and_read(Vi &from)
	{
		const size_t count = MOST - 1;

		paint(count, 7);
		VIP_DESCRIPTOR *w = of_segments(2, SOURCE, count, VIP_CONTROL_OP_RDMAWRITE, memory.data(TARGET));
		ASSERT_EQ(post_send(from, w), VIP_SUCCESS);
		expect_sent(from, w, VIP_STATUS_OP_RDMA_WRITE);
		EXPECT_EQ(std::string(memory.data(TARGET), total(count)), gathered(SOURCE, count));
		if (vi_kind.ReliabilityLevel == VIP_SERVICE_UNRELIABLE)
			return;
		const std::string there(memory.data(SOURCE), total(count));
		VIP_DESCRIPTOR *d = of_segments(3, TARGET, count, VIP_CONTROL_OP_RDMAREAD, memory.data(SOURCE));
		ASSERT_EQ(post_send(from, d), VIP_SUCCESS);
		expect_sent(from, d, VIP_STATUS_OP_RDMA_READ);
		EXPECT_EQ(gathered(TARGET, count), there);
	}
	void use_level(VIP_RELIABILITY_LEVEL level)
	{
		vi_kind.ReliabilityLevel = level;
		vi_kind.EnableRdmaRead = level != VIP_SERVICE_UNRELIABLE;
	}
};

TEST_P(Adapter, OpensOrSaysWhyNot)
{
	VIP_NIC_ATTRIBUTES attributes{};

	plug_in();
	if (is_refused()) {
		testing::internal::CaptureStderr();
		EXPECT_EQ(VipOpenNic(GetParam().device.name, &nic), VIP_ERROR_RESOURCE);
		EXPECT_NE(testing::internal::GetCapturedStderr().find(GetParam().refused), std::string::npos);
		EXPECT_EQ(fake_live_total(), 0);
		return;
	}
	open_it();
	EXPECT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
	EXPECT_STREQ(attributes.Name, GetParam().device.name);
	EXPECT_EQ(attributes.ReliabilityLevelSupport, GetParam().levels);
	EXPECT_EQ(attributes.RDMAReadSupport, GetParam().levels & ~unsigned(VIP_SERVICE_UNRELIABLE));
	EXPECT_EQ(attributes.MaxSegmentsPerDesc, MOST);
	EXPECT_GE(attributes.MaxTransferSize, 32u * 1024) << "as VIA asks for";
}

// As many VIs as are told are made on a device that has few, since the real ones have thousands.
TEST_P(Adapter, GivesAsManyEntriesAndVisAsItTells)
{
	VIP_NIC_ATTRIBUTES attributes{};
	VIP_CQ_HANDLE cq = nullptr;

	if (is_refused())
		return;
	plug_in("10.9.9.1", [](fake_device &d) { d.max_qp = 40; });
	open_it();
	ASSERT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
	EXPECT_EQ(VipCreateCQ(nic, attributes.MaxCQEntries, &cq), VIP_SUCCESS) << attributes.MaxCQEntries;
	if (cq) {
		EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	}
	EXPECT_LE(attributes.MaxVI, 40u);
	for (VIP_ULONG i = 0; i < attributes.MaxVI && !HasFailure(); i++)
		make_vi();
}

TEST_P(Adapter, CarriesMessagesOfNoOneAndAllSegmentsBothWays)
{
	if (is_refused())
		return;
	plug_in();
	open_it();
	allow_reads();
	for (VIP_RELIABILITY_LEVEL level : levels()) {
		SCOPED_TRACE(level);
		use_level(level);
		make_pair();
		for (size_t count : {size_t{0}, size_t{1}, size_t{2}, MOST})
			for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
				ASSERT_FALSE(HasFatalFailure());
				expect_message(*from, *to, count);
			}
		for (Vi *from : {&a, &b})
			expect_write_and_read(*from);
		expect_again();
	}
}

// A copy needs registered memory of the library's, which it has not yet.
TEST_P(Adapter, SendsAsManySegmentsAsARequestTakesWithoutACopy)
{
	const size_t count = std::min<size_t>(static_cast<size_t>(GetParam().device.max_sge), 16);

	if (is_refused())
		return;
	plug_in();
	open_it();
	make_pair();
	ASSERT_FALSE(HasFatalFailure());
	const uint64_t regions = fake_calls("ibv_reg_mr");
	paint(count, 3);
	VIP_DESCRIPTOR *r = of_segments(0, TARGET, 0), *s = of_segments(1, SOURCE, count);
	add(r, memory.data(TARGET), 4096);
	ASSERT_EQ(post_recv(b, r), VIP_SUCCESS);
	ASSERT_EQ(post_send(a, s), VIP_SUCCESS);
	expect_received(b, r);
	expect_sent(a, s);
	EXPECT_EQ(std::string(memory.data(TARGET), total(count)), gathered(SOURCE, count));
	EXPECT_EQ(fake_calls("ibv_reg_mr"), regions);
}

// So they need not be fetched from memory. A device that ignores the flag does no harm.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they handle SIGSEGV: then memory may be protected
TEST_P(Adapter, TakesShortMessagesInline)
{
	if (is_refused())
		return;
	plug_in();
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

TEST_P(Adapter, TellsBothEndsOfADisconnect)
{
	if (is_refused())
		return;
	plug_in();
	open_it();
	for (VIP_RELIABILITY_LEVEL level : levels()) {
		SCOPED_TRACE(level);
		vi_kind.ReliabilityLevel = level;
		make_pair();
		ASSERT_FALSE(HasFatalFailure());
		VIP_DESCRIPTOR *ours = posted_receive(a, 0, {{memory.data(), 8}});
		VIP_DESCRIPTOR *theirs = posted_receive(b, 1, {{memory.data(), 8}});
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		expect_state(a, VIP_STATE_IDLE);
		expect_received(a, ours, VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, b));
		expect_state(b, VIP_STATE_ERROR);
		expect_received(b, theirs, VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
		connect(a, b, "again");
		expect_traffic(a, b);
	}
}

// The end waits until the device has answered. It cannot be seen whether one has that does not tell a queue pair's state.
TEST_P(Adapter, IsNotAskedAgainAndAgainWhetherItHasAnswered)
{
	if (is_refused())
		return;
	plug_in();
	open_it();
	vi_kind.EnableRdmaWrite = VIP_FALSE;
	make_pair();
	ASSERT_FALSE(HasFatalFailure());
	const uint64_t asked = fake_calls("ibv_query_qp");
	VIP_DESCRIPTOR *w = write_descriptor(0, memory.data(64), {memory.data(), 8});
	ASSERT_EQ(post_send(a, w), VIP_SUCCESS);
	expect_sent(a, w, VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR);
	expect_state(b, VIP_STATE_ERROR);
	EXPECT_LT(fake_calls("ibv_query_qp"), asked + 20);
}

// Giving RDMA rights to a registered region needs ibv_rereg_mr.
TEST_P(Adapter, GivesRightsToARegionIfItCanRegisterAnew)
{
	VIP_MEM_ATTRIBUTES rights{};
	VIP_MEM_HANDLE handle = 0;

	if (is_refused())
		return;
	plug_in();
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
	if (is_refused())
		return;
	const std::vector<const char *> addresses = {"10.9.9.1", "fd00::1", "fe80::1"};
	const unsigned ports = strncmp(GetParam().name, "mlx4", 4) == 0 ? 2 : 1; // of the device
	for (unsigned i = 0; i < ports * addresses.size(); i++) {
		const char *address = addresses[i % addresses.size()];
		const auto port = static_cast<uint8_t>(1 + i / addresses.size()); // the one that is up
		SCOPED_TRACE(std::string(address) + " at port " + std::to_string(port));
		plug_in(address, [=](fake_device &device) { device.port = port; });
		open_it();
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

INSTANTIATE_TEST_SUITE_P(Adapters, Adapter, testing::ValuesIn(fake_adapters()), ByName());

// Connects the NICs of two adapters, of which the first one requests, and calls `check`.
void connect_two(const char *first, const char *second, const std::function<void(VIP_VI_HANDLE, VIP_VI_HANDLE)> &check,
		 VIP_RETURN wanted = VIP_SUCCESS)
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
	check(vis[0], vis[1]);
	for (VIP_NIC_HANDLE nic : nics)
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	EXPECT_EQ(fake_live_total(), 0);
	EXPECT_TRUE(fake_take_misuse().empty());
}

// Both logs name a cause.
TEST(TwoDevices, WithoutACommonVersionOfRoceDoNotConnect)
{
	for (const bool is_server : {false, true}) {
		const Child child = passing_child({}, [&] {
			const_cast<struct config *>(config())->log_level = 2; // info; the settings may have been read
			connect_two(
				is_server ? "rxe" : "vmw_pvrdma", is_server ? "vmw_pvrdma" : "rxe", [](VIP_VI_HANDLE, VIP_VI_HANDLE) {},
				VIP_NOT_REACHABLE);
		});
		const std::string theirs = is_server ? "1" : "2", ours = is_server ? "2" : "1";
		for (const std::string &said : {"RDMA device mlx5_0: its port has no GID of RoCE v" + theirs + " for a connection",
						"RDMA device mlx5_1: its port has no GID of RoCE v" + ours +
							", with which 10.9.9.1 asks, so it answers with v" + theirs})
			EXPECT_NE(child.err.find(said), std::string::npos) << said << "\n" << child.err;
	}
}

// One card with two ports is two devices. Each is a NIC with its own address, and the two can be connected.
TEST(TwoDevices, OfOneCardAreTwoNics)
{
	connect_two("mlx5_roce", "mlx5_roce", [](VIP_VI_HANDLE requester, VIP_VI_HANDLE server) {
		EXPECT_EQ(state_of(requester), VIP_STATE_CONNECTED);
		EXPECT_EQ(state_of(server), VIP_STATE_CONNECTED);
	});
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
		connect_two(each.requester, each.server, [&](VIP_VI_HANDLE, VIP_VI_HANDLE) { expect_gids_of(each.type); });
	}
}

// A virtual function shares its LID with others, so it gets no packets without a GRH.
TEST(TwoDevices, OneOfWhichDemandsAGrhBothHaveOne)
{
	for (bool is_server : {false, true})
		connect_two(is_server ? "mlx5_infiniband" : "mlx5_vf", is_server ? "mlx5_vf" : "mlx5_infiniband",
			    [](VIP_VI_HANDLE, VIP_VI_HANDLE) {
				    uint32_t numbers[2];
				    ASSERT_EQ(fake_qps(numbers, 2), 2);
				    for (uint32_t number : numbers)
					    EXPECT_TRUE(qp_attributes(Vi{nullptr, number}).ah_attr.is_global);
			    });
}

} // namespace
