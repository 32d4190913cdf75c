// SPDX-License-Identifier: BSD-2-Clause
// A request that comes soon after a wait is held for the next wait. The tests run on both devices.
#include "grace_time.h"
#include "line.h"

#include <chrono>
#include <sys/resource.h>
#include <thread>

// Requests are held for a twentieth of the grace time. No test waits for that.
const int longer = grace_msec = 20 * static_cast<int>(PATIENCE);

namespace
{

// Limits the number of file descriptors of this process.
class FileLimit
{
      public:
	explicit FileLimit(rlim_t most)
	{
		EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
		const rlimit now = {most, before.rlim_max};
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
	}
	~FileLimit()
	{
		setrlimit(RLIMIT_NOFILE, &before);
	}

      private:
	rlimit before{};
};

// On the loopback device all processes of this host meet, those of other tests as well.
std::string door(const std::string &name = "")
{
	return std::to_string(getpid()) + name;
}

class HeldRequests : public Each<NicTest, const Device *>
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open(GetParam()->name);
	}
	// A requester that is not of this library. It makes one request, when the NIC has greeted it.
	Line ask(const std::string &own, const std::string &at = door(), message_code code = MESSAGE_REQUEST)
	{
		message request = good_message(code, at, own);
		Line asker(*GetParam(), at);

		request.version = GetParam()->version;
		EXPECT_EQ(asker.next(true), MESSAGE_HERE);
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
		ASSERT_EQ(wait(at, 0, &conn), VIP_TIMEOUT);
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
	VIP_CONN_HANDLE conn = nullptr;
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

TEST_P(HeldRequests, WhoseRequesterHasGoneAreLeftOut)
{
	wait_in_vain();
	Line first = ask("first"), second = ask("second"), third = ask("third");
	let_arrive();
	first.hang_up();
	third.hang_up();
	EXPECT_EQ(take(), "second");
	EXPECT_EQ(take(), "");
}

// Requests whose requester has gone count until the next wait.
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
	const int next = dup(0);

	wait_in_vain();
	::close(next);
	ASSERT_GT(next, 8) << "more is left than is open";
	const FileLimit limit(static_cast<rlim_t>(next) + 8);
	EXPECT_EQ(ask("asker").next(), MESSAGE_BUSY);
	EXPECT_EQ(take(), "");
}

// The client stays at the socket of the listener, which the agent looks at each second.
TEST_P(HeldRequests, KeepNobodyBusyWhereNoFileDescriptorIsLeft)
{
	const GraceTime long_enough(20 * PATIENCE);

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

using Requests = NicTest;

TEST_F(Requests, WithoutAFileDescriptorForTheAnswersAreOutOfResources)
{
	open("via_lo");
	a = make_vi();
	Gate gate(VIA_LO, door("full"));
	auto requested = request_async(a, door("full"));
	Line server = gate.accept();
	ASSERT_EQ(server.next(), MESSAGE_REQUEST);
	const Spoken answer(VIA_LO, MESSAGE_ACCEPT);

	const int next = dup(0);
	::close(next);
	const FileLimit limit(static_cast<rlim_t>(next));
	ASSERT_TRUE(server.say(answer));
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
}

// A quarter of the limit may wait to be closed: of this limit none. Mostly that takes no time, so the pause is short.
TEST_F(Requests, WaitNoLongerThanDescriptorsOfOthersAreClosed)
{
	open("via_lo");
	VIP_CONN_HANDLE conn;
	ASSERT_EQ(wait(door("crowd"), 0, &conn), VIP_TIMEOUT);
	sockaddr_un address;
	const socklen_t length = local_place(door("crowd"), &address);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	Line client(VIA_LO, fd);
	{
		const FileLimit limit(3);
		ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
		std::this_thread::sleep_for(std::chrono::milliseconds(100));
	}
	pollfd answered = {fd, POLLIN, 0};
	EXPECT_EQ(poll(&answered, 1, 500), 1);
}

// A request that comes too late to be held gets the same answer.
TEST_P(HeldRequests, AreToldThatTheServerIsBusyWhenTheirTimeIsOver)
{
	const GraceTime some_seconds(20 * 500);

	wait_in_vain();
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
	EXPECT_EQ(first.next(), MESSAGE_REJECT);
	EXPECT_EQ(second.next(), MESSAGE_NO_MATCH);
}

} // namespace
