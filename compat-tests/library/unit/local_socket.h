/* SPDX-License-Identifier: BSD-2-Clause */
// Messages over a Unix socket, with descriptors. What is sent and received is the test's, whatever it is.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define LOCAL_SOCKET_FDS 16  // of what is received
#define LOCAL_SOCKET_MOST 253 // that Linux lets one send

union local_socket_control {
	struct cmsghdr header;
	char room[CMSG_SPACE(LOCAL_SOCKET_MOST * sizeof(int))];
};

// Does not wait. To the other end, or where datagrams are sent, to this address. With these flags of sendmsg(), too.
static inline bool local_socket_send_to(int fd, const void *bytes, size_t length, const int *fds, unsigned count,
					const struct sockaddr_un *address, socklen_t address_length, int flags)
{
	union local_socket_control control;
	struct iovec data;
	struct msghdr message;

	memset(&control, 0, sizeof(control));
	memset(&message, 0, sizeof(message));
	data.iov_base = (void *)bytes;
	data.iov_len = length;
	message.msg_name = (void *)address;
	message.msg_namelen = address_length;
	message.msg_iov = &data;
	message.msg_iovlen = 1;
	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags) == (ssize_t)length;
}

static inline bool local_socket_send(int fd, const void *bytes, size_t length, const int *fds, unsigned count)
{
	return local_socket_send_to(fd, bytes, length, fds, count, NULL, 0, 0);
}

// The length of the message, as recv(). The descriptors are the caller's.
static inline ssize_t local_socket_receive(int fd, void *bytes, size_t room, int *fds, unsigned most, unsigned *count)
{
	union local_socket_control control;
	struct iovec data;
	struct msghdr message;
	ssize_t length;

	memset(&message, 0, sizeof(message));
	data.iov_base = bytes;
	data.iov_len = room;
	message.msg_iov = &data;
	message.msg_iovlen = 1;
	message.msg_control = &control;
	message.msg_controllen = CMSG_SPACE(most * sizeof(int));
	length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	*count = 0;
	if (length >= 0 && message.msg_controllen >= CMSG_LEN(sizeof(int))) {
		*count = (unsigned)((control.header.cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(&control.header), *count * sizeof(int));
	}
	return length;
}
