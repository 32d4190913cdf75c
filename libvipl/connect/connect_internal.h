/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share. */
#ifndef VIPL_CONNECT_INTERNAL_H
#define VIPL_CONNECT_INTERNAL_H

#include "connect.h"
#include "conversation.h"

/* Of a connection: after UNCONNECTED four of an end that asks, then two of one that is asked, the first with a peer only. */
enum stage { UNCONNECTED, ROUTING, REACHING, ASKING, PAUSING, AWAITING, CONFIRMING, CONNECTED };

struct connection {
	struct conversation conversation;
	struct vi *vi;
	const struct target *target;
	enum stage stage;
	struct acceptor *acceptor; /* a peer asks us; or NULL */
	TAILQ_ENTRY(connection) in_awaiting;

	/* Asking. */
	unsigned place;
	bool is_unsure;	  /* this time one has not answered, or has no time */
	VIP_RETURN last;  /* what the last time has told: VIP_NO_MATCH, or anything else */
	bool is_heard;	  /* it has said that it has the request */
	int64_t began;	  /* with this place, or with this client */
	int64_t patience; /* for MESSAGE_HERE */
	int64_t pause;	  /* before it asks again */
	int64_t grace_ends;
	struct watched_socket look; /* to find somebody who listens at another place */
	unsigned next_look;	    /* the place */
};

static inline struct connector *connector_of(const struct connection *connection)
{
	return connection->conversation.watched.connector;
}

static inline bool connection_is_under_way(const struct connection *connection)
{
	return connection->stage != UNCONNECTED && connection->stage != CONNECTED;
}

/* The attempt expires then, or when it has to end. */
static inline void connection_set_deadline(struct connection *connection, int64_t deadline)
{
	const int64_t end = connection->target->deadline;

	socket_set_deadline(&connection->conversation.watched, deadline < end ? deadline : end);
}

/* ---- asking.c ---- */

/* From now on the peer that asks us may come. */
void connection_listens(struct connection *connection);
/*
 * Makes the data path to the peer, which has described its end. 0 or errno, of which raising_result() makes the result: the other
 * end, or its host, is gone, or the system lacks something.
 */
int connection_raise(struct connection *connection, bool accepts);
VIP_RETURN raising_result(int error);
/* Says this, with what the VI and its data path are. 0 or errno, as of conversation_say(). */
int connection_tell(struct connection *connection, enum message_code code);
/* The ends are connected. */
void connection_succeeded(struct connection *connection);
/*
 * The attempt has failed with this result; but a peer that vanished amid connecting may come back while there is time, and a
 * server that did not hear the answer in its time. The other end hears the last word, if it is not 0.
 */
void connection_failed(struct connection *connection, VIP_RETURN reason, enum message_code last_word);
/* The attempt is over. */
void connection_decided(struct connection *connection);

/* Somebody listens at another place, or not. */
void asking_looked(struct watch *look);
/* TCP has reached the place, or not; something has come from there; the time for it is over. */
void asking_reached(struct connection *connection);
void asking_answered(struct connection *connection);
void asking_expired(struct connection *connection);

#endif
