/* SPDX-License-Identifier: BSD-2-Clause */
/* Saying and hearing messages, with descriptors between processes of one machine; and the last word. */
#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "inside.h"

#define MOST_FAREWELLS 64u
#define FAREWELL_NSEC  (2 * NSEC_PER_SEC)

/* ---- beginning ---- */

static void heard(struct watched_socket *watched)
{
	struct conversation *conversation = (struct conversation *)watched;

	conversation->heard(conversation);
}

int conversation_begin(struct conversation *conversation, struct connector *connector, int fd, unsigned events)
{
	conversation->connector = connector;
	conversation->watched.ready = heard;
	conversation->received = 0;
	conversation->peer.fd_count = 0;
	conversation->deadline = DEADLINE_NEVER;
	return socket_watch(connector, &conversation->watched, fd, events);
}

void conversation_set_deadline(struct conversation *conversation, int64_t deadline)
{
	struct connector *connector = conversation->connector;

	if (conversation->deadline != DEADLINE_NEVER)
		TAILQ_REMOVE(&connector->timed, conversation, in_timed);
	conversation->deadline = deadline;
	if (deadline != DEADLINE_NEVER)
		TAILQ_INSERT_TAIL(&connector->timed, conversation, in_timed);
}

void conversation_pause(struct conversation *conversation)
{
	conversation_set_deadline(conversation, DEADLINE_NEVER);
	socket_unwatch(conversation->connector, &conversation->watched);
}

int conversation_move(struct conversation *from, struct conversation *to)
{
	struct watched_socket held;
	int fd, error;

	socket_hold(&held, from->watched.fd);
	fd = socket_release(from->connector, &from->watched);
	error = fd < 0 ? EBADF : conversation_begin(to, from->connector, fd, EPOLLIN | EPOLLRDHUP);
	if (error) {
		conversation_close_fds(from);
		if (fd >= 0)
			socket_close(fd, from->is_local, true);
	}
	socket_settle(&held);
	if (error)
		return error;
	to->host = from->host;
	to->is_local = from->is_local;
	to->peer = from->peer;
	from->peer.fd_count = 0;
	return 0;
}

bool conversation_is_quiet(const struct conversation *conversation)
{
	struct iovec place = {&(char){0}, 1};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	return recvmsg(conversation->watched.fd, &message, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* ---- saying ---- */

bool conversation_say(struct conversation *conversation, enum message_code code, const struct connect_info *own,
		      const struct discriminator *wanted, const struct description *description)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int[DESCRIPTION_FDS]))];
	} control = {0};
	struct message message;
	struct iovec data = {&message, sizeof(message)};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
	ssize_t sent;

	if (!fd_is_own(conversation->watched.fd))
		return false;
	message_write(&message, conversation->connector->device->version, code, own, wanted, description);
	if (description && description->fd_count) {
		size_t size = description->fd_count * sizeof(int);

		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE(size);
		control.header = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), description->fds, size);
	}
	sent = sendmsg(conversation->watched.fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* There is always room for the few messages of a connection. So it is no loss if a part has to count as none. */
	if (sent >= 0 && sent < (ssize_t)sizeof(message))
		errno = EPIPE;
	return sent == (ssize_t)sizeof(message);
}

/* ---- hearing ---- */

void conversation_close_fds(struct conversation *conversation)
{
	struct description *peer = &conversation->peer;

	for (unsigned i = 0; i < peer->fd_count; i++)
		if (peer->fds[i] >= 0)
			close(peer->fds[i]);
	peer->fd_count = 0;
}

/* Returns false if there is one that no process of this library sends: it is closed, and not by this thread. */
static bool take_fds(struct conversation *conversation, struct msghdr *message, uid_t user)
{
	const struct device_ops *ops = ops_of(conversation->connector);
	struct description *peer = &conversation->peer;
	bool are_good = true;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (peer->fd_count < DESCRIPTION_FDS && ops->takes_fd && ops->takes_fd(fd)) {
				peer->fds[peer->fd_count] = fd_above_standard(fd);
				if (peer->fds[peer->fd_count++] < 0)
					message->msg_flags |= MSG_CTRUNC; /* the same reason: there are too many */
			} else {
				closer_take(fd, user);
				are_good = false;
			}
		}
	}
	return are_good;
}

/* What a call that has failed says of the other end. */
static int end_of(int error)
{
	switch (error) {
	case EAGAIN:
	case EINTR:
		return MESSAGE_NONE;
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
		return HEARD_LOST;
	case EPERM:
	case ENOSYS:
		log_error_ratelimited("a connection fails: %s%s", strerror(error), filter_hint(error, "recvmsg()"));
		return HEARD_CUT;
	default:
		return HEARD_END;
	}
}

