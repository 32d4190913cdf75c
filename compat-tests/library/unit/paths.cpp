// SPDX-License-Identifier: BSD-2-Clause
// The path of a connection: what both ports are like when it is made, and what becomes of it when they change, or their link goes
// down.
#include "line.h"

#include <unistd.h>

namespace
{

class Paths : public NicTest
{
      protected:
	static void change(const std::function<void(fake_device &)> &what, ibv_event_type told = IBV_EVENT_CLIENT_REREGISTER)
	{
		fake_change_device(what);
		fake_async_event_port(told, "fake0");
	}
	void open_infiniband(const std::function<void(fake_device &)> &more = [](fake_device &) {})
	{
		open_with([&](fake_device &d) {
			d.infiniband = true;
			d.lid = 0x31;
			more(d);
		});
	}
	// The NIC is that of the VLAN.
	void open_vlan(int mtu)
	{
		const auto change = [=](fake_device &d) {
			d.addresses[0] = "10.9.8.1";
			d.vlan[0] = "10.9.9.1";
			d.vlan_mtu = mtu;
		};

		open_with(change, "eth0.100");
	}
	// A request of a's that b can accept.
	std::future<VIP_RETURN> request_of_a()
	{
		a = make_vi();
		b = make_vi();
		auto requested = request_async(a, "door");
		EXPECT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
		return requested;
	}
	void expect_mtu(ibv_mtu mtu)
	{
		for (const Vi *vi : {&a, &b})
			EXPECT_EQ(qp_attributes(*vi).path_mtu, mtu);
	}
	void expect_partition(unsigned index)
	{
		for (const Vi *vi : {&a, &b})
			EXPECT_EQ(qp_attributes(*vi).pkey_index, index);
	}
	void expect_global(bool is_global)
	{
		for (const Vi *vi : {&a, &b}) {
			const ibv_ah_attr path = qp_attributes(*vi).ah_attr;

			EXPECT_EQ(path.is_global, is_global);
			EXPECT_EQ(path.grh.hop_limit > 0, is_global);
		}
		expect_traffic(a, b);
	}
};

TEST_F(Paths, HaveTheMtuThatThePortHasWhenTheyAreMade)
{
	open();
	make_pair();
	expect_mtu(IBV_MTU_1024);
	fake_change_device([](fake_device &d) { d.mtu = 512; }); // nobody tells of it
	make_pair();
	expect_mtu(IBV_MTU_512);
	expect_traffic(a, b);
}

// The port's is that of its largest interface, and rdma_cm of the fake knows no other.
TEST_F(Paths, HaveTheMtuThatFitsTheirInterface)
{
	const std::pair<int, ibv_mtu> cases[] = {
		{9000, IBV_MTU_1024}, {1024 + 96, IBV_MTU_1024}, {1024 + 95, IBV_MTU_512}, {512 + 96, IBV_MTU_512}, {300, IBV_MTU_256}};

	for (const auto &[mtu, wanted] : cases) {
		open_vlan(mtu);
		make_pair();
		expect_mtu(wanted);
		expect_traffic(a, b);
		start_over();
	}
}

// Then it has another index, with the same name, address and GID.
TEST_F(Paths, HaveTheMtuThatFitsTheirInterfaceAlsoAfterItWasMadeAnew)
{
	open_vlan(512 + 96);
	fake_change_device([](fake_device &d) { d.vlan_made++; });
	make_pair();
	expect_mtu(IBV_MTU_512);
}

// Asking takes the NIC's lock, and of some cards their firmware. The requester's port is asked with the route, too, which many use.
TEST_F(Paths, AskEachEndsPortOnce)
{
	open();
	make_pair();
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 3; i++) { // a route is found anew after five seconds, which asks once more
		const uint64_t asked = fake_calls("ibv_query_port");
		make_pair();
		least = std::min(least, fake_calls("ibv_query_port") - asked);
	}
	EXPECT_EQ(least, 2);
}

