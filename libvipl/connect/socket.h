/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets of connections and listeners, and their times, which the agent serves. All functions: the NIC's lock is held. */
#ifndef VIPL_SOCKET_H
#define VIPL_SOCKET_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "base/watch.h"
#include "device.h"
#include "message.h"

struct connector;
struct request;

struct watched_socket {
	struct watch watch;
	int fd;	       /* -1: none */
	bool is_local; /* of processes of this machine: descriptors may come with messages */
	struct connector *connector;
	void (*expired)(struct watched_socket *watched);
	int64_t deadline;			/* also without a socket */
	TAILQ_ENTRY(watched_socket) in_expiring; /* while there is a deadline */
	LIST_ENTRY(watched_socket) in_process; /* while there is a descriptor */
	unsigned *half_open; /* of what listens: the crowd of those that it accepts; else NULL */
	unsigned *crowd;     /* the number of sockets like this, of which too many are not kept; or NULL */
};

struct connector {
	struct nic *nic;
	struct device *device;
	LIST_HEAD(, acceptor) acceptors;
	enum message_code (*arrived)(struct request *request); /* how to refuse it, or 0: it is taken, perhaps answered already */
	TAILQ_HEAD(, connection) listening;	  /* for a peer: the oldest first */
	TAILQ_HEAD(expiring, watched_socket) expiring; /* with a deadline: the earliest first */
	unsigned farewells;
};

static inline const struct device_ops *connector_ops(const struct connector *connector)
{
	return connector->device->ops;
}

/* There is no socket yet. `ready` and `expired` may end what the socket is a part of. */
void socket_init(struct watched_socket *watched, struct connector *connector, void (*ready)(struct watch *watch),
		 void (*expired)(struct watched_socket *watched));
/* A new socket. 0 or errno. */
int socket_open(struct watched_socket *watched, const struct place *place);
/* The next one of those who have connected with a listener. 0 or errno. */
int socket_accept(struct watched_socket *watched, const struct watched_socket *listener, struct sockaddr_storage *from);
/* 0 or errno. `events` as of epoll. */
int socket_watch(struct watched_socket *watched, unsigned events);
/* It stays, and nothing is awaited of it any more. */
void socket_unwatch(struct watched_socket *watched);
/* `to` becomes what `from` was, and is watched. 0 or errno: it is not watched. */
int socket_move(struct watched_socket *from, struct watched_socket *to);
/* The other end has not gone, and has said nothing more. */
bool socket_is_quiet(const struct watched_socket *watched);
/* As sendmsg() without waiting, with so many descriptors, DESCRIPTION_FDS at most. */
union socket_fds {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int[DESCRIPTION_FDS]))];
};
ssize_t socket_send(int fd, void *data, size_t length, const int *fds, unsigned fd_count);
/* Closes it, if there is one, and awaits nothing more. Over TCP `at_once`: without a rest of it in the system. */
void socket_close(struct watched_socket *watched, bool at_once);

/* DEADLINE_NEVER: it does not expire. */
void socket_set_deadline(struct watched_socket *watched, int64_t deadline);
/* So many nanoseconds from now. */
void socket_set_time(struct watched_socket *watched, int64_t nsec);

/* It has a deadline, and is one of a crowd. Of too many expires the one with the earliest deadline to which nothing has come. */
void crowd_enter(struct watched_socket *watched, unsigned *crowd);
/* All of it expire. */
void crowd_end(struct connector *connector, unsigned *crowd);

/* Sets what a connection over TCP with this host needs. */
void socket_prepare(const struct watched_socket *watched, const struct in6_addr *host);

/*
 * Ends what has taken too long, and asks again after pauses. Returns when to call it again, unless an attempt begins: not before
 * other threads have had the NIC's lock for as long as this has taken.
 */
int64_t connector_serve(struct connector *connector);

#endif
