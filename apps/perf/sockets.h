/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens, connects and closes TCP sockets and Unix stream sockets. */
#ifndef VIP_PERF_SOCKETS_H
#define VIP_PERF_SOCKETS_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <netdb.h>
#include <unistd.h>

class Socket
{
public:
	Socket() = default; /* an empty Socket */
	explicit Socket(int fd) : fd_(fd)
	{
	}
	~Socket()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1))
	{
	}
	Socket &operator=(Socket &&other) noexcept
	{
		Socket old(std::exchange(fd_, std::exchange(other.fd_, -1)));

		return *this;
	}

	int fd() const
	{
		return fd_;
	}

private:
	int fd_ = -1;
};

/* Returns two connected sockets. */
std::pair<Socket, Socket> socket_pair();

/* Listens on the port, 0 for any, by IPv6 and IPv4. */
Socket listen_on(uint16_t port);
uint16_t port_of(const Socket &listener);
/* Tries for some seconds, then fails: "cannot reach WHOM, port PORT". */
Socket dial(const std::string &host, uint16_t port, const std::string &whom);

/* A list of a host's addresses. */
using FoundHost = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
FoundHost find_host(const std::string &host, uint16_t port);

/* Listens on a Unix socket. The kernel chooses an abstract name for it. */
Socket listen_on_any_name(std::string &name);
Socket dial_unix(const std::string &name);

constexpr int accept_limit_ms = 10000;
constexpr int no_limit = -1;

/* Returns the next connection. Fails when none comes in time. */
Socket accept_from(const Socket &listener, int limit_ms = accept_limit_ms);
/* Whether one of these events of poll() comes within that time. The end of the stream counts as POLLIN, too. */
bool has_come_within(const Socket &socket, short events, int limit_ms);

/* Turns off TCP's delay of short messages. Other sockets have no such delay. */
void send_at_once(const Socket &socket);
/* Each call fails after that time: recv() with SO_RCVTIMEO, send() and connect() with SO_SNDTIMEO; 0: never. */
bool limit_calls(const Socket &socket, int option, int limit_ms);
/* Makes the kernel notice within a minute that a silent peer's host has gone. */
void expect_life(const Socket &socket);

/*
 * Returns the numeric address of the host at an end of a TCP connection, by getpeername() or getsockname(); "" for
 * other sockets.
 */
std::string host_of(int (*name_of_end)(int, sockaddr *, socklen_t *), const Socket &socket);

#endif