TEST_F(Paths, WhosePartitionCannotBeReadAreErrorResource)
{
	open_infiniband();
	a = make_vi();
	fake_fail("ibv_query_pkey", 1, EMFILE);
	EXPECT_EQ(request(a, "nobody", 5000), VIP_ERROR_RESOURCE);
	make_pair();
	expect_traffic(a, b);
}

// The answer comes when the requester's MTU is no longer what its request has said.
TEST_F(Paths, HaveTheMtuThatTheRequestersPortHasAfterTheAnswer)
{
	open();
	auto requested = request_of_a();
	ASSERT_FALSE(HasFailure());
	fake_change_device([](fake_device &d) { d.mtu = 256; });
	ASSERT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	ASSERT_EQ(requested.get(), VIP_SUCCESS);
	expect_mtu(IBV_MTU_256);
}

// The server has taken what it was told. Packets of that size would get lost.
TEST_F(Paths, AreAskedForAgainWhereTheRequestersMtuHasSunkSinceTheRequest)
{
	open();
	auto requested = request_of_a();
	ASSERT_FALSE(HasFailure());
	fake_before("sendmsg", 1, [] { // ACCEPT
		fake_change_device([](fake_device &d) { d.mtu = 256; });
	});
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	uint32_t numbers[2];
	ASSERT_EQ(fake_qps(numbers, 2), 2);
	for (uint32_t number : numbers) // other queue pairs than at first
		EXPECT_EQ(qp_attributes(Vi{nullptr, number}).path_mtu, IBV_MTU_256);
	expect_traffic(a, b);
}

// As when the address is taken away while the server thinks.
TEST_F(Paths, SayThatTheirGidHasGoneNotThatItIsOfAnotherVersion)
{
	open();
	auto requested = request_of_a();
	ASSERT_FALSE(HasFailure());
	fake_before("sendmsg", 1, [] { fake_move_address(nullptr, 1, false); });
	testing::internal::CaptureStderr();
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
	const std::string log = testing::internal::GetCapturedStderr();
	expect_said(log, "fake0: its port has no GID for a connection; if another device has the address now");
}

// The GID is the port's, and the table of keys has the child's partition behind the port's first one.
TEST_F(Paths, OfAnIpoibChildThatTheNicIsCalledByAreInItsPartition)
{
	open_infiniband([](fake_device &d) {
		d.pkeys[1] = 0x8123;
		d.vlan[0] = "10.9.8.1";
		d.vlan_pkey = 0x8123;
	});
	make_pair();
	expect_partition(0);
	close();
	open("eth0.100");
	host = "10.9.8.1";
	make_pair();
	expect_partition(1);
	expect_traffic(a, b);
	fake_address("10.9.8.50", FAKE_REACH_SILENT);
	EXPECT_EQ(request(make_vi(), "far", 50, "10.9.8.50"), VIP_TIMEOUT);
	EXPECT_EQ(fake_kept_to(), std::vector<int>{102}); // the child, not its parent
}

TEST_F(Paths, HaveAGrhIfTheyLeaveTheSubnetOrThePortDemandsIt)
{
	for (auto [hops, is_required] : {std::pair(0, false), {1, false}, {0, true}}) {
		SCOPED_TRACE(testing::Message() << hops << is_required);
		open_infiniband([hops = hops, is_required = is_required](fake_device &d) {
			d.hops = static_cast<uint8_t>(hops);
			d.grh_required = is_required;
		});
		make_pair();
		expect_global(hops || is_required);
		start_over();
	}
}

// Its packets have the LID of the card's port, which the subnet manager knows, so peers send there.
TEST_F(Paths, OfAPortThatTellsNoLidHaveTheSubnetManagers)
{
	open_infiniband([](fake_device &d) { d.grh_required = d.no_lid = true; });
	make_pair();
	expect_global(true);
	for (const Vi *vi : {&a, &b})
		EXPECT_EQ(qp_attributes(*vi).ah_attr.dlid, 0x31);
	change([](fake_device &) {}, IBV_EVENT_LID_CHANGE);
	expect_traffic(a, b);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
}

