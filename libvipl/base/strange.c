/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets that others can send descriptors to. What has come is looked at with MSG_PEEK, which closes nothing. */
#include "strange.h"

#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "closer.h"
#include "fd.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif
#define MOST_RIGHTS 253 /* descriptors of one message: SCM_MAX_FD */

bool strange_refuse(int socket)
{
	return !setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

ssize_t strange_take(int socket, void *bytes, size_t length)
{
	struct iovec place = {bytes, length};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	return recvmsg(socket, &message, MSG_DONTWAIT);
}

static void close_sent(const struct msghdr *message)
{
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		int fd;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
			closer_take(fd);
		}
	}
}

/* While we have copies of the message's descriptors, to take the message closes none of them. */
bool strange_discard(int socket)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_RIGHTS * sizeof(int))];
	/* The bytes do not matter. But QEMU's user mode takes none when there is no place for them. */
	struct iovec place = {&(char){0}, 1};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};
	bool is_cut;

	if (recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT) < 0)
		return false;
	if (message.msg_flags & MSG_CTRUNC) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		if (recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
			return false;
		is_cut = message.msg_flags & MSG_CTRUNC; /* there are no more descriptors */
		if (!is_cut)
			strange_take(socket, place.iov_base, place.iov_len);
		close_sent(&message);
		return !is_cut;
	}
	return strange_take(socket, place.iov_base, place.iov_len) >= 0;
}

#define MOST_MESSAGES 1024u /* far more than are unread in a socket at a time */

/*
 * Takes all that is unread, of a socket to which nobody can send any more, and leaves descriptors to closer.c. Returns false
 * if something remains. The end of a socket and a message without bytes differ by the credentials that come with each
 * message.
 */
static bool empty(int socket)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MOST_RIGHTS * sizeof(int))];
	char bytes[1024];
	int type = SOCK_STREAM, error = 0;
	socklen_t length = sizeof(type);

	getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length);
	/* Taken before the messages are: that the other end has been reset. */
	getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
	setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
	for (unsigned i = 0; i < MOST_MESSAGES; i++) {
		struct iovec place = {bytes, sizeof(bytes)};
		struct msghdr message = {
			.msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t count = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		bool is_cut = message.msg_flags & MSG_CTRUNC; /* there are no more descriptors */

		if (count < 0) /* ENOTCONN, EINVAL: it has never been connected */
			return errno == EAGAIN || errno == ENOTCONN || errno == EINVAL;
		if (!count && (type == SOCK_STREAM || !message.msg_controllen))
			return true;
		if (!is_cut)
			strange_take(socket, bytes, count ? (size_t)count : 1);
		close_sent(&message);
		if (is_cut)
			return false;
	}
	return false;
}

void strange_close(int socket)
{
	shutdown(socket, SHUT_RDWR);
	if (empty(socket))
		close(socket);
	else
		closer_take(socket);
}

void strange_close_listener(int listener)
{
	int fd;

	shutdown(listener, SHUT_RDWR); /* nobody connects any more, also if a forked child has it, too */
	while ((fd = fd_above_standard(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0)
		strange_close(fd);
	if (errno == EMFILE || errno == ENFILE)
		closer_take(listener);
	else
		close(listener);
}
