/* SPDX-License-Identifier: BSD-2-Clause */
// Descriptors that others send, to close which takes longer than a test may. So a test that waits for one fails by the
// time limit.
#include "local_socket.h"
#include "old_kernel.h"

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "base/strange.h"
#include "base/closer.h"
int bell_create(uint64_t *number, bool is_guarded);
void bell_destroy(int fd);
int bell_ring(int from_fd, uint64_t number);
int bell_drain(int fd);
bool bell_takes_no_descriptors(void);
}

namespace
{

constexpr int LINGERING_SECONDS = 10000;

// False where nobody may send descriptors.
bool send_fds(int to, const std::vector<int> &fds, size_t bytes = 1, uint64_t data = 0,
	      const sockaddr_un *address = nullptr, socklen_t length = 0)
{
	bool is_sent = local_socket_send_to(to, &data, bytes, fds.data(), static_cast<unsigned>(fds.size()), address, length);
	EXPECT_TRUE(is_sent || errno == EPERM);
	return is_sent;
}

bool is_readable(int fd)
{
	pollfd p = {fd, POLLIN, 0};
	return poll(&p, 1, 0) == 1;
}

class Strange : public testing::Test
{
      public:
	// A connection whose peer takes nothing. Whoever closes its last descriptor waits.
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
	void send_lingering(int to, size_t bytes = 1, uint64_t data = 0, const sockaddr_un *address = nullptr,
			    socklen_t length = 0)
	{
		int fd = lingering();
		if (send_fds(to, {fd}, bytes, data, address, length))
			close(fd); // not the last one: that is under way
		else
			kept.push_back(fd);
	}
	~Strange() override
	{
		for (int fd : peers) // after this none lingers
			close(fd);
		for (int fd : kept)
			close(fd);
	}
	std::vector<int> peers, kept;
};

class StrangeSocket : public Strange, public testing::WithParamInterface<int>
{
};

bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

TEST_P(StrangeSocket, IsClosedAtOnceWhereNothingIsUnread)
{
	int ends[2], alone = socket(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0);

	strange_close(alone);
	EXPECT_TRUE(is_closed(alone));
	ASSERT_EQ(socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0, ends), 0);
	strange_close(ends[0]);
	EXPECT_TRUE(is_closed(ends[0]));
	strange_close(ends[1]);
	EXPECT_TRUE(is_closed(ends[1])) << "its other end has gone";
}

TEST_P(StrangeSocket, IsClosedWithoutWaitingForWhatIsUnread)
{
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0, ends), 0);
	send_lingering(ends[1]);
	strange_close(ends[0]);
	EXPECT_LT(send(ends[1], "x", 1, MSG_NOSIGNAL), 0) << "nothing can come any more";
	close(ends[1]);
}

TEST_P(StrangeSocket, IsClosedWithoutWaitingForWhatIsBehindAnEmptyMessage)
{
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0, ends), 0);
	send(ends[1], "", 0, 0);
	send_lingering(ends[1], GetParam() == SOCK_STREAM);
	strange_close(ends[0]);
	close(ends[1]);
}

TEST_P(StrangeSocket, IsClosedWithoutWaitingWhereTheSenderHasGone)
{
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC, 0, ends), 0);
	send(ends[0], "x", 1, 0); // unread: the other end sees a reset first
	send_lingering(ends[1]);
	close(ends[1]);
	strange_close(ends[0]);
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
	send_lingering(client);
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
	int give()
	{
		return ends[1];
	}
	void wait()
	{
		char byte;
		EXPECT_EQ(read(ends[0], &byte, 1), 0);
		close(ends[0]);
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
	int ends[2], before = open_descriptors();
	Closed sent;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	for (int i = 0; i < 20; i++)
		send_fds(ends[1], std::vector<int>(253, sent.give()));
	close(ends[1]);
	close(sent.give());
	rlimit limit{}, none{};
	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = static_cast<rlim_t>(ends[0]) + 1; // no descriptor is free
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	strange_close(ends[0]);
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	sent.wait();
	while (open_descriptors() > before)
		;
}

TEST_F(Strange, AMessageWithDescriptorsIsNotDiscarded)
{
	int ends[2];

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	send(ends[1], "x", 1, 0);
	send_lingering(ends[1]);
	EXPECT_EQ(strange_discard(ends[0]), STRANGE_TAKEN);
	EXPECT_EQ(strange_discard(ends[0]), STRANGE_DESCRIPTORS);
	EXPECT_EQ(strange_discard(ends[0]), STRANGE_DESCRIPTORS);
	strange_close(ends[0]);
	close(ends[1]);
}

