/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that others can send descriptors to. Messages are looked at with MSG_PEEK, which closes nothing, and without room
 * for descriptors, so that none is received.
 */
#include "strange.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdalign.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "closer.h"
#include "fd.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

void strange_refuse(int socket)
{
	setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

ssize_t strange_take(int socket, void *bytes, size_t length)
{
	struct iovec place = {bytes, length};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	return recvmsg(socket, &message, MSG_DONTWAIT);
}

uid_t strange_user(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) ? CLOSER_NO_USER : peer.uid;
}

#define MOST_MESSAGES 1024u /* far more than are unread in a socket at a time */

/*
 * Takes the messages without descriptors, of a socket to which nobody can send any more. Returns false if one remains. The
 * end of a socket and a message without bytes differ by the credentials that come with each message.
 */
static bool empty(int socket)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))]; /* and no room for descriptors */
	char unused;

	setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
	for (unsigned i = 0; i < MOST_MESSAGES; i++) {
		struct iovec place = {&unused, 1};
		struct msghdr message = {
			.msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
		ssize_t count = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);

		if (count < 0) /* ENOTCONN, EINVAL: it has never been connected */
			return errno == EAGAIN || errno == ENOTCONN || errno == EINVAL;
		if (message.msg_flags & MSG_CTRUNC)
			return false;
		if (!count && !message.msg_controllen)
			return true;
		strange_take(socket, &unused, 1);
	}
	return false;
}

static bool is_empty(int socket)
{
	int type = SOCK_STREAM, error = 0, unread;
	socklen_t length = sizeof(type);

	getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length);
	/* Clears the error of a reset first, which recvmsg() would report in place of a message. */
	getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
	/* In a stream descriptors come with bytes, also with urgent ones, which the count alone shows. */
	return type == SOCK_STREAM ? !ioctl(socket, SIOCINQ, &unread) && !unread : empty(socket);
}

void strange_close(int socket)
{
	shutdown(socket, SHUT_RDWR);
	if (is_empty(socket))
		close(socket);
	else
		closer_take(socket, strange_user(socket), false);
}

void strange_close_listener(int listener)
{
	int fd;

	shutdown(listener, SHUT_RDWR); /* nobody connects any more, also if a forked child has it, too */
	while ((fd = fd_above_standard(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), NULL)) >= 0)
		strange_close(fd);
	if (errno == EMFILE || errno == ENFILE)
		closer_take(listener, CLOSER_NO_USER, false);
	else
		close(listener);
}
