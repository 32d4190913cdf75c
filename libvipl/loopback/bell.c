/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bells: datagram sockets with names of our own. A peer may ring as often as it likes: the owner
 * looks once too often, no more. An eventfd would not do: it would be shared with the peer, which
 * could make it blocking and then fill it.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "loopback.h"

static socklen_t bell_address(struct sockaddr_un *address, uint64_t name)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
					    "vipl-bell-%016llx", (unsigned long long)name));
}

int bell_create(uint64_t *name)
{
	int fd = fd_keep(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), error;
	struct sockaddr_un address;
	socklen_t length;

	if (fd < 0)
		return -1;
	if (getrandom(name, sizeof(*name), 0) == sizeof(*name)) {
		length = bell_address(&address, *name);
		if (!bind(fd, (struct sockaddr *)&address, length))
			return fd;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static bool ring_once(int from_fd, uint64_t name)
{
	struct sockaddr_un address;
	socklen_t length = bell_address(&address, name);

	return sendto(from_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
		      length) >= 0 ||
	       errno != EAGAIN;
}

void bell_ring(int from_fd, uint64_t name)
{
	int fd;

	if (ring_once(from_fd, name))
		return;
	/*
	 * It rings already; or those whom we rang before do not listen, and what they leave counts
	 * as ours. A socket without a past tells.
	 */
	fd = fd_above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return;
	ring_once(fd, name);
	close(fd);
}

void bell_drain(int fd)
{
	/* The datagrams carry nothing. But QEMU's user mode takes none when there is no place for their bytes. */
	uint8_t byte;
	struct iovec place = {&byte, sizeof(byte)};
	struct mmsghdr rings[16];

	/* If there are more than these, the descriptor stays readable. */
	for (unsigned i = 0; i < sizeof(rings) / sizeof(rings[0]); i++)
		rings[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &place, .msg_iovlen = 1}};
	recvmmsg(fd, rings, sizeof(rings) / sizeof(rings[0]), MSG_DONTWAIT, NULL);
}
