// SPDX-License-Identifier: BSD-2-Clause
// Sockets and descriptors of the simulated hosts. The kernel makes them. An address here, 10.a.b.c or of IPv6, is one of
// 127.x.y.1 to 127.x.y.250 there, where x.y is of this process alone. Hosts that are not there take connections that nobody
// answers. Each of these calls can be made to fail.
#include "world.h"

#include <algorithm>
#include <array>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fake
{

// The C library's function, or that of a sanitizer, which calls it.
template <typename Function> static Function *next_of(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

// Counts the call. Returns the error if it has to fail.
static int point(Fn fn)
{
	std::unique_lock<std::mutex> lock(world().mutex);
	return enter(fn);
}

static int own_socket(int domain, int type, int protocol)
{
	static auto *const real = next_of<int(int, int, int)>("socket");
	return real(domain, type, protocol);
}

static int own_bind(int fd, const sockaddr *address, socklen_t length)
{
	static auto *const real = next_of<int(int, const sockaddr *, socklen_t)>("bind");
	return real(fd, address, length);
}

static int own_listen(int fd, int backlog)
{
	static auto *const real = next_of<int(int, int)>("listen");
	return real(fd, backlog);
}

static int own_connect(int fd, const sockaddr *address, socklen_t length)
{
	static auto *const real = next_of<int(int, const sockaddr *, socklen_t)>("connect");
	return real(fd, address, length);
}

// 127.x.y.0. Several processes run tests at a time, and each waits at the same places of its own hosts. A socket that is
// kept says that x.y is taken.
static uint32_t take_network()
{
	for (uint32_t tried = 0; tried < 0xfc00; tried++) {
		const uint32_t network = 0x7f000000 | (1 + (static_cast<uint32_t>(getpid()) + tried) % 0xfc00) << 8;
		int fd = own_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		sockaddr_in address{};

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(network | 255);
		address.sin_port = htons(9999);
		if (!own_bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address))
			return network;
		close(fd);
	}
	die("no addresses for the simulated hosts");
}

static uint32_t own_network()
{
	static const uint32_t the = take_network();
	return the;
}

// Before main(): children have the same one, and the descriptor is none of the lowest.
static const uint32_t at_first = own_network();

using AddressBytes = std::array<uint8_t, 16>; // of an IPv4 address: mapped

// Those that have an address in the network: the first one has number 1.
static std::vector<AddressBytes> &translated()
{
	static auto *const the = new std::vector<AddressBytes>;
	return *the;
}

static uint32_t outward(const AddressBytes &address)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	auto &all = translated();
	auto it = std::find(all.begin(), all.end(), address);

	if (it == all.end())
		it = all.insert(all.end(), address);
	if (all.size() > 250)
		die("too many addresses");
	return htonl(own_network() | (static_cast<uint32_t>(it - all.begin()) + 1));
}

static bool inward(uint32_t address, AddressBytes &out)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	const size_t number = ntohl(address) & 0xff;

	if ((ntohl(address) & ~0xffU) != own_network() || !number || number > translated().size())
		return false;
	out = translated()[number - 1];
	return true;
}

static AddressBytes mapped(uint32_t ipv4)
{
	AddressBytes bytes{};

	bytes[10] = bytes[11] = 0xff;
	memcpy(bytes.data() + 12, &ipv4, 4);
	return bytes;
}

// The address that the kernel gets instead.
struct Outward {
	Outward(const sockaddr *address, socklen_t length) : size(std::min<socklen_t>(length, sizeof storage))
	{
		memcpy(&storage, address, size);
		if (storage.ss_family == AF_INET) {
			auto &in = reinterpret_cast<sockaddr_in &>(storage);
			if (ntohl(in.sin_addr.s_addr) >> 24 == 10)
				in.sin_addr.s_addr = outward(mapped(in.sin_addr.s_addr));
		} else if (storage.ss_family == AF_INET6) {
			auto &in = reinterpret_cast<sockaddr_in6 &>(storage);
			AddressBytes bytes;
			memcpy(bytes.data(), &in.sin6_addr, bytes.size());
			bytes = mapped(outward(bytes));
			memcpy(&in.sin6_addr, bytes.data(), bytes.size());
			in.sin6_scope_id = 0;
		}
	}
	const sockaddr *get() const
	{
		return reinterpret_cast<const sockaddr *>(&storage);
	}
	sockaddr_storage storage{};
	socklen_t size;
};

