// SPDX-License-Identifier: BSD-2-Clause
// Between two waits a server is busy, not absent. A request that comes soon after a wait is held for the next wait.
// A later one is told so, and the requester repeats it.
#include "line.h"
#include "process.h"
#include "settings.h"
#include "two_vis.h"

#include <chrono>
#include <thread>

namespace
{

// On the loopback device all processes of this host meet, those of other tests as well.
std::string door(const std::string &name = "")
{
	return std::to_string(getpid()) + name;
}

// Requests are held for a twentieth of the grace time. No test waits for that.
class Requests : public NicTest
{
	const GraceTime longer{20 * PATIENCE};
};

class HeldRequests : public Each<Requests, const Device *>
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open(GetParam()->name);
	}
	// A requester that is not of this library. It makes one request.
	Line ask(const std::string &own, const std::string &at = door(), message_code code = MESSAGE_REQUEST)
	{
		message request = good_message(code, at, own);
		Line asker(*GetParam(), at);

		request.version = GetParam()->version;
		EXPECT_TRUE(asker.say(request));
		return asker;
	}
	// Waits until the NIC has heard all earlier requests: it refuses this one at once. What comes while it accepts
	// may be heard after that. So it takes two.
	void let_arrive(const std::string &at = door())
	{
		for (int i = 0; i < 2; i++)
			EXPECT_EQ(ask("equal", at, MESSAGE_PEER_REQUEST).next(), MESSAGE_NO_MATCH);
	}
	void wait_in_vain(const std::string &at = door())
	{
		ASSERT_EQ(wait(at, 0), VIP_TIMEOUT);
	}
	// Takes a request without waiting. Returns its discriminator, or "" if there is none.
	std::string take(const std::string &at = door())
	{
		Address local("0.0.0.0", at), remote;
		VIP_VI_ATTRIBUTES attributes;

		if (VipConnectWait(nic, local.get(), 0, remote.get(), &attributes, &conn))
			return "";
		const VIP_NET_ADDRESS *from = remote.get();
		return {reinterpret_cast<const char *>(from->HostAddress) + from->HostAddressLen,
			from->DiscriminatorLen};
	}
};

INSTANTIATE_TEST_SUITE_P(Devices, HeldRequests, testing::Values(&RDMA, &VIA_LO), device_name);

TEST_P(HeldRequests, AreTakenInTheOrderInWhichTheyCame)
{
	std::vector<Line> askers;

	wait_in_vain();
	for (const char *own : {"1", "2", "3"}) {
		askers.push_back(ask(own));
		let_arrive();
	}
	for (const char *own : {"1", "2", "3"})
		EXPECT_EQ(take(), own);
	EXPECT_EQ(take(), "");
}

TEST_P(HeldRequests, AreForTheirDiscriminatorOnly)
{
	wait_in_vain(door("a"));
	wait_in_vain(door("b"));
	Line asker = ask("asker", door("a"));
	let_arrive(door("a"));
	EXPECT_EQ(take(door("b")), "");
	EXPECT_EQ(take(door("a")), "asker");
}

// Requests whose requester has gone count until the next wait, which leaves them out.
TEST_P(HeldRequests, AreAThousandAndTwentyFourAtMost)
{
	const FileLimit limit(4096);

	wait_in_vain();
	Line first = ask("first");
	let_arrive();
	for (int i = 2; i < 1024; i++)
		ask("gone");
	let_arrive();
	Line last = ask("last");
	let_arrive();
	EXPECT_EQ(ask("one too many").next(), MESSAGE_BUSY);
	EXPECT_EQ(take(), "first");
	Line later = ask("later");
	let_arrive();
	EXPECT_EQ(take(), "last");
	EXPECT_EQ(take(), "later");
}

TEST_P(HeldRequests, LeaveHalfOfTheFileDescriptorsToTheProgram)
{
	wait_in_vain();
	ASSERT_GT(next_descriptor(), 8u) << "more is left than is open";
	const FileLimit limit(next_descriptor() + 8);
	EXPECT_EQ(ask("asker").next(), MESSAGE_BUSY);
	EXPECT_EQ(take(), "");
}

// The client stays at the socket of the listener, which the agent looks at each second.
TEST_P(HeldRequests, KeepNobodyBusyWhereNoFileDescriptorIsLeft)
{
	wait_in_vain();
	const uint64_t before = fake_calls("accept4");
	fake_fail_always("accept4", EMFILE);
	auto asked = std::async(std::launch::async, [&] { return ask("asker"); });
	EXPECT_FALSE(eventually([&] { return fake_calls("accept4") - before > 12; }, 1500));
	EXPECT_GT(fake_calls("accept4"), before);
	fake_fail_always("accept4", 0);
	Line asker = asked.get();
	let_arrive();
	EXPECT_EQ(take(), "asker");
}

TEST_F(Requests, WithoutAFileDescriptorForTheAnswersAreOutOfResources)
{
	open("via_lo");
	a = make_vi();
	Gate gate(VIA_LO, door("full"));
	auto requested = request_async(a, door("full"));
	Line server = gate.accept();
	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	const Spoken answer(VIA_LO, MESSAGE_ACCEPT);

	const FileLimit limit(next_descriptor());
	ASSERT_TRUE(server.say(answer));
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
}

