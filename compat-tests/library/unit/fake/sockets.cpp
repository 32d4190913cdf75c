// SPDX-License-Identifier: BSD-2-Clause
// Sockets and descriptors of the simulated host. The kernel makes them. If a test wants that, an address 10.a.b.c here
// is 127.a.b.c there. Each of these calls can be made to fail.
#include "world.h"

#include <algorithm>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

namespace fake
{

// The C library's function, or that of a sanitizer, which calls it.
template <typename Function> static Function *next_of(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

static bool is_in_net(const sockaddr *address, uint8_t net)
{
	auto *in = reinterpret_cast<const sockaddr_in *>(address);

	return address->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == net;
}

static bool is_simulated(const sockaddr *address)
{
	return is_in_net(address, 10);
}

static void move(sockaddr *address, uint8_t from, uint8_t to)
{
	if (is_in_net(address, from))
		*reinterpret_cast<uint8_t *>(
			&reinterpret_cast<sockaddr_in *>(address)->sin_addr) = to;
}

// The address that the kernel gets instead.
struct Outward {
	Outward(const sockaddr *address, socklen_t length, bool translate)
	    : size(std::min<socklen_t>(length, sizeof storage))
	{
		memcpy(&storage, address, size);
		if (translate)
			move(get(), 10, 127);
	}
	sockaddr *get()
	{
		return reinterpret_cast<sockaddr *>(&storage);
	}
	sockaddr_storage storage{};
	socklen_t size;
};

// Counts the call. Returns the error if it has to fail.
static int point(Fn fn, bool *translate = nullptr)
{
	std::unique_lock<std::mutex> lock(world().mutex);
	int fault = enter(fn);

	if (translate)
		*translate = world().opt.sockets;
	return fault;
}

int own_epoll_create1(int flags)
{
	static auto *const real = next_of<int(int)>("epoll_create1");
	return real(flags);
}

int own_timerfd_create(int clock, int flags)
{
	static auto *const real = next_of<int(int, int)>("timerfd_create");
	return real(clock, flags);
}

void use_our_sockets()
{
}

} // namespace fake

using namespace fake;

extern "C" int epoll_create1(int flags) noexcept
{
	int fault = point(FN_epoll_create1);

	return fault ? by_minus(fault) : own_epoll_create1(flags);
}

extern "C" int timerfd_create(int clock, int flags) noexcept
{
	int fault = point(FN_timerfd_create);

	return fault ? by_minus(fault) : own_timerfd_create(clock, flags);
}

extern "C" int socket(int domain, int type, int protocol) noexcept
{
	static auto *const real = next_of<int(int, int, int)>("socket");
	int fault = point(FN_socket);

	return fault ? by_minus(fault) : real(domain, type, protocol);
}

extern "C" int bind(int fd, const sockaddr *address, socklen_t length) noexcept
{
	static auto *const real = next_of<int(int, const sockaddr *, socklen_t)>("bind");
	bool translate;
	int fault = point(FN_bind, &translate);
	Outward to(address, length, translate);

	if (!fault && !translate && is_simulated(address)) // even if this machine has the address
		fault = EADDRNOTAVAIL;
	return fault ? by_minus(fault) : real(fd, to.get(), to.size);
}

extern "C" int listen(int fd, int backlog) noexcept
{
	static auto *const real = next_of<int(int, int)>("listen");
	int fault = point(FN_listen);

	return fault ? by_minus(fault) : real(fd, backlog);
}

extern "C" int connect(int fd, const sockaddr *address, socklen_t length)
{
	static auto *const real = next_of<int(int, const sockaddr *, socklen_t)>("connect");
	bool translate;
	int fault = point(FN_connect, &translate);
	Outward to(address, length, translate);

	return fault ? by_minus(fault) : real(fd, to.get(), to.size);
}

extern "C" int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	static auto *const real = next_of<int(int, sockaddr *, socklen_t *, int)>("accept4");
	bool translate;
	int fault = point(FN_accept4, &translate), accepted;

	if (fault)
		return by_minus(fault);
	accepted = real(fd, address, length, flags);
	if (accepted >= 0 && address && translate)
		move(address, 127, 10);
	return accepted;
}

extern "C" int getsockname(int fd, sockaddr *address, socklen_t *length) noexcept
{
	static auto *const real = next_of<int(int, sockaddr *, socklen_t *)>("getsockname");
	bool translate;
	int fault = point(FN_getsockname, &translate), result;

	if (fault)
		return by_minus(fault);
	result = real(fd, address, length);
	if (!result && translate)
		move(address, 127, 10);
	return result;
}

extern "C" ssize_t recv(int fd, void *to, size_t length, int flags)
{
	static auto *const real = next_of<ssize_t(int, void *, size_t, int)>("recv");
	int fault = point(FN_recv);

	return fault ? by_minus(fault) : real(fd, to, length, flags);
}

extern "C" ssize_t sendto(int fd, const void *from, size_t length, int flags, const sockaddr *to,
			  socklen_t size)
{
	static auto *const real = next_of<ssize_t(int, const void *, size_t, int, const sockaddr *,
						  socklen_t)>("sendto");
	int fault = point(FN_sendto);

	return fault ? by_minus(fault) : real(fd, from, length, flags, to, size);
}
