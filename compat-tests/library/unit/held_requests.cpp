// SPDX-License-Identifier: BSD-2-Clause
// A request that comes soon after a wait is held for the next wait. The tests run on both devices.
#include "stranger.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "base/config.h"
#include "loopback/hello.h"
unsigned rendezvous_address(struct sockaddr_un *address, uid_t user,
			    const struct discriminator *discriminator, unsigned place);
}
#pragma GCC diagnostic pop

// Requests are held for a twentieth of the grace time. No test waits for that.
const int longer = grace_msec = 20 * static_cast<int>(PATIENCE);

namespace
{

// A requester that is not of this library. It makes one request.
struct Asker {
	virtual ~Asker() = default;
	virtual void give_up() = 0;
	// The result with which the NIC refuses it.
	virtual VIP_RETURN answer() = 0;
};

class RdmaAsker : public Asker
{
      public:
	RdmaAsker(const std::string &door, const std::string &own, bool is_peer_to_peer)
	    : message(good_request(door, own, is_peer_to_peer ? WIRE_PEER_REQUEST : WIRE_REQUEST)),
	      stranger(door, &message, sizeof(message), next_qp++)
	{
	}
	void give_up() override
	{
		stranger.give_up();
	}
	VIP_RETURN answer() override
	{
		EXPECT_EQ(stranger.next(), RDMA_CM_EVENT_REJECTED);
		switch (stranger.code) {
		case WIRE_BUSY:
			return VIP_NOT_DONE;
		case WIRE_NO_MATCH:
			return VIP_NO_MATCH;
		default:
			return stranger.code == WIRE_REJECT ? VIP_REJECT : VIP_ERROR_RESOURCE;
		}
	}

      private:
	static inline uint32_t next_qp = 1000;
	const wire_message message;
	Stranger stranger;
};

class LoopbackAsker : public Asker
{
      public:
	LoopbackAsker(const std::string &door, const std::string &own, bool is_peer_to_peer)
	{
		const discriminator wanted = discriminator_of(door);
		sockaddr_un address;
		const socklen_t length = rendezvous_address(&address, geteuid(), &wanted, 0);
		hello hello{};

		hello.magic = HELLO_MAGIC;
		hello.version = HELLO_VERSION;
		hello.kind = is_peer_to_peer ? HELLO_PEER_REQUEST : HELLO_REQUEST;
		hello.own_length = static_cast<uint8_t>(own.size());
		hello.wanted_length = wanted.length;
		memcpy(hello.own, own.data(), own.size());
		memcpy(hello.wanted, wanted.bytes, wanted.length);
		EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
		EXPECT_TRUE(hello_send(fd, &hello, nullptr, 0));
	}
	~LoopbackAsker() override
	{
		LoopbackAsker::give_up();
	}
	void give_up() override
	{
		if (fd >= 0)
			::close(fd);
		fd = -1;
	}
	VIP_RETURN answer() override
	{
		pollfd p = {fd, POLLIN, 0};
		hello hello;
		int fds[HELLO_FDS];

		EXPECT_EQ(poll(&p, 1, static_cast<int>(PATIENCE)), 1);
		switch (hello_receive(fd, &hello, fds)) {
		case HELLO_BUSY:
			return VIP_NOT_DONE;
		case HELLO_NO_MATCH:
			return VIP_NO_MATCH;
		case HELLO_REJECT:
			return VIP_REJECT;
		default:
			return VIP_ERROR_RESOURCE;
		}
	}

      private:
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
};

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

// Sets another grace time than that of this program.
class GraceTime
{
      public:
	explicit GraceTime(int msec)
	{
		set(msec);
	}
	~GraceTime()
	{
		set(grace_msec);
	}

