/* SPDX-License-Identifier: BSD-2-Clause */
// Descriptors that others send, to close which takes longer than a test may. So a test that waits for one fails by the
// time limit.
#include <arpa/inet.h>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "base/strange.h"
#include "base/closer.h"
int bell_create(uint64_t *number, bool is_guarded);
void bell_destroy(int fd);
int bell_ring(int from_fd, uint64_t number);
int bell_drain(int fd);
}

namespace
{

constexpr int LINGERING_SECONDS = 10000;

// False where nobody may send descriptors.
bool send_fds(int to, const std::vector<int> &fds, size_t bytes = 1, uint64_t data = 0,
	      const sockaddr_un *address = nullptr, socklen_t length = 0)
{
	iovec place = {&data, bytes};
	std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
	msghdr message{};
	message.msg_name = const_cast<sockaddr_un *>(address);
	message.msg_namelen = length;
	message.msg_iov = &place;
	message.msg_iovlen = 1;
	message.msg_control = control.data();
	message.msg_controllen = control.size();
	cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
	memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
	bool is_sent = sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
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

TEST_F(Strange, WhatIsDiscardedIsClosedByAnother)
{
	int ends[2], pipe_ends[2];
	char byte;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
	send_lingering(ends[1]);
	send_fds(ends[1], {pipe_ends[1]});
	close(pipe_ends[1]);
	EXPECT_TRUE(strange_discard(ends[0]));
	EXPECT_TRUE(strange_discard(ends[0]));
	EXPECT_FALSE(strange_discard(ends[0]));
	EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0) << "or it waits until somebody has closed the other end";
	close(pipe_ends[0]);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(Strange, ManyThatLingerKeepNoThread)
{
	int pipe_ends[2];
	char byte;

	for (unsigned i = 0; i < 40; i++)
		closer_take(lingering());
	ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
	closer_take(pipe_ends[1]);
	EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
	close(pipe_ends[0]);
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
	bell_drain(bell);
	EXPECT_FALSE(is_readable(bell));
}

TEST_F(Bell, IsDestroyedWithoutWaitingForWhatCameWithARing)
{
	send_lingering(other, sizeof(number), htobe64(number), &name, name_length);
}

} // namespace
