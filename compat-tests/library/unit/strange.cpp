/* SPDX-License-Identifier: BSD-2-Clause */
// Descriptors that others send, to close which takes longer than a test may. So a test that waits for one fails by the
// time limit.
#include "local_socket.h"
#include "old_kernel.h"
#include "process.h"

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

extern "C" {
#include "base/strange.h"
#include "base/closer.h"
}

namespace
{

constexpr int LINGERING_SECONDS = 10000;

bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

// Where datagrams go, or by default to the other end.
struct To {
	int fd;
	const sockaddr_un *address = nullptr;
	socklen_t length = 0;
	size_t bytes = 1; // of `data`
	uint64_t data = 0;

	// False where nobody may send descriptors.
	bool send_fds(const std::vector<int> &fds) const
	{
		const unsigned count = static_cast<unsigned>(fds.size());
		bool is_sent = local_socket_send_to(fd, &data, bytes, fds.data(), count, address, length, 0);
		EXPECT_TRUE(is_sent || errno == EPERM);
		return is_sent;
	}
};

// Connections whose peers take nothing.
class Strangers
{
      public:
	// Whoever closes its last descriptor waits.
	int lingering()
	{
		sockaddr_in address{};
		socklen_t length = sizeof(address);
		int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), room = 2048;
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
		EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0);
		EXPECT_EQ(listen(listener, 1), 0);
		EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
		EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
		peers.push_back(listener);
		peers.push_back(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
		std::string much(65536, 'x');
		while (send(fd, much.data(), much.size(), MSG_DONTWAIT) > 0)
			;
		linger wait = {1, LINGERING_SECONDS};
		EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
		return fd;
	}
	void send_lingering(const To &to)
	{
		int fd = lingering();
		if (to.send_fds({fd}))
			close(fd); // not the last one: that is under way
		else
			kept.push_back(fd);
	}
	~Strangers()
	{
		for (int fd : peers) // after this none lingers
			close(fd);
		for (int fd : kept)
			close(fd);
	}
	std::vector<int> peers, kept;
};

struct Strange : testing::Test, Strangers {
};

// The two ends of a socket, of which the library gets the first one.
struct Ends {
	int ours, theirs;

	explicit Ends(int type)
	{
		int ends[2];
		EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
		ours = ends[0];
		theirs = ends[1];
	}
};

struct StrangeSocket : Strange, testing::WithParamInterface<int> {
};

TEST_P(StrangeSocket, IsClosedAtOnceWhereNothingIsUnread)
{
	const Ends ends(GetParam());

	// The last one is closed when its other end has gone.
	for (int fd : {socket(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0), ends.ours, ends.theirs}) {
		strange_close(fd);
		EXPECT_TRUE(is_closed(fd));
	}
}

TEST_P(StrangeSocket, IsClosedWithoutWaitingForWhatIsUnread)
{
	for (bool is_behind_an_empty_one : {false, true}) {
		const Ends ends(GetParam());

		if (is_behind_an_empty_one)
			send(ends.theirs, "", 0, 0);
		send_lingering({ends.theirs, nullptr, 0, !is_behind_an_empty_one || GetParam() == SOCK_STREAM});
		strange_close(ends.ours);
		EXPECT_LT(send(ends.theirs, "x", 1, MSG_NOSIGNAL), 0) << "nothing can come any more";
		close(ends.theirs);
	}
}

TEST_P(StrangeSocket, IsClosedWithoutWaitingWhereTheSenderHasGone)
{
	const Ends ends(GetParam());

	send(ends.ours, "x", 1, 0); // unread: the other end sees a reset first
	send_lingering({ends.theirs});
	close(ends.theirs);
	strange_close(ends.ours);
}

INSTANTIATE_TEST_SUITE_P(All, StrangeSocket, testing::Values(SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM));

TEST_F(Strange, AListenerIsClosedWithoutWaitingForItsClients)
{
	sockaddr_un address{};
	address.sun_family = AF_UNIX;
	int size = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "vipl-test-%d", getpid());
	socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(size));
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0);
	ASSERT_EQ(listen(listener, 4), 0);
	ASSERT_EQ(connect(client, reinterpret_cast<sockaddr *>(&address), length), 0);
	send_lingering({client});
	strange_close_listener(listener);
	EXPECT_LT(send(client, "x", 1, MSG_NOSIGNAL), 0);
	close(client);
}