// In a stream the descriptors may come with a byte that is read by none but who asks for it.
TEST_F(Strange, AStreamIsClosedWithoutWaitingForWhatCameWithAnUrgentByte)
{
	int ends[2], fd = lingering();
	char byte = 0, control[CMSG_SPACE(sizeof(fd))] = {};
	iovec place = {&byte, 1};
	msghdr message{};

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	message.msg_iov = &place;
	message.msg_iovlen = 1;
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	*CMSG_FIRSTHDR(&message) = {CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
	if (sendmsg(ends[1], &message, MSG_OOB) < 0)
		GTEST_SKIP() << "this kernel has no urgent bytes here";
	close(fd);
	close(ends[1]);
	strange_close(ends[0]);
}

TEST_F(Strange, ManyThatLingerKeepNoThread)
{
	Closed last;

	for (unsigned i = 0; i < 40; i++)
		closer_take(lingering(), 1);
	closer_take(last.give(), 1);
	last.wait();
	EXPECT_TRUE(closer_admits(1));
}

class Bell : public Strange
{
      public:
	Bell()
	{
		socklen_t length = sizeof(name);
		EXPECT_GE(bell, 0);
		EXPECT_EQ(getsockname(bell, reinterpret_cast<sockaddr *>(&name), &length), 0);
		name_length = length;
	}
	~Bell() override
	{
		bell_destroy(bell);
		close(other);
	}
	void say(const void *bytes, size_t length)
	{
		sendto(other, bytes, length, MSG_DONTWAIT, reinterpret_cast<sockaddr *>(&name), name_length);
	}
	uint64_t number = 0;
	int bell = bell_create(&number, true);
	int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sockaddr_un name{};
	socklen_t name_length;
};

TEST_F(Bell, IsRungByWhoKnowsItsNumber)
{
	bell_ring(other, number);
	EXPECT_TRUE(is_readable(bell));
	bell_drain(bell);
	EXPECT_FALSE(is_readable(bell));
}

TEST_F(Bell, IsNotRungByWhoSeesItsName)
{
	const char *shown = strrchr(name.sun_path + 1, '-') + 1;
	uint64_t guess = htobe64(strtoull(shown, nullptr, 16)), zero = 0, near = htobe64(number ^ 1);

	say("x", 1);
	say("", 0);
	say(&guess, sizeof(guess));
	say(&zero, sizeof(zero));
	say(&near, sizeof(near));
	EXPECT_FALSE(is_readable(bell));
}

TEST_F(Bell, DoesNotWaitForWhatComesWithARing)
{
	// As a peer could where the kernel lets it.
	for (unsigned i = 0; i < 3; i++)
		send_lingering(other, sizeof(number), htobe64(number), &name, name_length);
	while (is_readable(bell))
		bell_drain(bell);
}

TEST_F(Bell, IsDestroyedWithoutWaitingForWhatCameWithARing)
{
	send_lingering(other, sizeof(number), htobe64(number), &name, name_length);
}

// Each in a process of its own: the filter stays.
class OldBell : public testing::Test
{
      public:
	void run(void (*test)(), bool (*filter)() = be_before_6_16)
	{
		pid_t child = fork();
		if (!child) {
			if (!filter())
				_exit(77);
			test();
			_exit(HasFailure());
		}
		int status = -1;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			GTEST_SKIP() << "no filter of system calls";
		EXPECT_EQ(status, 0);
	}
};

class BellAndStranger : public Bell
{
      public:
	void TestBody() override
	{
	}
};

TEST_F(OldBell, WhatComesWithRingsIsTakenWithoutADescriptorOfOurs)
{
	run([] {
		BellAndStranger it;
		Closed sent;
		EXPECT_FALSE(bell_takes_no_descriptors());
		for (int i = 0; i < 5; i++)
			send_fds(it.other, std::vector<int>(253, sent.give()), sizeof(it.number), htobe64(it.number), &it.name,
				 it.name_length);
		close(sent.give());
		it.send_lingering(it.other, sizeof(it.number), htobe64(it.number), &it.name, it.name_length);
		rlimit few{};
		few.rlim_cur = few.rlim_max = static_cast<rlim_t>(it.bell) + 254;
		int taken;
		EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
		while ((taken = dup(it.bell)) >= 0) // none is free
			it.kept.push_back(taken);
		EXPECT_EQ(bell_drain(it.bell), EBUSY) << "it stays, for a thread that nobody waits for";
		while (bell_drain(it.bell) == EBUSY)
			;
		sent.wait();
		EXPECT_FALSE(is_readable(it.bell));
	});
}

TEST_F(OldBell, IsDestroyedWhileItIsDrained)
{
	run([] {
		for (int i = 0; i < 50; i++) {
			BellAndStranger it;
			Closed sent;
			send_fds(it.other, {sent.give()}, sizeof(it.number), htobe64(it.number), &it.name, it.name_length);
			close(sent.give());
			EXPECT_EQ(bell_drain(it.bell), EBUSY);
			bell_destroy(it.bell);
			it.bell = -1;
			sent.wait();
		}
	});
}

constexpr unsigned HANGING = 500, HANG = 40;
int listener;

class Unclosed : public OldBell
{
      public:
	static void send_many(uid_t user)
	{
		for (unsigned i = 0; i < HANG; i++) {
			EXPECT_EQ(dup2(STDIN_FILENO, static_cast<int>(HANGING + i)), static_cast<int>(HANGING + i));
			closer_take(static_cast<int>(HANGING + i), user);
		}
	}
	static bool closing_hangs()
	{
		listener = make_closing_hang(HANGING, HANGING + HANG);
		return listener >= 0;
	}
};

TEST_F(Unclosed, DescriptorsOfOneUserKeepOutThisUserAndHoldUpNobodyElse)
{
	run(
		[] {
			Closed other;
			EXPECT_TRUE(closer_admits(7));
			send_many(7);
			EXPECT_FALSE(closer_admits(7));
			EXPECT_TRUE(closer_admits(8));
			EXPECT_FALSE(closer_is_busy());
			closer_take(other.give(), 8);
			other.wait();
			close(listener); // now they do not hang any more
			while (!closer_admits(7))
				;
		},
		closing_hangs);
}

} // namespace
