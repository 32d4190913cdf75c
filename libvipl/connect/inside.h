/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share. */
#ifndef VIPL_CONNECT_INSIDE_H
#define VIPL_CONNECT_INSIDE_H

#include "connector.h"
#include "conversation.h"

struct connector {
	struct nic *nic;
	struct device *device;
	int epoll_fd;
	int spare_fd; /* to be given up when there are no more */
	LIST_HEAD(, acceptor) acceptors;
	TAILQ_HEAD(, conversation) timed; /* conversations with a deadline */
	TAILQ_HEAD(, farewell) farewells; /* the oldest first */
	unsigned farewell_count;
};

struct client {
	struct conversation conversation; /* first */
	struct acceptor *acceptor;	  /* NULL: its request is above */
	TAILQ_ENTRY(client) in_acceptor;
};

static inline const struct device_ops *ops_of(const struct connector *connector)
{
	return connector->device->ops;
}

/* ---- socket.c ---- */

/* Sets what a connection over TCP needs. */
void socket_prepare(int fd);
/* Closes a socket that others could send to; over TCP `at_once`: without a rest of it in the system. */
void socket_close(int fd, bool is_local, bool at_once);
/* What may be behind an error, or "". `calls`: those that it may come from. */
const char *socket_hint(int error, const char *calls);

/* ---- conversation.c ---- */

/* The NIC closes: what was said last arrives nevertheless. */
void farewells_leave(struct connector *connector);

/* ---- connection.c, asking.c, failing.c ---- */

/* Of a connection. */
enum stage { UNCONNECTED, ASKING, CONFIRMING, CONNECTED };

struct connection {
	struct conversation conversation; /* first */
	struct vi *vi;
	struct device_endpoint *endpoint;
	enum stage stage;
	struct connect_info peer;

	/* Asking. */
	struct connect_info own;
	struct in6_addr host;
	struct discriminator wanted;
	unsigned place;
	uint16_t port; /* of it */
	bool is_routed;
	bool is_reached, has_asked, is_heard; /* at this place */
	bool no_listener; /* all places have answered so, the last time that all were asked */
	bool is_unsure;	  /* this time one has not answered, or has no time */
	int64_t slowest;  /* of the answers that there is no listener */
	int64_t began;	  /* with this place */
	int64_t patience; /* for MESSAGE_HERE */
};

static inline struct connector *connector_of(const struct connection *connection)
{
	return connection->conversation.connector;
}

/* The agent of a NIC says at once that it is there. A machine may be busy: so it may take longer each time. */
#define LONGEST_HERE_NSEC (8 * NSEC_PER_SEC)

/* The connection, or the attempt, is over. The other end hears the last word, if it is not 0. */
void connection_leave(struct connection *connection, enum message_code last_word);
/* An attempt has failed with this result. */
void connection_fail(struct connection *connection, VIP_RETURN reason);
void connection_fail_with(struct connection *connection, VIP_RETURN reason, enum message_code last_word);
/* There is no way to the host, or the system lacks something. */
void connection_fail_for(struct connection *connection, int error);
/* There may be a listener. */
void connection_no_answer(struct connection *connection, VIP_RETURN reason);
/* An error that says: the other end is gone, or, of a queue pair whose peer the system asks for, its host. */
bool error_is_end(int error);

/* While it asks: the socket is ready; the place has taken too long. */
void asking_heard(struct connection *connection);
void asking_expired(struct connection *connection);
/* Whether what is under way is old enough for an answer. */
bool asking_may_be_answered(const struct connection *connection);
/* TCP does not reach the place. */
void asking_tell_silence(const struct connection *connection);

#endif
