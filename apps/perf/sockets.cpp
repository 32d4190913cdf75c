// SPDX-License-Identifier: BSD-2-Clause
#include "sockets.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

#include "failure.h"

namespace
{
constexpr auto server_limit = std::chrono::seconds(10);
constexpr auto retry_pause = std::chrono::milliseconds(100);

Socket stream_of(int family)
{
	return Socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Returns an empty Socket, with errno, when no address answers. */
Socket try_connect(const addrinfo *found)
{
	int error = ECONNREFUSED;

	for (; found; found = found->ai_next) {
		Socket socket = stream_of(found->ai_family);

		/* connect() would otherwise wait for minutes. */
		if (socket.fd() >= 0 && limit_calls(socket, SO_SNDTIMEO, accept_limit_ms) &&
		    !connect(socket.fd(), found->ai_addr, found->ai_addrlen))
			return socket;
		error = errno;
	}
	errno = error;
	return Socket();
}

static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
} // namespace

std::pair<Socket, Socket> socket_pair()
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		fail_errno("make a pair of sockets");
	return {Socket(ends[0]), Socket(ends[1])};
}

Socket listen_on(uint16_t port)
{
	const int on = 1, off = 0;
	sockaddr_in6 any = {};
	Socket socket = stream_of(AF_INET6);

	any.sin6_family = AF_INET6;
	any.sin6_port = htons(port);
	if (socket.fd() < 0 && errno == EAFNOSUPPORT) { /* some kernels have no IPv6 */
		any.sin6_family = AF_INET;
		socket = stream_of(AF_INET);
	}
	setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(socket.fd(), reinterpret_cast<sockaddr *>(&any), sizeof(any)) ||
	    listen(socket.fd(), 8))
		fail_errno("listen on port " + std::to_string(port));
	return socket;
}

uint16_t port_of(const Socket &listener)
{
	sockaddr_in6 own;
	socklen_t length = sizeof(own);

	if (getsockname(listener.fd(), reinterpret_cast<sockaddr *>(&own), &length))
		fail_errno("find out a port");
	return ntohs(own.sin6_port);
}

FoundHost find_host(const std::string &host, uint16_t port)
{
	addrinfo hints = {}, *found;

	hints.ai_flags = AI_ADDRCONFIG;
	hints.ai_socktype = SOCK_STREAM;
	const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);

	if (rc)
		throw Failure("cannot find the host " + host + ": " + gai_strerror(rc));
	return FoundHost(found, freeaddrinfo);
}

Socket dial(const std::string &host, uint16_t port, const std::string &whom)
{
	const auto deadline = std::chrono::steady_clock::now() + server_limit;
	const FoundHost found = find_host(host, port);
	Socket socket;

	while (socket = try_connect(found.get()),
	       socket.fd() < 0 && std::chrono::steady_clock::now() < deadline)
		std::this_thread::sleep_for(retry_pause);
	if (socket.fd() < 0)
		fail_errno("reach " + whom + ", port " + std::to_string(port));
	return socket;
}

Socket listen_on_any_name(std::string &name)
{
	Socket socket = stream_of(AF_UNIX);
	sockaddr_un own = {};
	socklen_t length = offsetof(sockaddr_un, sun_path); /* no name: bind() chooses one */
	auto *address = reinterpret_cast<sockaddr *>(&own);

	own.sun_family = AF_UNIX;
	if (socket.fd() < 0 || bind(socket.fd(), address, length) || listen(socket.fd(), 1) ||
	    (length = sizeof(own), getsockname(socket.fd(), address, &length)))
		fail_errno("listen on a Unix socket");
	name.assign(own.sun_path + 1, reinterpret_cast<char *>(&own) + length);
	return socket;
}

Socket dial_unix(const std::string &name)
{
	Socket socket = stream_of(AF_UNIX);
	sockaddr_un theirs = {};
	const size_t used = name.copy(theirs.sun_path + 1, sizeof(theirs.sun_path) - 1);

	theirs.sun_family = AF_UNIX;
	if (socket.fd() < 0 || connect(socket.fd(), reinterpret_cast<sockaddr *>(&theirs),
				       static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + used)))
		fail_errno("reach the other side by a Unix socket, which both must be on one host for");
	return socket;
}

Socket accept_from(const Socket &listener, int limit_ms)
{
	if (!has_come_within(listener, POLLIN, limit_ms))
		throw Failure("the client's connection has not come");
	Socket taken(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));

	if (taken.fd() < 0)
		fail_errno("take a connection");
	return taken;
}

bool has_come_within(const Socket &socket, short events, int limit_ms)
{
	pollfd end = {socket.fd(), events, 0};

	return poll(&end, 1, limit_ms) > 0;
}

void send_at_once(const Socket &socket)
{
	const int on = 1;

	setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool limit_calls(const Socket &socket, int option, int limit_ms)
{
	const timeval limit = {limit_ms / 1000, 0};

	return !setsockopt(socket.fd(), SOL_SOCKET, option, &limit, sizeof(limit));
}

void expect_life(const Socket &socket)
{
	const int on = 1, idle = 30, pause = 10, probes = 3;

	setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof(pause));
	setsockopt(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

std::string host_of(int (*name_of_end)(int, sockaddr *, socklen_t *), const Socket &socket)
{
	sockaddr_storage end;
	socklen_t length = sizeof(end);
	char host[NI_MAXHOST];

	if (name_of_end(socket.fd(), reinterpret_cast<sockaddr *>(&end), &length) ||
	    end.ss_family == AF_UNIX ||
	    getnameinfo(reinterpret_cast<sockaddr *>(&end), length, host, sizeof(host), nullptr, 0,
			NI_NUMERICHOST))
		return "";
	return host;
}
