/* SPDX-License-Identifier: BSD-2-Clause */
/* A conversation: a socket to another process, and the messages that come by it. All functions: the NIC's lock is held. */
#ifndef VIPL_CONVERSATION_H
#define VIPL_CONVERSATION_H

#include "core/object.h"
#include "message.h"
#include "socket.h"

struct conversation {
	struct watched_socket watched;
	size_t received;
	struct message in;
	struct connect_info peer;     /* the other end: its host; the rest comes with its request, or its accept, */
	struct discriminator wanted;  /* as this */
	struct description described; /* and this; its descriptors are the conversation's */
};

/* Of a process that asks for one of ours. Its request is held, or VipConnectWait has returned it, until it is answered. */
struct request {
	struct object object; /* named when VipConnectWait returns it */
	struct conversation conversation;
	TAILQ_ENTRY(request) in_list; /* of those that are held; of the NIC's, when it has a name */
};

/* Sends without waiting. 0 or errno; EPIPE: the other end is gone, or does not listen. */
int conversation_say(struct conversation *conversation, enum message_code code, const struct connect_info *own,
		     const struct discriminator *wanted, const struct description *description);

enum { HEARD_END = -3, HEARD_LOST = -4, HEARD_CUT = -5 };
/*
 * What has come: a code; MESSAGE_NONE: no more yet; HEARD_END: the other end is gone; HEARD_LOST: its host is not reached any
 * more; HEARD_CUT: descriptors came, and there was no room for them, or the call is refused; MESSAGE_OF_OTHER_VERSION;
 * MESSAGE_NONSENSE. After these five it has to end.
 */
int conversation_hear(struct conversation *conversation);
/* Takes a wake-up of a peer on this machine, a message of one byte, if that comes next. */
bool conversation_take_wake(struct conversation *conversation);
/* Closes what came with the last message. */
void conversation_close_fds(struct conversation *conversation);

/*
 * Ends it, if it goes on. The other end hears the last word, if it is not 0, and the end of the socket. SILENCE, over a network:
 * the other end may say the last word first.
 */
enum { SILENCE = -1 };
void conversation_end(struct conversation *conversation, int last_word);

/* Ends and frees a request without a name. */
void request_refuse(struct request *request, enum message_code last_word);

#endif