TEST_F(Paths, BeginAtTheGidOfTheNicsOwnInterface)
{
	open_with([](fake_device &d) { d.has_twin = true; });
	make_pair();
	for (const Vi *vi : {&a, &b})
		EXPECT_EQ(qp_attributes(*vi).ah_attr.grh.sgid_index, 2);
	expect_traffic(a, b);
}

// As that of a bond of two devices, of which the other one is active now.
TEST_F(Paths, AreNotFoundFromAnAddressThatIsAtAnotherPortNow)
{
	fake_device device;

	open();
	for (auto [name, port, wanted] : {std::tuple("fake1", 2, VIP_NOT_REACHABLE), std::tuple("fake0", 2, VIP_NOT_REACHABLE),
					  std::tuple("fake0", 1, VIP_NO_MATCH)}) {
		device.name = name;
		device.port = static_cast<uint8_t>(port);
		fake_set_devices(1, &device);
		testing::internal::CaptureStderr();
		EXPECT_EQ(request(make_vi(), "nobody", 5000), wanted) << name << ":" << port;
		const std::string log = testing::internal::GetCapturedStderr();
		if (device.name[4] == '1') { // the next one of such lines would come a second later
			expect_said(log, "fake0 port 1: its address is at fake1 port 2 now, so open the NIC again");
		}
	}
}

// What rdma_cm takes from its defaults (cma_roce_tos) both ends keep.
TEST_F(Paths, KeepTheTrafficClassAndTheServiceLevelThatRdmaCmHasFound)
{
	open_with([](fake_device &d) {
		d.traffic_class = 106;
		d.sl = 3;
	});
	make_pair();
	for (const Vi *vi : {&a, &b}) {
		EXPECT_EQ(qp_attributes(*vi).ah_attr.grh.traffic_class, 106);
		EXPECT_EQ(qp_attributes(*vi).ah_attr.sl, 3);
	}
}

// Data takes no other interface either. Within a host packets take none.
TEST_F(Paths, KeepTheSocketToTheInterfaceUnlessItIsOfOneHost)
{
	open();
	make_pair();
	EXPECT_EQ(fake_kept_to(), std::vector<int>());
	fake_address("10.9.9.50", FAKE_REACH_SILENT);
	EXPECT_EQ(request(make_vi(), "far", 50, "10.9.9.50"), VIP_TIMEOUT);
	EXPECT_EQ(fake_kept_to(), std::vector<int>{2});
}

// ---- changes ----

class EachLevel : public Each<Paths, Level>
{
      protected:
	void SetUp() override
	{
		Paths::SetUp();
		vi_kind.ReliabilityLevel = GetParam().level;
	}
	bool is_reliable() const
	{
		return GetParam().level != VIP_SERVICE_UNRELIABLE;
	}
	void expect_both_lost()
	{
		for (const Vi *vi : {&a, &b})
			expect_lost(*vi);
		expect_again();
	}
	void expect_goes_on()
	{
		expect_traffic(a, b);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
	}
};

// Peers send to the former one.
TEST_P(EachLevel, IsLostWithItsLid)
{
	open_infiniband();
	make_pair();
	change([](fake_device &d) { d.lid = 0x47; }, IBV_EVENT_LID_CHANGE);
	expect_both_lost();
	make_pair();
	EXPECT_EQ(qp_attributes(a).ah_attr.dlid, 0x47);
}

// The request has told the former one.
TEST_P(EachLevel, IsAskedForAgainWhereALidHasChangedSinceTheRequest)
{
	open_infiniband();
	auto requested = request_of_a();
	ASSERT_FALSE(HasFailure());
	change([](fake_device &d) { d.lid = 0x47; }, IBV_EVENT_LID_CHANGE);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_TIMEOUT);
	ASSERT_EQ(wait("door", PATIENCE), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_goes_on();
}

