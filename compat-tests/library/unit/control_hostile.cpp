// SPDX-License-Identifier: BSD-2-Clause
// Control connections with broken and with hostile peers, and with system calls that fail.
#include "controlled.h"

namespace
{

class HostileControl : public ControlConnections
{
      protected:
	void SetUp() override
	{
		ControlConnections::SetUp();
		listener = std::make_unique<ControlListener>();
		s = connect_to(b, listener->port);
		control = std::make_unique<Control>(listener->accept_up());
		expect_connected(*control);
	}
	void TearDown() override
	{
		expect_connected(*control);
		s.reset();
		ControlConnections::TearDown();
	}
	Control stranger(const char *ip = "10.9.9.3")
	{
		return Control(ip, s->extra.port);
	}
	// Checks that the NIC still takes control connections, and answers.
	void expect_usable_control()
	{
		Control other = stranger();

		other.send(WIRE_HELLO, {4711, 0, 0, 0});
		EXPECT_EQ(other.next(), WIRE_HELLO);
	}
	static wire_control message(wire_code code, const wire_control_fields &fields)
	{
		wire_control made;

		wire_write_control(&made, code, &fields);
		return made;
	}
	std::unique_ptr<ControlListener> listener;
	std::unique_ptr<Stranger> s;
	std::unique_ptr<Control> control;
};

TEST_F(HostileControl, GarbageEndsTheConnectionThatItCameBy)
{
	for (int byte : {0, 0xA5, 0xFF, int{'V'}}) {
		std::string garbage(4096, static_cast<char>(byte));
		Control other = stranger();
		other.send_bytes(garbage.data(), garbage.size());
		EXPECT_EQ(other.next_answer(), 0) << byte;
	}
	expect_usable_control();
}

TEST_F(HostileControl, GarbageAfterAHelloEndsTheConnectionThatItCameBy)
{
	std::string garbage(4096, '\x5A');
	Control other = stranger();

	other.send(WIRE_HELLO, {listener->port, 0, 0, 0});
	ASSERT_EQ(other.next(), WIRE_HELLO);
	other.send_bytes(garbage.data(), garbage.size());
	EXPECT_EQ(other.next_answer(), 0);
	expect_usable_control();
}

TEST_F(HostileControl, AnotherVersionEndsTheConnection)
{
	for (int version : {0, WIRE_VERSION - 1, WIRE_VERSION + 1, 255}) {
		wire_control hello = message(WIRE_HELLO, {listener->port, 0, 0, 0});
		Control other = stranger();
		hello.version = static_cast<uint8_t>(version);
		other.send_bytes(&hello, sizeof(hello));
		EXPECT_EQ(other.next_answer(), 0) << version;
	}
	expect_usable_control();
}

TEST_F(HostileControl, NothingIsTakenBeforeTheHello)
{
	for (wire_code code : {WIRE_GONE, WIRE_ASK, WIRE_CONNECTED, WIRE_UNHEARD, WIRE_REQUEST}) {
		Control other = stranger("10.9.9.1"); // the address of b's peer
		other.send(code, {listener->port, PEER_QP, b.qp, psn});
		EXPECT_EQ(other.next_answer(), 0) << code;
	}
	expect_usable_control();
}

TEST_F(HostileControl, UnknownCodesMeanNothing)
{
	Control other = stranger("10.9.9.1");

	other.send(WIRE_HELLO, {4711, 0, 0, 0});
	ASSERT_EQ(other.next(), WIRE_HELLO);
	for (int code : {1, 2, 15, 21, 255})
		other.send(static_cast<wire_code>(code), {listener->port, PEER_QP, b.qp, psn});
	other.send(WIRE_ASK, {0, PEER_QP, b.qp, psn});
	EXPECT_EQ(other.next_answer(), WIRE_CONNECTED) << "it goes on";
}

TEST_F(HostileControl, MessagesMayComeInPieces)
{
	wire_control hello = message(WIRE_HELLO, {4711, 0, 0, 0}),
		     ask = message(WIRE_ASK, {0, PEER_QP, 4711, 3});
	std::string bytes(reinterpret_cast<char *>(&hello), sizeof(hello));
	Control other = stranger();

	bytes.append(reinterpret_cast<char *>(&ask), sizeof(ask));
	for (char byte : bytes) {
		uint64_t before = fake_calls("recv");
		other.send_bytes(&byte, 1);
		ASSERT_TRUE(eventually([&] { return fake_calls("recv") > before; }));
	}
	EXPECT_EQ(other.next(), WIRE_HELLO);
	EXPECT_EQ(other.next_answer(), WIRE_GONE);
}

TEST_F(HostileControl, HalfAMessageAndTheEndAreForgotten)
{
	for (size_t length : {1, 4, 19}) {
		wire_control hello = message(WIRE_HELLO, {listener->port, 0, 0, 0});
		Control other = stranger("10.9.9.1");
		other.send_bytes(&hello, length);
	}
	expect_usable_control();
}

TEST_F(HostileControl, ManyWhoSayHelloAndAreOfNoUseAreTurnedAway)
{
	std::vector<Control> all;

	for (int i = 0; i < 200; i++) {
		all.push_back(stranger());
		all.back().send(WIRE_HELLO, {static_cast<uint16_t>(1000 + i), 0, 0, 0});
		ASSERT_EQ(all.back().next(), WIRE_HELLO);
	}
	for (int i = 0; i < 200 - 64; i++)
		ASSERT_EQ(all[static_cast<size_t>(i)].next_answer(), 0) << "the oldest go first: " << i;
}

// At most 64 such connections, the latest, may take up memory and descriptors.
TEST_F(HostileControl, ManyWhoSayNothingAreTurnedAway)
{
	std::vector<Control> all;

	for (int i = 0; i < 100; i++)
		all.push_back(stranger());
	for (int i = 0; i < 100 - 64; i++)
		ASSERT_EQ(all[static_cast<size_t>(i)].next_answer(), 0) << "the oldest go first: " << i;
	for (int i = 100 - 64; i < 100; i++)
		ASSERT_EQ(all[static_cast<size_t>(i)].next(0), -1) << i;
	all.back().send(WIRE_HELLO, {4711, 0, 0, 0});
	EXPECT_EQ(all.back().next(), WIRE_HELLO) << "in time";
	expect_usable_control();
}

// A peer with port 0 in its request takes no control connections. So no control connection is that peer's.
TEST_F(HostileControl, WithoutAPortAreNobodysEnd)
{
	Vi none = make_vi();
	auto t = connect_to(none, 0, PEER_QP + 1);
	Control other = stranger("10.9.9.1");

	other.send(WIRE_HELLO, {0, 0, 0, 0});
	EXPECT_EQ(other.next_answer(), 0);
	other.close();
	expect_usable_control();
	EXPECT_EQ(state_of(none), VIP_STATE_CONNECTED);
	EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST), 0);
}

