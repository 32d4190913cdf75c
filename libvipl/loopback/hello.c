/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages with file descriptors over a socket; nothing that comes in is believed. */
#include "hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/closer.h"
#include "base/strange.h"
#include "loopback.h"

bool hello_send(int fd, const struct hello *hello, const int *fds, unsigned count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int[HELLO_FDS]))];
	} control = {0};
	struct iovec data = {(void *)(uintptr_t)hello, sizeof(*hello)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*hello);
}

/* Returns false if there is one that no process of this library sends: it is closed, and not by this thread. */
static bool take_fds(struct msghdr *message, int fds[HELLO_FDS], uid_t user)
{
	unsigned used = 0;
	bool are_good = true;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (used < HELLO_FDS && memory_may_be_shared(fd)) {
				fds[used] = fd_above_standard(fd);
				if (fds[used++] < 0)
					message->msg_flags |= MSG_CTRUNC; /* the same reason: there are too many */
			} else {
				closer_take(fd, user);
				are_good = false;
			}
		}
	}
	return are_good;
}

int hello_receive(int fd, struct hello *hello, int fds[HELLO_FDS])
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int[HELLO_FDS]))];
	} control;
	struct iovec data = {hello, sizeof(*hello)};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	uid_t user = strange_user(fd);
	ssize_t length;
	bool are_good;
	char unused;

	for (unsigned i = 0; i < HELLO_FDS; i++)
		fds[i] = -1;
	memset(hello, 0, sizeof(*hello));
	if (!closer_admits(user))
		return 0;
	/* The message, and whatever is not taken of it, stays in the socket. */
	length = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0 && is_refused(errno)) {
		log_error_ratelimited("a connection fails: %s%s", strerror(errno), filter_hint(errno, "recvmsg()"));
		return HELLO_CUT;
	}
	if (length < 0)
		return errno == EAGAIN || errno == EINTR ? -1 : 0;
	are_good = take_fds(&message, fds, user);
	if (message.msg_flags & MSG_CTRUNC) {
		log_warning_ratelimited(
			"a connection fails: too many file descriptors are open (see ulimit -n)");
		return HELLO_CUT;
	}
	if (!are_good)
		return 0;
	/* Now that we have each of its descriptors this closes none. */
	strange_take(fd, &unused, sizeof(unused));
	if (length >= (ssize_t)(2 * sizeof(uint32_t)) && hello->magic == HELLO_MAGIC) {
		if (hello->version != HELLO_VERSION)
			return HELLO_BAD_VERSION;
		if (length == (ssize_t)sizeof(*hello) && hello->kind <= HELLO_BUSY &&
		    !(message.msg_flags & MSG_TRUNC) &&
		    hello->own_length <= MAX_DISCRIMINATOR_LEN &&
		    hello->wanted_length <= MAX_DISCRIMINATOR_LEN)
			return hello->kind;
	}
	return 0;
}

void hello_close_fds(int fds[HELLO_FDS])
{
	for (unsigned i = 0; i < HELLO_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

struct connect_info loopback_info(const struct loopback_device *device, const struct hello *hello)
{
	struct connect_info info = {
		.host = device->host,
		.reliability = hello->reliability,
		.max_transfer = hello->max_transfer,
		.rights = {.rdma_write = hello->rights & HELLO_RDMA_WRITE,
			   .rdma_read = hello->rights & HELLO_RDMA_READ},
		.peer_to_peer = hello->kind == HELLO_PEER_REQUEST,
	};

	info.discriminator.length = hello->own_length;
	memcpy(info.discriminator.bytes, hello->own, hello->own_length);
	return info;
}