/* A whole message, of a socket that keeps messages apart. As conversation_hear(). */
static int hear_local(struct conversation *conversation)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int[DESCRIPTION_FDS]))];
	} control;
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
	if (length < 0)
		return end_of(errno);
	conversation_close_fds(conversation);
	are_good = take_fds(conversation, &message, user);
	if (message.msg_flags & MSG_CTRUNC) {
		log_warning_ratelimited("a connection fails: too many file descriptors are open (see ulimit -n)");
		return HEARD_CUT;
	}
	if (!are_good)
		return MESSAGE_NONSENSE;
	/* Now that we have each of its descriptors this closes none. */
	strange_take(conversation->watched.fd, &unused, sizeof(unused));
	if (!length)
		return HEARD_END;
	code = message_look(&conversation->in, (size_t)length, conversation->connector->device->version);
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
	code = message_look(&conversation->in, conversation->received, conversation->connector->device->version);
	if (code > 0)
		conversation->received = 0;
	return code;
}

int conversation_hear(struct conversation *conversation)
{
	if (!fd_is_own(conversation->watched.fd)) /* what comes there may be the program's */
		return HEARD_END;
	return conversation->is_local ? hear_local(conversation) : hear_remote(conversation);
}

/* ---- ending ---- */

struct farewell {
	struct conversation conversation; /* first */
	TAILQ_ENTRY(farewell) in_connector;
};

static void end_farewell(struct conversation *conversation, bool at_once)
{
	struct farewell *farewell = (struct farewell *)conversation;
	struct connector *connector = conversation->connector;
	struct watched_socket held;
	int fd;

	conversation_set_deadline(conversation, DEADLINE_NEVER);
	socket_hold(&held, conversation->watched.fd);
	fd = socket_release(connector, &conversation->watched);
	if (fd >= 0)
		socket_close(fd, false, at_once);
	socket_settle(&held);
	TAILQ_REMOVE(&connector->farewells, farewell, in_connector);
	connector->farewell_count--;
	free(farewell);
}

/* The system goes on with saying it. */
static void farewell_expired(struct conversation *conversation)
{
	end_farewell(conversation, false);
}

/*
 * Whoever closes a TCP connection first keeps its port busy for a minute. A reset would avoid that, and could overtake what was
 * said. So each end says DISCONNECT, and resets when it has heard that of the other one, or a reset.
 */
static void hear_farewell(struct conversation *conversation)
{
	if (conversation_hear(conversation) != MESSAGE_NONE)
		end_farewell(conversation, true);
}

/* Takes a socket over which the last word has been said: it is closed when the other end has heard that. */
static void farewell_begin(struct connector *connector, int fd)
{
	struct farewell *farewell = calloc(1, sizeof(*farewell));

	if (farewell && !conversation_begin(&farewell->conversation, connector, fd, EPOLLIN | EPOLLRDHUP)) {
		farewell->conversation.heard = hear_farewell;
		farewell->conversation.expired = farewell_expired;
		conversation_set_deadline(&farewell->conversation, clock_nsec() + FAREWELL_NSEC);
		TAILQ_INSERT_TAIL(&connector->farewells, farewell, in_connector);
		if (++connector->farewell_count > MOST_FAREWELLS)
			farewell_expired(&TAILQ_FIRST(&connector->farewells)->conversation);
		return;
	}
	free(farewell);
	close(fd);
}

void farewells_leave(struct connector *connector)
{
	struct farewell *farewell;

	while ((farewell = TAILQ_FIRST(&connector->farewells)))
		farewell_expired(&farewell->conversation);
}

void conversation_end(struct conversation *conversation, enum message_code last_word)
{
	struct watched_socket held;
	bool says = last_word;
	int fd;

	conversation_set_deadline(conversation, DEADLINE_NEVER);
	if (!conversation_goes_on(conversation))
		return;
	conversation_close_fds(conversation);
	if (says) /* the other end may be gone: no matter */
		conversation_say(conversation, last_word, NULL, NULL, NULL);
	socket_hold(&held, conversation->watched.fd);
	fd = socket_release(conversation->connector, &conversation->watched);
	if (fd >= 0 && says && !conversation->is_local)
		farewell_begin(conversation->connector, fd);
	else if (fd >= 0)
		socket_close(fd, conversation->is_local, true);
	socket_settle(&held);
}