static void translate_back(sockaddr *address)
{
	AddressBytes bytes;

	if (address->sa_family == AF_INET) {
		auto *in = reinterpret_cast<sockaddr_in *>(address);
		if (inward(in->sin_addr.s_addr, bytes))
			memcpy(&in->sin_addr, bytes.data() + 12, 4);
	} else if (address->sa_family == AF_INET6) {
		auto *in = reinterpret_cast<sockaddr_in6 *>(address);
		uint32_t number;
		memcpy(&number, in->sin6_addr.s6_addr + 12, sizeof number);
		if (inward(number, bytes))
			memcpy(&in->sin6_addr, bytes.data(), 16);
	}
}

// The address of a listener whose queue is full: the kernel drops what asks it.
static const sockaddr_in &black_hole()
{
	static const sockaddr_in the = [] {
		sockaddr_in address{};
		socklen_t length = sizeof address;
		auto *generic = reinterpret_cast<sockaddr *>(&address);
		int listener = own_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int filler = own_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(own_network() | 254);
		if (own_bind(listener, generic, length) || own_listen(listener, 0) ||
		    getsockname(listener, generic, &length) || own_connect(filler, generic, length))
			die("no listener that is full: %s", strerror(errno));
		return address;
	}();
	return the;
}

static int connect_to_nobody(int fd, int family)
{
	sockaddr_in6 ipv6{};

	if (family == AF_INET)
		return own_connect(fd, reinterpret_cast<const sockaddr *>(&black_hole()), sizeof(sockaddr_in));
	ipv6.sin6_family = AF_INET6;
	ipv6.sin6_port = black_hole().sin_port;
	const AddressBytes bytes = mapped(black_hole().sin_addr.s_addr);
	memcpy(&ipv6.sin6_addr, bytes.data(), bytes.size());
	return own_connect(fd, reinterpret_cast<const sockaddr *>(&ipv6), sizeof ipv6);
}

void use_our_sockets()
{
	(void)at_first;
}

} // namespace fake

using namespace fake;

extern "C" int socket(int domain, int type, int protocol) noexcept
{
	int fault = point(FN_socket);

	return fault ? by_minus(fault) : own_socket(domain, type, protocol);
}

extern "C" int setsockopt(int fd, int level, int name, const void *value, socklen_t length) noexcept
{
	static auto *const real = next_of<int(int, int, int, const void *, socklen_t)>("setsockopt");

	// The addresses that stand for IPv6 ones are of IPv4.
	return level == IPPROTO_IPV6 && name == IPV6_V6ONLY ? 0 : real(fd, level, name, value, length);
}

extern "C" int bind(int fd, const sockaddr *address, socklen_t length) noexcept
{
	int fault = point(FN_bind);
	Addr addr;

	if (!fault && Addr::from(address, addr) && !addr.any() && !addr.loopback()) {
		std::lock_guard<std::mutex> lock(world().mutex);
		if (!device_of(addr))
			fault = EADDRNOTAVAIL;
	}
	if (fault)
		return by_minus(fault);
	Outward to(address, length);
	return own_bind(fd, to.get(), to.size);
}

extern "C" int listen(int fd, int backlog) noexcept
{
	int fault = point(FN_listen);

	return fault ? by_minus(fault) : own_listen(fd, backlog);
}

extern "C" int connect(int fd, const sockaddr *address, socklen_t length)
{
	int fault = point(FN_connect);
	Addr addr;

	if (fault)
		return by_minus(fault);
	if (Addr::from(address, addr) && !addr.loopback()) {
		std::unique_lock<std::mutex> lock(world().mutex);
		fake_reach how = reach_of(addr);
		lock.unlock();
		if (how == FAKE_REACH_UNREACHABLE)
			return by_minus(ENETUNREACH);
		if (how != FAKE_REACH_OK)
			return connect_to_nobody(fd, addr.family);
	}
	Outward to(address, length);
	return own_connect(fd, to.get(), to.size);
}

extern "C" int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	static auto *const real = next_of<int(int, sockaddr *, socklen_t *, int)>("accept4");
	int fault = point(FN_accept4), accepted;

	if (fault)
		return by_minus(fault);
	accepted = real(fd, address, length, flags);
	if (accepted >= 0 && address)
		translate_back(address);
	return accepted;
}

extern "C" ssize_t recvmsg(int fd, msghdr *message, int flags)
{
	static auto *const real = next_of<ssize_t(int, msghdr *, int)>("recvmsg");
	int fault = point(FN_recvmsg);

	return fault ? by_minus(fault) : real(fd, message, flags);
}

extern "C" ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
	static auto *const real = next_of<ssize_t(int, const msghdr *, int)>("sendmsg");
	int fault = point(FN_sendmsg);

	return fault ? by_minus(fault) : real(fd, message, flags);
}
