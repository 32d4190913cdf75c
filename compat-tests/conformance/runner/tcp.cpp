// SPDX-License-Identifier: BSD-2-Clause
// Makes TCP connections.
#include "tcp.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace tcp
{

// A host that is switched off must not block the other one for ever.
static void prepare(int fd)
{
	int yes = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

int connect(const std::string &host, const std::string &port)
{
	addrinfo hints{}, *all = nullptr;
	hints.ai_socktype = SOCK_STREAM;
	int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &all);
	if (failed)
		throw std::runtime_error(host + ": " + gai_strerror(failed));
	int fd = -1;
	for (const addrinfo *one = all; one && fd < 0; one = one->ai_next) {
		fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd >= 0 && ::connect(fd, one->ai_addr, one->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	if (fd < 0)
		throw std::runtime_error("nobody serves at " + host + ", port " + port + ": " +
					 strerror(errno));
	prepare(fd);
	return fd;
}

int listen(unsigned short *port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
	sockaddr_in any{};
	any.sin_family = AF_INET;
	any.sin_port = htons(*port);
	auto *address = reinterpret_cast<sockaddr *>(&any);
	socklen_t length = sizeof any;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (fd < 0 || bind(fd, address, length) || ::listen(fd, 16) ||
	    getsockname(fd, address, &length))
		throw std::runtime_error("cannot serve at port " + std::to_string(*port) + ": " +
					 strerror(errno));
	*port = ntohs(any.sin_port);
	return fd;
}

int accept(int listener, int ms)
{
	pollfd ready{listener, POLLIN, 0};
	if (poll(&ready, 1, ms) <= 0)
		return -1;
	int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
	if (fd >= 0)
		prepare(fd);
	return fd;
}

} // namespace tcp
