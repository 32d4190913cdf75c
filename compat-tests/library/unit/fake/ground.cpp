// SPDX-License-Identifier: BSD-2-Clause
// Signals (pollable flags) and addresses.
#include "world.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace fake
{

bool Signal::open()
{
	fd = eventfd(0, EFD_CLOEXEC);
	return fd >= 0;
}

void Signal::close()
{
	if (fd >= 0)
		::close(fd);
	fd = -1;
}

void Signal::set(bool on)
{
	uint64_t one = 1;

	if (on == up)
		return;
	up = on;
	ssize_t n = on ? write(fd, &one, sizeof one) : read(fd, &one, sizeof one);
	if (n != sizeof one)
		die("somebody else reads, writes or has closed the file descriptor %d of an event "
		    "channel",
		    fd);
}

int nothing_to_read(int fd)
{
	if (!(fcntl(fd, F_GETFL) & O_NONBLOCK))
		die("the program would wait for the file descriptor %d of an event channel", fd);
	return by_minus(EAGAIN);
}

static size_t ip_size(int family)
{
	return family == AF_INET ? 4 : 16;
}

bool Addr::any() const
{
	static const uint8_t zero[16] = {};
	return memcmp(ip, zero, sizeof zero) == 0;
}

bool Addr::loopback() const
{
	if (family == AF_INET)
		return ip[0] == 127;
	return family == AF_INET6 && memcmp(ip, &in6addr_loopback, 16) == 0;
}

bool Addr::link_local() const
{
	return family == AF_INET6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

bool Addr::same_ip(const Addr &other) const
{
	return family == other.family && memcmp(ip, other.ip, sizeof ip) == 0;
}

void Addr::put(sockaddr *to) const
{
	if (family == AF_INET) {
		sockaddr_in sin{};
		sin.sin_family = AF_INET;
		memcpy(&sin.sin_addr, ip, 4);
		memcpy(to, &sin, sizeof sin);
	} else if (family == AF_INET6) {
		sockaddr_in6 sin6{};
		sin6.sin6_family = AF_INET6;
		sin6.sin6_scope_id = scope;
		memcpy(&sin6.sin6_addr, ip, 16);
		memcpy(to, &sin6, sizeof sin6);
	}
}

bool Addr::from(const sockaddr *sa, Addr &out)
{
	out = Addr();
	if (!sa)
		return false;
	out.family = sa->sa_family;
	if (sa->sa_family == AF_INET) {
		sockaddr_in sin;
		memcpy(&sin, sa, sizeof sin);
		memcpy(out.ip, &sin.sin_addr, 4);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		sockaddr_in6 sin6;
		memcpy(&sin6, sa, sizeof sin6);
		memcpy(out.ip, &sin6.sin6_addr, 16);
		out.scope = sin6.sin6_scope_id;
		return true;
	}
	return false;
}

bool Addr::parse(const char *text, Addr &out)
{
	out = Addr();
	out.family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(out.family, text, out.ip) == 1;
}

ibv_gid Addr::gid() const
{
	ibv_gid gid{};

	if (family == AF_INET6) {
		memcpy(gid.raw, ip, 16);
	} else { // IPv4-mapped
		gid.raw[10] = gid.raw[11] = 0xff;
		memcpy(gid.raw + 12, ip, ip_size(family));
	}
	return gid;
}

} // namespace fake
