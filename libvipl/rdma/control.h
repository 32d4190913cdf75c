/* SPDX-License-Identifier: BSD-2-Clause */
/* Control connections, for control.c, control_messages.c and control_listen.c. */
#ifndef VIPL_RDMA_CONTROL_H
#define VIPL_RDMA_CONTROL_H

#include "ping.h"
#include "rdma.h"
#include "wire.h"

enum control_state {
	CONTROL_AWAITED, /* the peer makes it; or it could not be made, and is tried again */
	CONTROL_CONNECTING,
	CONTROL_GREETING, /* connected, and the other side has not confirmed yet that it is the peer's NIC */
	CONTROL_STRANGER, /* a process has connected to us, and has not said which NIC it is */
	CONTROL_UP,
};

struct control {
	enum control_state state;
	int fd; /* -1 while it is awaited */
	struct verbs_device *device;
	TAILQ_ENTRY(control) in_device;
	struct in6_addr host; /* with the port, the NIC at the other end */
	uint16_t port;
	bool is_last;	  /* one that was up has failed; this takes its place, or all is lost */
	bool is_accepted; /* the other end has made it */
	bool was_taken;	  /* the port has taken a connection; only when the NIC is gone is another one refused */
	bool was_reset;	  /* the last one was, so the process at the other end may be another */
	bool was_put_off; /* and is not tried again at once */
	int64_t made;	  /* when; to tell the older of two */
	int error;	  /* by which sending has failed */
	int64_t deadline; /* of one that is the last; when one that is awaited is to be made */
	int64_t check_at; /* when to look after it, as long as it is not up */
	struct ping ping; /* until it is up */
	size_t have;	  /* bytes of `input` */
	struct wire_control input;
};

static inline bool control_is_off(const struct verbs_device *device)
{
	return device->control.epoll_fd < 0;
}

/* Is the NIC with this port at the other end? */
static inline bool control_is_with(const struct control *control, const struct in6_addr *host,
				   uint16_t port)
{
	return control->state != CONTROL_STRANGER && control->port == port &&
	       host_equal(&control->host, host);
}

/* control.c */
/* epoll_ctl() for a descriptor of a control connection, or a listener. */
int control_watch(struct verbs_device *device, int operation, int fd, void *what, uint32_t events);
/* A socket of ours that is bound to our address for this host; -1 and errno when there is none. */
int control_socket(struct verbs_device *device, const struct in6_addr *host,
		   struct sockaddr_storage *own);
/* Takes a connection that has come from this host. False: there is no memory, and the descriptor is closed. */
bool control_adopt(struct verbs_device *device, int fd, const struct in6_addr *host);
void control_forget(struct control *control);
/* The same with a reset, which does not tell the other end that this NIC is gone. */
void control_drop(struct control *control);
/* One that is up if there is any. */
struct control *control_find(const struct verbs_device *device, const struct in6_addr *host,
			     uint16_t port);

bool control_is_needed(const struct verbs_device *device, const struct in6_addr *host, uint16_t port);
/*
 * `error`: 0: the peer has closed it; EPROTO: the peer has sent nonsense; in both cases the peer's NIC is gone. Any
 * other error may be the network's, so if the connection was up another attempt follows, which a host without
 * that NIC refuses. If it was never up, nothing is known.
 */
void control_ended(struct control *control, int error);

/* control_messages.c */
/* False: it cannot be sent, and an event is going to report that. */
bool control_send(struct control *control, enum wire_code code, uint32_t own_qp, uint32_t peer_qp,
		  uint32_t number);
/* When it is closed the peer gets a reset, not an end: it does not mean that this NIC is gone. An event follows here. */
void control_reset(struct control *control, int error);
void control_receive(struct control *control, uint32_t events);
/* Is the endpoint's peer at the NIC with this port? */
static inline bool control_is_peers(const struct verbs_endpoint *endpoint, const struct in6_addr *host,
			      uint16_t port)
{
	return (endpoint->phase == VERBS_CONNECTED || endpoint->phase == VERBS_ACCEPTING) &&
	       endpoint->peer_extra.port == port && host_equal(&endpoint->peer.host, host);
}

/* control_listen.c */
void control_accept(struct verbs_device *device, int *listener);
/* Drops one that no connection needs, if there are too many. */
void control_make_room(struct verbs_device *device);
/* Listens again, where it was paused for want of a file descriptor. */
void control_resume(struct verbs_device *device);

#endif
