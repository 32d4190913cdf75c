// SPDX-License-Identifier: BSD-2-Clause
// A port whose link goes down, and perhaps up again.
#include "support.h"

#include <unistd.h>

namespace
{

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

INSTANTIATE_TEST_SUITE_P(Levels, Links,
			 testing::Values(Level{{"Unreliable"}, VIP_SERVICE_UNRELIABLE}, Level{{"Reliable"}, VIP_SERVICE_RELIABLE_DELIVERY}),
			 ByName());

} // namespace
