/* SPDX-License-Identifier: BSD-2-Clause */
/* Saying and hearing messages, with descriptors between processes of one machine; and the last word. */
#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/container.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"

#define FAREWELL_NSEC (2 * NSEC_PER_SEC)

static uint8_t version_of(const struct conversation *conversation)
{
	return conversation->watched.connector->device->version;
}

/* ---- saying ---- */

int conversation_say(struct conversation *conversation, enum message_code code, const struct connect_info *own,
		     const struct discriminator *wanted, const struct description *description)
{
	struct message message;
	ssize_t sent;

	if (!fd_is_own(conversation->watched.fd))
		return EPIPE;
	message_write(&message, version_of(conversation), code, own, wanted, description);
	sent = socket_send(conversation->watched.fd, &message, sizeof(message), description ? description->fds : NULL,
			   description ? description->fd_count : 0);
	/* There is always room for the few messages of a connection. So it is no loss if a part has to count as none. */
	if (sent == (ssize_t)sizeof(message))
		return 0;
	return sent < 0 && (errno == ETOOMANYREFS || is_refused(errno)) ? cause("sendmsg()", errno) : EPIPE;
}

/* ---- hearing ---- */

void conversation_close_fds(struct conversation *conversation)
{
	struct description *described = &conversation->described;

	for (unsigned i = 0; i < described->fd_count; i++)
		if (described->fds[i] >= 0)
			close(described->fds[i]);
	described->fd_count = 0;
}

/* False: too many, or one that this library does not send, which another thread closes. MSG_CTRUNC: one could not be taken. */
static bool take_fds(struct conversation *conversation, struct msghdr *message, uid_t user)
{
	const struct device_ops *ops = connector_ops(conversation->watched.connector);
	struct description *described = &conversation->described;
	const bool is_cut = message->msg_flags & MSG_CTRUNC; /* by the kernel */
	size_t came = 0;
	bool are_good = true;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		came += count;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (described->fd_count < DESCRIPTION_FDS && ops->takes_fd && ops->takes_fd(fd)) {
				described->fds[described->fd_count] = fd_above_standard(fd, "recvmsg()");
				if (described->fds[described->fd_count++] < 0)
					message->msg_flags |= MSG_CTRUNC; /* the same reason: there are too many */
			} else {
				closer_take(fd, user, true);
				are_good = false;
			}
		}
	}
	/* Where all that may come have come, the kernel has left out more. */
	return are_good && !(is_cut && came >= DESCRIPTION_FDS);
}

/* The kernel does not say why it has kept back a descriptor. Does it give us any? */
static void tell_lack_of_fds(int any)
{
	int fd = dup(any), error = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	log_warning_ratelimited("a connection fails: a file descriptor that came with a message was not given to this process: %s",
				error ? failure_of("recvmsg()", error)
				      : "one of: ulimit -n was reached for a moment; a security module has refused it");
}

/* What a call that has failed says of the other end. */
static int end_of(int error)
{
	if (error == EAGAIN || error == EINTR)
		return MESSAGE_NONE;
	if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN)
		return HEARD_LOST;
	if (!is_refused(error))
		return HEARD_END;
	log_error_ratelimited("a connection fails: %s", failure_of("recvmsg()", error));
	return HEARD_CUT;
}

/* A whole message, of a socket that keeps messages apart. As conversation_hear(). */
static int hear_local(struct conversation *conversation)
{
	union socket_fds control; /* room for the descriptors that come with it */
	struct iovec data = {&conversation->in, sizeof(conversation->in)};
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	uid_t user = strange_user(conversation->watched.fd);
	ssize_t length;
	bool are_good;
	char unused;
	int code;

	if (!closer_admits(user))
		return HEARD_END;
	/* The message, and whatever is not taken of it, stays in the socket. */
	length = recvmsg(conversation->watched.fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0 && errno == ECONNRESET) /* that is told once, and before what was said before it */
		length = recvmsg(conversation->watched.fd, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0)
		return end_of(errno);
	conversation_close_fds(conversation);
	are_good = take_fds(conversation, &message, user);
	if (!are_good) {
		log_warning_ratelimited("a connection fails: the other end has sent file descriptors as this library does not");
		return MESSAGE_NONSENSE;
	}
	if (message.msg_flags & MSG_CTRUNC) {
		tell_lack_of_fds(conversation->watched.fd);
		return HEARD_CUT;
	}
	/* Now that we have each of its descriptors this closes none. */
	strange_take(conversation->watched.fd, &unused, sizeof(unused));
	if (!length)
		return HEARD_END;
	code = message_look(&conversation->in, (size_t)length, version_of(conversation));
	return code == MESSAGE_NONE || (code > 0 && message.msg_flags & MSG_TRUNC) ? MESSAGE_NONSENSE : code;
}