TEST_F(HostileControl, HellosMayComeAgain)
{
	control->send(WIRE_HELLO, {listener->port, 0, 0, 0});
	expect_connected(*control);
}

// Answers that a peer does not read must not delay those of other connections.
TEST_F(HostileControl, WhoReadsNothingIsCutOff)
{
	Control other = stranger();
	wire_control ask = message(WIRE_ASK, {0, PEER_QP, 4711, 3});
	std::vector<wire_control> many(4096, ask);
	bool is_cut_off = false;
	other.send(WIRE_HELLO, {4711, 0, 0, 0});
	for (int i = 0; i < 1000 && !is_cut_off; i++) // far more than sockets hold
		is_cut_off = !other.send_bytes(many.data(), many.size() * sizeof(ask));
	EXPECT_TRUE(is_cut_off);
	expect_usable_control();
}

// ---- system calls ----

TEST_F(HostileControl, WithoutDescriptorsWaitAndCostNothing)
{
	for (int round = 0; round < 3; round++) {
		uint64_t before = fake_calls("accept4");
		fake_fail("accept4", 1, round ? EMFILE : ENFILE);
		Control other = stranger();
		other.send(WIRE_HELLO, {4711, 0, 0, 0});
		EXPECT_EQ(other.next(), WIRE_HELLO) << "when it is tried again";
		EXPECT_EQ(fake_calls("accept4"), before + 2) << "not again and again";
		expect_usable_control();
	}
}

TEST_F(HostileControl, ThatAreGoneWhenTheyAreTakenAreForgotten)
{
	fake_fail("accept4", 1, ECONNABORTED);
	Control other = stranger(); // the library takes it at its next try
	expect_usable_control();
}

class FailingControl : public ControlConnections,
		       public testing::WithParamInterface<std::pair<const char *, int>>
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
	}
};

// Each of these calls fails by itself. The NIC then works without control connections.
TEST_P(FailingControl, IsDoneWithout)
{
	auto [function, nth] = GetParam();

	options([](fake_options &to) { to.sockets = true; });
	fake_fail(function, nth, EMFILE);
	open();
	b = make_vi();
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	EXPECT_EQ(s->extra.port, 0) << "nobody is told to connect";
	EXPECT_FALSE(listener.has_come(0));
	expect_state(b, VIP_STATE_CONNECTED);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
	expect_usable();
	/* These files may have the numbers of the descriptors that were closed. The NIC must not close them. */
	std::vector<int> files;
	for (int i = 0; i < 8; i++)
		files.push_back(dup(STDERR_FILENO));
	close();
	for (int fd : files)
		EXPECT_EQ(::close(fd), 0) << "it was closed with the NIC";
}

INSTANTIATE_TEST_SUITE_P(Control, FailingControl,
			 testing::Values(std::make_pair("socket", 1), std::make_pair("bind", 1),
					 std::make_pair("listen", 1), std::make_pair("getsockname", 1),
					 std::make_pair("epoll_create1", 2)),
			 [](const auto &each) { return std::string(each.param.first); });

using FailingOpen = Each<NicTest, std::pair<const char *, int>>;

TEST_P(FailingOpen, FailsForGoodAndLeavesNothing)
{
	auto [function, nth] = GetParam();

	options([](fake_options &to) { to.sockets = true; });
	fake_fail(function, nth, EMFILE);
	EXPECT_EQ(VipOpenNic("nic0", &nic), VIP_ERROR_RESOURCE);
	nic = nullptr;
	EXPECT_EQ(fake_live_total(), 0);
	open();
	expect_usable();
}

INSTANTIATE_TEST_SUITE_P(Control, FailingOpen,
			 testing::Values(std::make_pair("timerfd_create", 1),
					 std::make_pair("epoll_create1", 1)),
			 [](const auto &each) { return std::string(each.param.first); });

} // namespace
