// SPDX-License-Identifier: BSD-2-Clause
// Sockets and descriptors of the simulated hosts. The kernel makes them. An address here, 10.a.b.c or of IPv6, is one
// of 127.x.y.1 to 127.x.y.250 there, where x.y is of this process alone. Hosts that are not there take connections that
// nobody answers. Each of these calls can be made to fail.
#include "world.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdarg>
#include <dlfcn.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fake
{

// The C library's function, or that of a sanitizer, which calls it.
#define NEXT(function)                                                                                          \
	(*[] {                                                                                                  \
		static auto *const next = reinterpret_cast<decltype(&::function)>(dlsym(RTLD_NEXT, #function)); \
		return next;                                                                                    \
	}())

// Counts the call. Returns the error if it has to fail.
static int point(Fn fn)
{
	std::unique_lock<std::mutex> lock(world().mutex);
	return enter(fn);
}

// 127.x.y.0. Several processes run tests at a time, and each waits at the same places of its own hosts. A socket that
// is kept says that x.y is taken.
static uint32_t take_network()
{
	for (uint32_t tried = 0; tried < 0xfc00; tried++) {
		const uint32_t network = 0x7f000000 | (1 + (static_cast<uint32_t>(getpid()) + tried) % 0xfc00) << 8;
		int fd = NEXT(socket)(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		sockaddr_in address{};

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(network | 255);
		address.sin_port = htons(9999);
		if (!NEXT(bind)(fd, reinterpret_cast<sockaddr *>(&address), sizeof address))
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

// Those that have an address in the network: the first one has number 1.
static std::vector<Addr> &translated()
{
	static auto *const the = new std::vector<Addr>;
	return *the;
}

static Addr ipv4(uint32_t address)
{
	sockaddr_in in{};
	Addr addr;

	in.sin_family = AF_INET;
	in.sin_addr.s_addr = htonl(address);
	Addr::from(reinterpret_cast<const sockaddr *>(&in), addr);
	return addr;
}

static Addr outward(const Addr &address)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	auto &all = translated();
	auto it = std::find(all.begin(), all.end(), address);

	if (it == all.end())
		it = all.insert(all.end(), address);
	if (all.size() > 250)
		die("too many addresses");
	return ipv4(own_network() | (static_cast<uint32_t>(it - all.begin()) + 1));
}

// Makes the call with the address that the kernel gets instead.
template <class Call> static int call_outward(const Call &call, int fd, const sockaddr *address, socklen_t length)
{
	sockaddr_storage storage{};
	Addr addr;

	length = std::min<socklen_t>(length, sizeof storage);
	memcpy(&storage, address, length);
	if (Addr::from(address, addr) && (!addr.is_ipv4() || addr.ip.s6_addr[12] == 10))
		outward(addr).put(reinterpret_cast<sockaddr *>(&storage));
	return call(fd, reinterpret_cast<const sockaddr *>(&storage), length);
}

static void translate_back(sockaddr *address)
{
	std::lock_guard<std::mutex> lock(world().mutex);
	Addr addr;

	if (!Addr::from(address, addr))
		return;
	const size_t number = addr.ip.s6_addr[15];
	if (addr == ipv4(own_network() | number) && number && number <= translated().size())
		translated()[number - 1].put(address);
}

// The address of a listener whose queue is full: the kernel drops what asks it.
static const sockaddr_in &black_hole()
{
	static const sockaddr_in the = [] {
		sockaddr_in address{};
		socklen_t length = sizeof address;
		auto *generic = reinterpret_cast<sockaddr *>(&address);
		int listener = NEXT(socket)(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int filler = NEXT(socket)(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(own_network() | 254);
		if (NEXT(bind)(listener, generic, length) || NEXT(listen)(listener, 0) ||
		    getsockname(listener, generic, &length) || NEXT(connect)(filler, generic, length))
			die("no listener that is full: %s", strerror(errno));
		return address;
	}();
	return the;
}

static int connect_to_nobody(int fd, int family)
{
	sockaddr_in6 ipv6{};

	if (family == AF_INET)
		return NEXT(connect)(fd, reinterpret_cast<const sockaddr *>(&black_hole()), sizeof(sockaddr_in));
	ipv6.sin6_family = AF_INET6;
	ipv6.sin6_port = black_hole().sin_port;
	ipv4(ntohl(black_hole().sin_addr.s_addr)).put(reinterpret_cast<sockaddr *>(&ipv6));
	return NEXT(connect)(fd, reinterpret_cast<const sockaddr *>(&ipv6), sizeof ipv6);
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

	return fault ? by_minus(fault) : NEXT(socket)(domain, type, protocol);
}

extern "C" int setsockopt(int fd, int level, int name, const void *value, socklen_t length) noexcept
{
	if (level == SOL_SOCKET && name == SO_BINDTOIFINDEX) {
		std::lock_guard<std::mutex> lock(world().mutex);
		world().kept_to.push_back(*static_cast<const int *>(value));
		return 0;
	}
	// The addresses that stand for IPv6 ones are of IPv4.
	return level == IPPROTO_IPV6 && name == IPV6_V6ONLY ? 0 : NEXT(setsockopt)(fd, level, name, value, length);
}

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept
{
	va_list args;

	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	auto *interface = static_cast<ifreq *>(arg);
	if (request != SIOCGIFNAME && request != SIOCGIFMTU)
		return NEXT(ioctl)(fd, request, arg);
	const int index = request == SIOCGIFNAME ? interface->ifr_ifindex : atoi(interface->ifr_name);
	std::lock_guard<std::mutex> lock(world().mutex);
	for (size_t i = 0; i < world().devices.size(); i++)
		for (bool is_vlan : {false, true}) {
			const int mtu = is_vlan ? world().devices[i]->cfg.vlan_mtu : 0;
			if (static_cast<unsigned>(index) != interface_index(i, is_vlan))
				continue;
			if (request == SIOCGIFNAME)
				snprintf(interface->ifr_name, sizeof interface->ifr_name, "%d", index);
			else
				interface->ifr_mtu = mtu ? mtu : 9000;
			return 0;
		}
	return by_minus(ENODEV);
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
	return fault ? by_minus(fault) : call_outward(NEXT(bind), fd, address, length);
}

extern "C" int listen(int fd, int backlog) noexcept
{
	int fault = point(FN_listen);

	return fault ? by_minus(fault) : NEXT(listen)(fd, backlog);
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
			return connect_to_nobody(fd, address->sa_family);
	}
	return call_outward(NEXT(connect), fd, address, length);
}

extern "C" int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	int fault = point(FN_accept4), accepted;

	if (fault)
		return by_minus(fault);
	accepted = NEXT(accept4)(fd, address, length, flags);
	if (accepted >= 0 && address)
		translate_back(address);
	return accepted;
}

extern "C" ssize_t recvmsg(int fd, msghdr *message, int flags)
{
	int fault = point(FN_recvmsg);

	return fault ? by_minus(fault) : NEXT(recvmsg)(fd, message, flags);
}

extern "C" ssize_t sendmsg(int fd, const msghdr *message, int flags)
{
	int fault = point(FN_sendmsg);

	return fault ? by_minus(fault) : NEXT(sendmsg)(fd, message, flags);
}