TEST_P(EachLevel, EndsWhereALidChangesBeforeBothEndsKnowOfTheConnection)
{
	open_infiniband();
	auto requested = request_of_a();
	ASSERT_FALSE(HasFailure());
	fake_before("sendmsg", 2, [] { // CONFIRM
		change([](fake_device &d) { d.lid = 0x47; }, IBV_EVENT_LID_CHANGE);
	});
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	expect_both_lost();
}

TEST_P(EachLevel, KnowsItsPartitionByAnIndex)
{
	open_infiniband([](fake_device &d) {
		d.pkeys[0] = 0x8001;
		d.pkeys[1] = 0xffff;
	});
	make_pair();
	change([](fake_device &d) { d.pkeys_backwards = true; }, IBV_EVENT_PKEY_CHANGE);
	if (is_reliable()) {
		expect_both_lost();
		return;
	}
	for (const Vi *vi : {&a, &b})
		EXPECT_TRUE(eventually([&] { return qp_attributes(*vi).pkey_index == 1; }));
	expect_goes_on();
}

// Others find the port by other ways then, of which the subnet's manager knows. A connection stays with its LID and partition.
TEST_P(EachLevel, StaysAfterAChangeAndTheNextOneAsksForAWayAgain)
{
	open_infiniband();
	for (ibv_event_type type : {IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE, IBV_EVENT_PKEY_CHANGE,
				    IBV_EVENT_LID_CHANGE}) {
		make_pair();
		const uint64_t asked = fake_calls("rdma_resolve_route"), heard = fake_calls("ibv_ack_async_event");
		change([](fake_device &) {}, type);
		EXPECT_TRUE(eventually([&] { return fake_calls("ibv_ack_async_event") > heard; }));
		expect_goes_on();
		make_pair();
		EXPECT_EQ(fake_calls("rdma_resolve_route"), asked + 1);
	}
}

const auto LEVELS = testing::Values(Level{{"Unreliable"}, VIP_SERVICE_UNRELIABLE}, Level{{"Reliable"}, VIP_SERVICE_RELIABLE_DELIVERY});

INSTANTIATE_TEST_SUITE_P(Paths, EachLevel, LEVELS, ByName());

// ---- a link that goes down, and perhaps up again ----

class Links : public Each<NicTest, Level>
{
      protected:
	// With this time, in seconds, after which a silent peer is gone.
	void with_time(const char *keepalive, const std::function<void()> &body)
	{
		passing_child({{"VIPL_KEEPALIVE_SEC", keepalive}}, [&] {
			vi_kind.ReliabilityLevel = GetParam().level;
			open();
			make_pair();
			body();
			close();
		});
	}
	void expect_goes_on()
	{
		sleep(2);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
		expect_traffic(a, b);
	}
};

TEST_P(Links, ThatStayDownEndTheirConnections)
{
	with_time("1", [this] {
		VIP_DESCRIPTOR *r = posted_receive(a, 0, {});

		fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
		EXPECT_EQ(recv_wait(a, VIP_INFINITE), (Taken{VIP_DESCRIPTOR_ERROR, r}));
		for (const Vi *vi : {&a, &b})
			EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, *vi));
		EXPECT_EQ(errors.count(VIP_ERROR_CATASTROPHIC), 0);
		fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0");
		expect_again();
	});
}

TEST_P(Links, ThatAreUpAgainInTimeHaveDoneNoHarm)
{
	with_time("1", [this] {
		fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
		fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0");
		expect_goes_on();
	});
}

TEST_P(Links, OfAnotherPortDoNotMatter)
{
	with_time("1", [this] {
		fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0", 2);
		expect_goes_on();
		fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
		fake_async_event_port(IBV_EVENT_PORT_ACTIVE, "fake0", 2);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a)) << "its own is still down";
	});
}

TEST_P(Links, MayStayDownForEverIfAPeerMayBeSilentForEver)
{
	with_time("0", [this] {
		fake_async_event_port(IBV_EVENT_PORT_ERR, "fake0");
		expect_goes_on();
	});
}

INSTANTIATE_TEST_SUITE_P(Levels, Links, LEVELS, ByName());

} // namespace
