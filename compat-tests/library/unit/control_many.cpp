// SPDX-License-Identifier: BSD-2-Clause
// Hosts that would have a NIC keep more and more control connections.
#include "controlled.h"

namespace
{

class ManyControls : public ControlConnections
{
      protected:
	// Reads to the end. True when that is a reset, so nobody takes it for the end of the NIC.
	static bool ends_by_reset(Control &control)
	{
		int code;

		do {
			errno = 0;
			code = control.next();
		} while (code > 0);
		return code == 0 && errno == ECONNRESET;
	}
	static bool is_open(Control &control)
	{
		int code;

		while ((code = control.next(0)) > 0)
			;
		return code < 0;
	}
};

// The NIC has made these itself, to peers that have come and gone, and whose NICs are still open.
TEST_F(ManyControls, WithNicsThatAreConnectedNoMoreAreDroppedBeyondSixtyFour)
{
	ControlListener needed;
	auto s = connect_to(b, needed.port);
	Control control = needed.accept_up();
	Vi other = make_vi();
	std::vector<std::unique_ptr<ControlListener>> listeners;
	std::vector<Control> all;

	for (uint32_t i = 0; i < 100; i++) {
		listeners.push_back(std::make_unique<ControlListener>());
		auto t = connect_to(other, listeners.back()->port, PEER_QP + 1 + i);
		all.push_back(listeners.back()->accept_up());
		ASSERT_EQ(VipDisconnect(other), VIP_SUCCESS);
	}
	/* One of the 64 is needed. */
	for (size_t i = 0; i < 100 - 63; i++)
		ASSERT_TRUE(ends_by_reset(all[i])) << "the oldest go first: " << i;
	for (size_t i = 100 - 63; i < 100; i++)
		ASSERT_TRUE(is_open(all[i])) << i;
	expect_connected(control);
}

// A user of a peer's host may say that he is the peer's NIC, in any number of control connections.
TEST_F(ManyControls, WithOneNicAreDroppedBeyondSixtyFour)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control first = listener.accept_up();
	std::vector<Control> all;

	for (int i = 0; i < 200; i++) {
		all.push_back(Control("10.9.9.1", s->extra.port));
		all.back().send(WIRE_HELLO, {listener.port, 0, 0, 0});
		ASSERT_EQ(all.back().next(), WIRE_HELLO);
	}
	int open = 0;
	for (Control &each : all)
		open += is_open(each);
	EXPECT_EQ(open, 64);
	expect_connected(first);
}

// The first one is the NIC's own, as far as can be known.
TEST_F(ManyControls, WithOneNicAreDroppedButForTheFirst)
{
	ControlListener listener;

	fake_fail("connect", 1, EHOSTUNREACH);
	auto s = connect_to(b, listener.port);
	std::vector<Control> all;
	for (int i = 0; i < 200; i++) {
		all.push_back(Control("10.9.9.1", s->extra.port));
		all.back().send(WIRE_HELLO, {listener.port, 0, 0, 0});
		ASSERT_EQ(all.back().next(), WIRE_HELLO);
	}
	EXPECT_TRUE(ends_by_reset(all[1]));
	expect_connected(all[0]);
}

// The other end has dropped it, and would take a new one for one more that it does not need.
TEST_F(ManyControls, ThatAreResetAreNotMadeAgainWhenNoConnectionNeedsThem)
{
	ControlListener listener;
	auto s = connect_to(b, listener.port);
	Control control = listener.accept_up();

	expect_connected(control);
	ASSERT_EQ(VipDisconnect(b), VIP_SUCCESS);
	fake_fail("recv", 1, ECONNRESET);
	control.send_bytes("", 1); // makes the library read
	/* What the library does about it is done when it answers this one. */
	Control last("10.9.9.3", s->extra.port);
	last.send(WIRE_HELLO, {1, 0, 0, 0});
	ASSERT_EQ(last.next(), WIRE_HELLO);
	EXPECT_FALSE(listener.has_come(0));
}

} // namespace
