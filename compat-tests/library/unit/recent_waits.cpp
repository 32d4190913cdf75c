// SPDX-License-Identifier: BSD-2-Clause
// Between two waits a server is busy, not absent. A request gets that answer then, and the requester repeats it.
#include "grace_time.h"
#include "line.h"
#include "two_vis.h"

#include <chrono>

namespace
{

class RecentWaits : public TwoVis
{
      protected:
	// Waits, but no request comes.
	void wait_in_vain(const std::string &door)
	{
		ASSERT_EQ(wait(door, 0, &conn), VIP_TIMEOUT);
	}
	// The code with which the NIC refuses a request, or 0 when it does not listen.
	static int refusal(const std::string &door, message_code code = MESSAGE_REQUEST)
	{
		Line line(RDMA, RDMA.connect(door));

		return line.say(good_message(code, door)) ? line.next() : 0;
	}
	// Waits until `grace_times` grace times after the beginning.
	void pass(double grace_times)
	{
		auto until = begin + std::chrono::duration<double, std::milli>(grace_times * grace_msec);
		EXPECT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > until; },
				       10 * LONG_GRACE_MSEC));
	}
	static bool no_listener(const std::string &door)
	{
		return eventually([&] { return !is_listened_for(door); });
	}
	std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
	VIP_CONN_HANDLE conn = nullptr;
};

TEST_F(RecentWaits, AreToldToWhoAsks)
{
	const GraceTime long_enough(LONG_GRACE_MSEC);

	wait_in_vain("door");
	EXPECT_EQ(refusal("door"), MESSAGE_BUSY);
	EXPECT_EQ(refusal("door"), MESSAGE_BUSY) << "as often as one asks";
	EXPECT_EQ(refusal("door", MESSAGE_PEER_REQUEST), MESSAGE_NO_MATCH)
		<< "who waits is for nobody's equal";
	EXPECT_EQ(refusal("another door"), 0);
	EXPECT_TRUE(no_listener("door"));
}

TEST_F(RecentWaits, ThatGotARequestAreRememberedToo)
{
	const GraceTime long_enough(LONG_GRACE_MSEC);

	connect(a, b, "door");
	EXPECT_EQ(refusal("door"), MESSAGE_BUSY);
}

// A NIC that has waited lately keeps a port from another NIC that waits, until its grace time is over.
TEST_F(RecentWaits, GiveWayToAnotherNicSoon)
{
	const GraceTime long_enough(LONG_GRACE_MSEC);
	VIP_NIC_HANDLE other;
	Address local("10.9.9.1", "door"), remote;
	VIP_VI_ATTRIBUTES attributes;

	ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
	wait_in_vain("door");
	auto waited = std::async(std::launch::async, [&] {
		return VipConnectWait(other, local.get(), PATIENCE, remote.get(), &attributes, &conn);
	});
	auto requested =
		std::async(std::launch::async, [this] { return request(a, "door", PATIENCE); });
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(refusal("door"), MESSAGE_BUSY) << "the first one's grace time is over";
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_REJECT);
	EXPECT_EQ(VipCloseNic(other), VIP_SUCCESS);
}

// Four NICs that have waited lately have all ports. A fifth NIC gets a port when a grace time is over.
TEST_F(RecentWaits, GiveWayToAFifthNicInTheEnd)
{
	std::vector<VIP_NIC_HANDLE> nics(5);
	Address local("10.9.9.1", "door"), remote;
	VIP_VI_ATTRIBUTES attributes;

	for (VIP_NIC_HANDLE &other : nics) {
		ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
		EXPECT_EQ(VipConnectWait(other, local.get(), 1, remote.get(), &attributes, &conn), VIP_TIMEOUT);
	}
	auto waited = std::async(std::launch::async, [&] {
		VIP_RETURN rc; // on a busy machine the others may stop to listen too late
		while ((rc = VipConnectWait(nics[4], local.get(), PATIENCE, remote.get(), &attributes, &conn)) ==
		       VIP_ERROR_RESOURCE)
			;
		return rc;
	});
	auto asked = std::async(std::launch::async, [this] {
		VIP_RETURN rc;
		while ((rc = request(a, "door", PATIENCE)) == VIP_NO_MATCH)
			;
		return rc;
	});
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(asked.get(), VIP_REJECT);
	for (VIP_NIC_HANDLE other : nics)
		EXPECT_EQ(VipCloseNic(other), VIP_SUCCESS);
}

// A server may wait, accept, prepare, and wait again.
TEST_F(RecentWaits, KeepARequestAliveForMoreThanTheGraceTime)
{
	wait_in_vain("door");
	auto requested =
		std::async(std::launch::async, [this] { return request(a, "door", VIP_INFINITE); });
	VIP_RETURN rc = VIP_TIMEOUT;
	for (double when = 0.5; when < 2 && rc == VIP_TIMEOUT; when += 0.5) {
		pass(when);
		rc = wait("door", 0, &conn);
	}
	if (rc == VIP_TIMEOUT)
		rc = wait("door", PATIENCE, &conn);
	ASSERT_EQ(rc, VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
}

TEST_F(RecentWaits, AreNotForEver)
{
	wait_in_vain("door");
	EXPECT_EQ(request(a, "door", VIP_INFINITE), VIP_NO_MATCH) << "the server has left for good";
	EXPECT_TRUE(no_listener("door"));
	expect_state(a, VIP_STATE_IDLE);
}

TEST_F(RecentWaits, AreRememberedUpToEight)
{
	const GraceTime long_enough(LONG_GRACE_MSEC);

	for (const char *door : {"1", "2", "3", "4", "5", "6", "7", "8"})
		wait_in_vain(door);
	wait_in_vain("1"); // now it is the latest one
	wait_in_vain("9");
	EXPECT_EQ(refusal("2"), 0) << "it was the oldest";
	for (const char *door : {"1", "3", "8", "9"})
		EXPECT_EQ(refusal(door), MESSAGE_BUSY) << door;
	EXPECT_TRUE(no_listener("9"));
}

TEST_F(RecentWaits, GoWithTheNic)
{
	for (const char *door : {"1", "2", "3"})
		wait_in_vain(door);
	close();
	for (const char *door : {"1", "2", "3"})
		EXPECT_FALSE(is_listened_for(door));
}

TEST_F(RecentWaits, ThatEndDoNotEndANewerWait)
{
	wait_in_vain("door");
	const uint64_t before = fake_calls("listen");
	auto waited = std::async(std::launch::async, [this] { return wait("door", 60000, &conn); });
	pass(1.5);
	auto requested =
		std::async(std::launch::async, [this] { return request(a, "door", VIP_INFINITE); });
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(fake_calls("listen"), before) << "there was always somebody who listened";
}

} // namespace