// A pipe whose other end some thread closes, sooner or later.
class Closed
{
      public:
	Closed()
	{
		EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
	}
	int give() const
	{
		return ends[1];
	}
	void wait() const
	{
		char byte;
		EXPECT_EQ(read(ends[0], &byte, 1), 0);
		close(ends[0]);
	}
	// Sends many descriptors of it, so many times.
	void send_many(const To &to, int times) const
	{
		for (int i = 0; i < times; i++)
			to.send_fds(std::vector<int>(LOCAL_SOCKET_MOST, give()));
		close(give());
	}
	int ends[2];
};

int open_descriptors()
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += !is_closed(fd);
	return count;
}

TEST_F(Strange, WhatIsUnreadIsNeverReceived)
{
	const int before = open_descriptors();
	const Ends ends(SOCK_SEQPACKET);
	const Closed sent;

	sent.send_many({ends.theirs}, 20);
	close(ends.theirs);
	{
		const FileLimit none(static_cast<rlim_t>(ends.ours) + 1); // no descriptor is free
		strange_close(ends.ours);
	}
	sent.wait();
	while (open_descriptors() > before)
		;
}

// In a stream the descriptors may come with a byte that is read by none but who asks for it.
TEST_F(Strange, AStreamIsClosedWithoutWaitingForWhatCameWithAnUrgentByte)
{
	const Ends ends(SOCK_STREAM);
	const int fd = lingering();

	if (!local_socket_send_to(ends.theirs, "", 1, &fd, 1, nullptr, 0, MSG_OOB))
		GTEST_SKIP() << "this kernel has no urgent bytes here";
	close(fd);
	close(ends.theirs);
	strange_close(ends.ours);
}

TEST_F(Strange, ManyThatLingerKeepNoThread)
{
	const Closed last;

	for (unsigned i = 0; i < 40; i++)
		closer_take(lingering(), 1, true);
	closer_take(last.give(), 1, true);
	last.wait();
	while (!closer_admits(1))
		;
}

// In a process of its own, as the filter stays.
void run(const std::function<bool()> &filter, const std::function<void()> &test)
{
	const Child child = passing_child({}, [&] {
		if (!filter())
			printf("none");
		else
			test();
	});

	if (child.out == "none")
		GTEST_SKIP() << "no filter of system calls";
}

TEST(Unclosed, DescriptorsOfSomeUsersKeepOutTheseAndHoldUpNobodyElse)
{
	constexpr int HANGING = 500, HANG = 48, MORE = 300;
	int listener = -1;

	run([&] { return (listener = make_closing_hang(HANGING, HANGING + HANG + MORE)) >= 0; },
	    [&] {
		    const Closed other, own;
		    int fd = HANGING;
		    auto give = [&](uid_t user) {
			    EXPECT_EQ(dup2(STDIN_FILENO, fd), fd);
			    closer_take(fd++, user, true);
		    };

		    EXPECT_TRUE(closer_admits(7));
		    for (int i = 0; i < 24; i++)
			    give(7 + static_cast<uid_t>(i % 2));
		    EXPECT_FALSE(closer_admits(7));
		    EXPECT_TRUE(closer_admits(9));
		    EXPECT_FALSE(closer_is_busy());
		    closer_take(other.give(), 9, true);
		    other.wait();
		    for (int i = 0; i < 24; i++)
			    give(9 + static_cast<uid_t>(i % 2));
		    closer_take(own.give(), geteuid(), true);
		    own.wait();
		    const Closed behind;
		    const int waiting = socket(AF_UNIX, SOCK_STREAM, 0);
		    closer_take(waiting, 7, false);
		    EXPECT_EQ(dup2(STDIN_FILENO, waiting), waiting); // by now it is the program's
		    closer_take(behind.give(), 7, true);
		    while (!closer_is_busy() && fd < HANGING + HANG + MORE)
			    give(7);
		    EXPECT_TRUE(closer_is_busy());
		    close(listener); // now they do not hang any more
		    behind.wait();
		    EXPECT_FALSE(is_closed(waiting));
		    while (!closer_admits(7) || closer_is_busy())
			    ;
	    });
}

} // namespace