static int hear_remote(struct conversation *conversation)
{
	uint8_t *next = (uint8_t *)&conversation->in + conversation->received;
	ssize_t length = strange_take(conversation->watched.fd, next, sizeof(conversation->in) - conversation->received);
	int code;

	if (length <= 0)
		return length ? end_of(errno) : HEARD_END;
	conversation->received += (size_t)length;
	code = message_look(&conversation->in, conversation->received, version_of(conversation));
	if (code > 0)
		conversation->received = 0;
	return code;
}

bool conversation_take_wake(struct conversation *conversation)
{
	char byte;
	struct iovec place = {&byte, sizeof(byte)};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1}; /* without room for descriptors, so none is received */
	const int fd = conversation->watched.fd;

	return conversation->watched.is_local && fd_is_own(fd) && recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT) == 1 &&
	       !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && strange_take(fd, &byte, sizeof(byte)) == 1;
}

int conversation_hear(struct conversation *conversation)
{
	int code;

	if (!fd_is_own(conversation->watched.fd)) /* what comes there may be the program's */
		return HEARD_END;
	code = conversation->watched.is_local ? hear_local(conversation) : hear_remote(conversation);
	if (code == MESSAGE_REQUEST || code == MESSAGE_PEER_REQUEST || code == MESSAGE_ACCEPT)
		message_read(&conversation->in, &conversation->peer, &conversation->wanted, &conversation->described);
	else
		conversation_close_fds(conversation); /* nobody looks for any */
	return code;
}

/* ---- ending ---- */

/* Unless the other end has spoken, or is gone, the system goes on with saying the last word. */
static void leave(struct watched_socket *farewell)
{
	socket_close(farewell, !socket_is_quiet(farewell));
	free(farewell);
}

/*
 * Whoever closes a TCP connection first keeps its port busy for a minute. A reset avoids that, but may overtake what was said. So
 * each end says DISCONNECT, and resets when it has heard the other one, or a reset.
 */
static void farewell_ready(struct watch *watch)
{
	struct watched_socket *farewell = container_of(watch, struct watched_socket, watch);

	if (!socket_is_quiet(farewell))
		leave(farewell);
}

/* The last word has been said over this socket, which is closed when the other end has heard it. */
static void bid_farewell(struct watched_socket *watched)
{
	struct watched_socket *farewell = malloc(sizeof(*farewell));

	if (!farewell) {
		socket_close(watched, false);
		return;
	}
	socket_init(farewell, watched->connector, farewell_ready, leave);
	if (socket_move(watched, farewell)) {
		socket_close(farewell, false);
		free(farewell);
		return;
	}
	socket_set_time(farewell, FAREWELL_NSEC);
	crowd_enter(farewell, &farewell->connector->farewells);
}

void conversation_end(struct conversation *conversation, int last_word)
{
	struct watched_socket *watched = &conversation->watched;
	bool has_time = last_word && watched->fd >= 0;

	conversation_close_fds(conversation);
	conversation->received = 0;
	if (has_time && last_word != SILENCE) /* the other end may be gone: no matter */
		conversation_say(conversation, last_word, NULL, NULL, NULL);
	if (has_time && !watched->is_local)
		bid_farewell(watched);
	else
		socket_close(watched, true);
}

/* ---- requests ---- */

void request_refuse(struct request *request, enum message_code last_word)
{
	conversation_end(&request->conversation, last_word);
	free(request);
}