      private:
	// The environment has been read by then: that happens once per process.
	static void set(int msec)
	{
		const_cast<struct config *>(config())->grace_msec = msec;
	}
};

// On the loopback device all processes of this host meet, those of other tests as well.
std::string door(const std::string &name = "")
{
	return std::to_string(getpid()) + name;
}

class HeldRequests : public NicTest, public testing::WithParamInterface<const char *>
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		ASSERT_EQ(VipOpenNic(GetParam(), &nic), VIP_SUCCESS);
	}
	std::unique_ptr<Asker> ask(const std::string &own, const std::string &at = door(),
				   bool is_peer_to_peer = false)
	{
		if (is_loopback())
			return std::make_unique<LoopbackAsker>(at, own, is_peer_to_peer);
		return std::make_unique<RdmaAsker>(at, own, is_peer_to_peer);
	}
	static bool is_loopback()
	{
		return !strcmp(GetParam(), "via_lo");
	}
	// Waits until the NIC has seen all earlier requests: it refuses this one at once.
	void let_arrive(const std::string &at = door())
	{
		EXPECT_EQ(ask("equal", at, true)->answer(), VIP_NO_MATCH);
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

INSTANTIATE_TEST_SUITE_P(Devices, HeldRequests, testing::Values("nic0", "via_lo"),
			 [](const auto &device) { return std::string(device.param); });

TEST_P(HeldRequests, AreTakenInTheOrderInWhichTheyCame)
{
	std::vector<std::unique_ptr<Asker>> askers;

	wait_in_vain();
	for (const char *own : {"1", "2", "3"})
		askers.push_back(ask(own));
	let_arrive();
	for (const char *own : {"1", "2", "3"})
		EXPECT_EQ(take(), own);
	EXPECT_EQ(take(), "");
}

TEST_P(HeldRequests, AreAnsweredAsAnyOthers)
{
	wait_in_vain();
	auto asker = ask("asker");
	let_arrive();
	EXPECT_EQ(take(), "asker");
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(asker->answer(), VIP_REJECT);
}

TEST_P(HeldRequests, AreForTheirDiscriminatorOnly)
{
	wait_in_vain(door("a"));
	wait_in_vain(door("b"));
	auto asker = ask("asker", door("a"));
	let_arrive(door("a"));
	EXPECT_EQ(take(door("b")), "");
	EXPECT_EQ(take(door("a")), "asker");
}

TEST_P(HeldRequests, WhoseRequesterHasGoneAreLeftOut)
{
	wait_in_vain();
	auto first = ask("first"), second = ask("second"), third = ask("third");
	let_arrive();
	first->give_up();
	third->give_up();
	EXPECT_EQ(take(), "second");
	EXPECT_EQ(take(), "");
}

// Requests whose requester has gone count until the next wait.
TEST_P(HeldRequests, AreAThousandAndTwentyFourAtMost)
{
	const FileLimit limit(4096);

	wait_in_vain();
	auto first = ask("first");
	for (int i = 2; i < 1024; i++)
		ask("gone");
	auto last = ask("last");
	let_arrive();
	EXPECT_EQ(ask("one too many")->answer(), VIP_NOT_DONE);
	EXPECT_EQ(take(), "first");
	auto later = ask("later");
	let_arrive();
	EXPECT_EQ(take(), "last");
	EXPECT_EQ(take(), "later");
}

// A held request on an RDMA device needs no file descriptor.
TEST_P(HeldRequests, LeaveHalfOfTheFileDescriptorsToTheProgram)
{
	const int next = dup(0);

	wait_in_vain();
	::close(next);
	ASSERT_GT(next, 8) << "more is left than is open";
	const FileLimit limit(static_cast<rlim_t>(next) + 8);
	auto asker = ask("asker");
	if (is_loopback()) {
		EXPECT_EQ(asker->answer(), VIP_NOT_DONE);
	}
	let_arrive();
	EXPECT_EQ(take(), is_loopback() ? "" : "asker");
}

// It stays at the socket of a listener on the loopback device, which the agent looks at each second.
TEST_P(HeldRequests, KeepNobodyBusyWhereNoFileDescriptorIsLeft)
{
	const GraceTime long_enough(20 * PATIENCE);

	wait_in_vain();
	const uint64_t before = fake_calls("accept4");
	fake_fail_always("accept4", EMFILE);
	auto asker = ask("asker");
	EXPECT_FALSE(eventually([&] { return fake_calls("accept4") - before > 12; }, 1500));
	if (is_loopback()) {
		EXPECT_GT(fake_calls("accept4"), before);
	}
	fake_fail_always("accept4", 0);
	let_arrive();
	EXPECT_EQ(take(), "asker");
}

using Requests = NicTest;

TEST_F(Requests, WithoutAFileDescriptorForTheAnswersAreOutOfResources)
{
	const discriminator wanted = discriminator_of(door("full"));
	sockaddr_un address;
	const socklen_t length = rendezvous_address(&address, geteuid(), &wanted, 0);
	hello hello;
	int fds[HELLO_FDS];

	ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
	a = make_vi();
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0);
	ASSERT_EQ(listen(listener, 1), 0);
	auto requested = request_async(a, door("full"), "127.0.0.1");
	int server = accept(listener, nullptr, nullptr);
	pollfd readable = {server, POLLIN, 0};
	ASSERT_EQ(poll(&readable, 1, static_cast<int>(PATIENCE)), 1);
	ASSERT_EQ(hello_receive(server, &hello, fds), HELLO_REQUEST);
	hello_close_fds(fds);

	const int next = dup(0), answer[] = {listener, listener, listener};
	::close(next);
	const FileLimit limit(static_cast<rlim_t>(next));
	hello.kind = HELLO_ACCEPT;
	ASSERT_TRUE(hello_send(server, &hello, answer, HELLO_FDS));
	EXPECT_EQ(requested.get(), VIP_ERROR_RESOURCE);
	::close(server);
	::close(listener);
}

// A request that comes too late to be held gets the same answer.
TEST_P(HeldRequests, AreToldThatTheServerIsBusyWhenTheirTimeIsOver)
{
	const GraceTime some_seconds(20 * 500);

	wait_in_vain();
	EXPECT_EQ(ask("asker")->answer(), VIP_NOT_DONE);
}

TEST_P(HeldRequests, AreTurnedAwayWhenTheirWaitIsNotAmongTheLatestEight)
{
	wait_in_vain();
	auto asker = ask("asker");
	let_arrive();
	for (const char *other : {"1", "2", "3", "4", "5", "6", "7", "8"})
		wait_in_vain(door(other));
	EXPECT_EQ(asker->answer(), VIP_NO_MATCH);
}

TEST_P(HeldRequests, AreTurnedAwayWhenTheNicIsClosed)
{
	wait_in_vain();
	auto first = ask("first"), second = ask("second");
	let_arrive();
	EXPECT_EQ(take(), "first");
	close();
	EXPECT_EQ(first->answer(), VIP_REJECT);
	EXPECT_EQ(second->answer(), VIP_NO_MATCH);
}

} // namespace
