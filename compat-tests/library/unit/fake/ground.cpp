// SPDX-License-Identifier: BSD-2-Clause
// Signals (pollable flags) and addresses.
#include "world.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fake
{

bool Signal::open()
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return false;
	fd = ends[0];
	other = ends[1];
	return true;
}

void Signal::close()
{
	for (int end : {fd, other})
		if (end >= 0)
			::close(end);
	fd = other = -1;
}

// A socket has an error if the other end has not read all.
void Signal::end()
{
	if (other < 0)
		return;
	if (write(fd, "", 1) != 1)
		die("the file descriptor %d of an event channel is no longer ours", fd);
	::close(other);
	other = -1;
}

void Signal::set(bool on)
{
	char one = 1;

	if (on == up || other < 0)
		return;
	up = on;
	ssize_t n = on ? write(other, &one, sizeof one) : read(fd, &one, sizeof one);
	if (n != sizeof one)
		die("somebody else reads, writes or has closed the file descriptor %d of an event channel", fd);
}

int nothing_to_read(int fd)
{
	if (!(fcntl(fd, F_GETFL) & O_NONBLOCK))
		die("the program would wait for the file descriptor %d of an event channel", fd);
	return by_minus(EAGAIN);
}

bool Addr::is_ipv4() const
{
	return IN6_IS_ADDR_V4MAPPED(&ip);
}

bool Addr::any() const
{
	return IN6_IS_ADDR_UNSPECIFIED(&ip) || (is_ipv4() && !ip.s6_addr32[3]);
}

bool Addr::loopback() const
{
	return IN6_IS_ADDR_LOOPBACK(&ip) || (is_ipv4() && ip.s6_addr[12] == 127);
}

bool Addr::link_local() const
{
	return IN6_IS_ADDR_LINKLOCAL(&ip);
}

void Addr::put(sockaddr *to) const
{
	if (to->sa_family == AF_INET) {
		reinterpret_cast<sockaddr_in *>(to)->sin_addr.s_addr = ip.s6_addr32[3];
	} else {
		reinterpret_cast<sockaddr_in6 *>(to)->sin6_addr = ip;
		reinterpret_cast<sockaddr_in6 *>(to)->sin6_scope_id = scope;
	}
}

bool Addr::from(const sockaddr *sa, Addr &out)
{
	out = Addr();
	if (sa && sa->sa_family == AF_INET) {
		out.ip.s6_addr16[5] = 0xffff;
		out.ip.s6_addr32[3] = reinterpret_cast<const sockaddr_in *>(sa)->sin_addr.s_addr;
	} else if (sa && sa->sa_family == AF_INET6) {
		out.ip = reinterpret_cast<const sockaddr_in6 *>(sa)->sin6_addr;
		out.scope = reinterpret_cast<const sockaddr_in6 *>(sa)->sin6_scope_id;
	} else {
		return false;
	}
	return true;
}

bool Addr::parse(const char *text, Addr &out)
{
	out = Addr();
	return inet_pton(AF_INET6, ((strchr(text, ':') ? "" : "::ffff:") + std::string(text)).c_str(), &out.ip) == 1;
}

ibv_gid Addr::gid() const
{
	ibv_gid gid;

	memcpy(gid.raw, &ip, sizeof ip);
	return gid;
}

} // namespace fake