// A quarter of the limit may wait to be closed: of this limit none. Mostly that takes no time, so the pause is short.
TEST_F(Requests, WaitNoLongerThanDescriptorsOfOthersAreClosed)
{
	open("via_lo");
	ASSERT_EQ(wait(door("crowd"), 0), VIP_TIMEOUT);
	sockaddr_un address;
	const socklen_t length = local_place(door("crowd"), &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	Line client(VIA_LO, fd);
	{
		const FileLimit limit(3);
		ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
	EXPECT_TRUE(client.say(Spoken(VIA_LO, MESSAGE_PEER_REQUEST, door("crowd")))); // which is refused at once
	pollfd answered = {fd, POLLIN, 0};
	EXPECT_EQ(poll(&answered, 1, 500), 1);
}

// A request that comes too late to be held gets the same answer.
TEST_P(HeldRequests, AreToldThatTheServerIsBusyWhenTheirTimeIsOver)
{
	const GraceTime some_seconds(20 * 500);

	wait_in_vain();
	for (int i = 0; i < 2; i++) // as often as one asks
		EXPECT_EQ(ask("asker").next(), MESSAGE_BUSY);
}

TEST_P(HeldRequests, AreTurnedAwayWhenTheirWaitIsNotAmongTheLatestEight)
{
	wait_in_vain();
	Line asker = ask("asker");
	let_arrive();
	for (const char *other : {"1", "2", "3", "4", "5", "6", "7", "8"})
		wait_in_vain(door(other));
	EXPECT_EQ(asker.next(), MESSAGE_NO_MATCH);
}

TEST_P(HeldRequests, AreTurnedAwayWhenTheNicIsClosed)
{
	wait_in_vain();
	Line first = ask("first");
	let_arrive();
	Line second = ask("second");
	let_arrive();
	EXPECT_EQ(take(), "first");
	close();
	EXPECT_LT(GetParam()->connect(door()), 0) << "nobody listens any more";
	EXPECT_EQ(first.next(), MESSAGE_REJECT);
	EXPECT_EQ(second.next(), MESSAGE_NO_MATCH);
}

// ---- refused as busy ----

class RecentWaits : public TwoVis
{
      protected:
	// Waits, but no request comes.
	void wait_in_vain(const std::string &door)
	{
		ASSERT_EQ(wait(door, 0), VIP_TIMEOUT);
	}
	// The code with which the NIC refuses a request, or 0 when it does not listen.
	static int refusal(const std::string &door)
	{
		Line line(RDMA, RDMA.connect(door));

		return line.say(good_message(MESSAGE_REQUEST, door)) ? line.next() : 0;
	}
	VIP_RETURN wait_by(VIP_NIC_HANDLE other, VIP_ULONG timeout)
	{
		Address local("10.9.9.1", "door"), remote;
		VIP_VI_ATTRIBUTES attributes;

		return VipConnectWait(other, local.get(), timeout, remote.get(), &attributes, &conn);
	}
};

// For tests that a busy machine would fail.
class LongRecentWaits : public RecentWaits
{
	const GraceTime long_enough{30 * GRACE_MSEC};
};

TEST_F(LongRecentWaits, ThatGotARequestAreRememberedToo)
{
	connect(a, b, "door");
	EXPECT_EQ(refusal("door"), MESSAGE_BUSY);
}

// A NIC that has waited lately keeps a port from another NIC that waits, until its grace time is over.
TEST_F(LongRecentWaits, GiveWayToAnotherNicSoon)
{
	VIP_NIC_HANDLE other;

	ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
	wait_in_vain("door");
	auto waited = std::async(std::launch::async, [&] { return wait_by(other, PATIENCE); });
	auto requested = request_once("door");
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

	for (VIP_NIC_HANDLE &other : nics) {
		ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
		EXPECT_EQ(wait_by(other, 1), VIP_TIMEOUT);
	}
	auto waited = std::async(std::launch::async, [&] {
		VIP_RETURN rc; // on a busy machine the others may stop to listen too late
		while ((rc = wait_by(nics[4], PATIENCE)) == VIP_ERROR_RESOURCE)
			;
		return rc;
	});
	auto asked = request_async(a, "door");
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(asked.get(), VIP_REJECT);
	for (VIP_NIC_HANDLE other : nics)
		EXPECT_EQ(VipCloseNic(other), VIP_SUCCESS);
}

TEST_F(RecentWaits, AreNotForEver)
{
	wait_in_vain("door");
	EXPECT_EQ(request(a, "door", VIP_INFINITE), VIP_NO_MATCH) << "the server has left for good";
	EXPECT_TRUE(eventually([] { return !is_listened_for("door"); }));
	expect_state(a, VIP_STATE_IDLE);
}

TEST_F(LongRecentWaits, AreRememberedUpToEight)
{
	for (const char *door : {"1", "2", "3", "4", "5", "6", "7", "8"})
		wait_in_vain(door);
	wait_in_vain("1"); // now it is the latest one
	wait_in_vain("9");
	EXPECT_EQ(refusal("2"), 0) << "it was the oldest";
	for (const char *door : {"1", "3", "8", "9"})
		EXPECT_EQ(refusal(door), MESSAGE_BUSY) << door;
	EXPECT_TRUE(eventually([] { return !is_listened_for("9"); }));
}

TEST_F(RecentWaits, ThatEndDoNotEndANewerWait)
{
	const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(GRACE_MSEC * 3 / 2);

	wait_in_vain("door");
	const uint64_t before = fake_calls("listen");
	auto waited = std::async(std::launch::async, [this] { return wait("door", 60000); });
	EXPECT_TRUE(eventually([=] { return std::chrono::steady_clock::now() > later; }));
	auto requested = request_once("door");
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, b), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	EXPECT_EQ(fake_calls("listen"), before) << "there was always somebody who listened";
}

} // namespace
