/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A conversation: a stream socket to another process, the messages that come by it, and the time until which the next one
 * has to come. The agent serves all conversations of a NIC. All functions: the NIC's lock is held.
 */
#ifndef VIPL_CONVERSATION_H
#define VIPL_CONVERSATION_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "message.h"

struct connector;
struct conversation;

/* A socket that the agent watches. */
struct watched_socket {
	int fd; /* -1: none */
	void (*ready)(struct watched_socket *watched);
	LIST_ENTRY(watched_socket) in_process; /* while there is one */
};

/*
 * A socket is held while it is made, moved or closed, that is while nothing watches it: a process that is forked meanwhile closes
 * its copy. Nothing else is done with `held`. It may be closed before socket_settle().
 */
void socket_hold(struct watched_socket *held, int fd);
void socket_settle(struct watched_socket *held);
/* A new socket that waits for nothing, and is held: 0 or errno. */
int socket_open(struct watched_socket *held, const struct place *place);
/* The same, of a client. -1 and errno. */
int socket_accept(struct watched_socket *held, int listener, struct sockaddr *from, socklen_t *length);
/* Takes the socket, or not: 0 or errno. `events` as of epoll. */
int socket_watch(struct connector *connector, struct watched_socket *watched, int fd, unsigned events);
void socket_watch_for(struct connector *connector, struct watched_socket *watched, unsigned events);
/* It stays, and is not looked at any more. */
void socket_unwatch(struct connector *connector, struct watched_socket *watched);
/* Returns the socket, which is the caller's now; or -1 when there is none, or the program has closed it. */
int socket_release(struct connector *connector, struct watched_socket *watched);

struct conversation {
	struct watched_socket watched; /* first */
	struct connector *connector;
	void (*heard)(struct conversation *conversation); /* there is something to hear */
	void (*expired)(struct conversation *conversation);
	int64_t deadline;
	TAILQ_ENTRY(conversation) in_timed; /* while there is a deadline */
	struct in6_addr host; /* of the other end */
	bool is_local; /* with a process of this machine: descriptors may come with messages */
	size_t received;
	struct message in;
	struct description peer; /* as far as it is known; its descriptors are the conversation's */
};

/* Takes the socket, or not: 0 or errno. What is heard is told by `heard`, which must be set. */
int conversation_begin(struct conversation *conversation, struct connector *connector, int fd, unsigned events);
static inline bool conversation_goes_on(const struct conversation *conversation)
{
	return conversation->watched.fd >= 0;
}
void conversation_set_deadline(struct conversation *conversation, int64_t deadline);

/* Sends without waiting. False and errno: the other end is gone, or does not listen. */
bool conversation_say(struct conversation *conversation, enum message_code code, const struct connect_info *own,
		      const struct discriminator *wanted, const struct description *description);

enum { HEARD_END = -3, HEARD_LOST = -4, HEARD_CUT = -5 };
/*
 * What has come: a code; MESSAGE_NONE: no more yet; HEARD_END: the other end is gone; HEARD_LOST: its host is not reached any
 * more; HEARD_CUT: descriptors came, and there was no room for them, or the call is refused; MESSAGE_OF_OTHER_VERSION;
 * MESSAGE_NONSENSE. After these five it has to end.
 */
int conversation_hear(struct conversation *conversation);
/* Closes what came with the last message. */
void conversation_close_fds(struct conversation *conversation);

/* The other end has not gone, and has said nothing more. Also of one that is not watched. */
bool conversation_is_quiet(const struct conversation *conversation);
/* The agent does not look at it until it is resumed; an end is noticed then. */
void conversation_pause(struct conversation *conversation);
/* Makes `to` what `from` was. */
int conversation_move(struct conversation *from, struct conversation *to);
/* Ends it, if it goes on. The other end hears the last word, if it is not 0, and the end of the socket. */
void conversation_end(struct conversation *conversation, enum message_code last_word);

#endif
