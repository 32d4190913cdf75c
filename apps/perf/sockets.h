/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP and Unix stream sockets: opened, connected, and closed by themselves. */
#ifndef VIP_PERF_SOCKETS_H
#define VIP_PERF_SOCKETS_H

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <netdb.h>
#include <unistd.h>

class Socket
{
public:
	Socket() = default; /* none */
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

/* Two that are connected with each other. */
std::pair<Socket, Socket> socket_pair();

/* Listens on the port, 0 for any, of IPv6 and IPv4. */
Socket listen_on(uint16_t port);
uint16_t port_of(const Socket &listener);
/* Tries for some seconds; fails then: "cannot reach WHOM, port PORT". */
Socket dial(const std::string &host, uint16_t port, const std::string &whom);

/* Where a host is: of several addresses a list. */
using FoundHost = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
FoundHost find_host(const std::string &host, uint16_t port);

/* The same by a Unix socket, whose name, which is in no directory, the kernel chooses. */
Socket listen_on_any_name();
std::vector<char> unix_name_of(const Socket &listener);
Socket dial_unix(const std::vector<char> &name);

constexpr int accept_limit_ms = 10000;
constexpr int no_limit = -1;

/* The next connection. Fails when none comes in time. */
Socket accept_from(const Socket &listener, int limit_ms = accept_limit_ms);
/* Is there something, or the end, to be read within that time? */
bool is_readable_within(const Socket &socket, int limit_ms);

/* Of TCP; others have nothing of the kind, and need it not. */
void send_at_once(const Socket &socket);
/* A peer that says nothing any more since its host has gone is noticed in a minute. */
void expect_life(const Socket &socket);

/* Numbers of the hosts at the two ends of a connection; "" of one that is not by TCP. */
std::string peer_host_of(const Socket &socket);
std::string own_host_of(const Socket &socket);

#endif
