// SPDX-License-Identifier: BSD-2-Clause
// VIPL_KEEPALIVE_SEC=0: there are no control connections, and no sockets for them.
#include "controlled.h"

namespace
{

class ControlOff : public ControlConnections
{
      protected:
	void SetUp() override
	{
	}
	void TearDown() override
	{
	}
};

TEST_F(ControlOff, ByTheSettingLeavesNoSockets)
{
	Child child = in_child({{"VIPL_KEEPALIVE_SEC", "0"}}, [this] {
		ControlConnections::SetUp();
		auto s = connect_to(b, 4711);
		EXPECT_EQ(s->extra.port, 0);
		expect_state(b, VIP_STATE_CONNECTED);
		s.reset();
		expect_lost(b);
		expect_usable();
		for (const char *function : {"socket", "bind", "listen"})
			EXPECT_EQ(fake_calls(function), 1u) << function << ": the one for vip_stat";
		for (const char *function : {"connect", "accept4"})
			EXPECT_EQ(fake_calls(function), 0u) << function;
		ControlConnections::TearDown();
	});

	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

TEST_F(ControlOff, IsNotTheDefault)
{
	Child child = in_child({}, [this] {
		ControlConnections::SetUp();
		EXPECT_EQ(fake_calls("listen"), 2u) << "this, and the one for vip_stat";
		ControlConnections::TearDown();
	});

	EXPECT_EQ(child.status, 0) << child.out << child.err;
}

} // namespace
