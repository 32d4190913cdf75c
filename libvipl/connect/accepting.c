/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for requests, without a daemon: a process that waits for a discriminator listens at the first free place of those
 * that the discriminator has. Anybody can connect there. Who connects is half open until the request has come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/closer.h"
#include "base/container.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "connect.h"

#define BACKLOG	       1024
#define HALF_OPEN_NSEC (10 * NSEC_PER_SEC)
#define SAY_HERE_NSEC      (200 * NSEC_PER_MSEC) /* a requester that is answered sooner need not hear that the NIC is there */
#define PAUSE_NSEC     (200 * NSEC_PER_MSEC) /* a listener that cannot accept is left alone for so long */
#define SHORT_NSEC     (20 * NSEC_PER_MSEC) /* the same, when what it lacks is about to come */

/* One for all discriminators that have the same places. */
struct acceptor {
	LIST_ENTRY(acceptor) in_connector;
	struct place first; /* the first address of the first place */
	struct watched_socket sockets[PLACE_ADDRESSES];
	unsigned users;
	unsigned half_open;
};

/* ---- requests ---- */

/* Its answer takes time. If this cannot be said, that is seen when it is answered. */
static void here_due(struct watched_socket *watched)
{
	conversation_say(container_of(watched, struct conversation, watched), MESSAGE_HERE, NULL, NULL, NULL);
}

/* From here on its socket is looked at when it is answered, not before. */
static void arrive(struct request *request)
{
	struct watched_socket *watched = &request->conversation.watched;
	enum message_code refusal;

	socket_unwatch(watched);
	watched->expired = here_due;
	socket_set_time(watched, SAY_HERE_NSEC);
	refusal = watched->connector->arrived(request);
	if (refusal)
		request_refuse(request, refusal);
}

static void hear_request(struct watch *watch)
{
	struct request *request = container_of(watch, struct request, conversation.watched.watch);
	struct conversation *conversation = &request->conversation;

	switch (conversation_hear(conversation)) {
	case MESSAGE_NONE:
		break;
	case MESSAGE_REQUEST:
	case MESSAGE_PEER_REQUEST:
		arrive(request);
		break;
	case MESSAGE_OF_OTHER_VERSION:
		log_warning_ratelimited("refused a request by another version of this library (%u, not %u) from %s",
					(unsigned)conversation->in.version,
					(unsigned)conversation->watched.connector->device->version,
					host_name(&conversation->peer.host));
		request_refuse(request, MESSAGE_BAD_VERSION);
		break;
	case HEARD_CUT: /* soon there may be room for what it sends */
		request_refuse(request, MESSAGE_BUSY);
		break;
	default:
		request_refuse(request, 0);
		break;
	}
}

static void request_expired(struct watched_socket *watched)
{
	request_refuse(container_of(watched, struct request, conversation.watched), 0);
}

/* ---- accepting them ---- */

/* Whoever asks waits meanwhile. */
static void leave_alone(struct watched_socket *listening, int64_t nsec)
{
	socket_watch(listening, 0);
	socket_set_time(listening, nsec);
}

static void listening_expired(struct watched_socket *watched)
{
	socket_watch(watched, EPOLLIN);
}

static void cannot_accept(struct watched_socket *listening, int error)
{
	if (error == EAGAIN || error == ECONNABORTED || error == EINTR)
		return;
	if (error == EMFILE || error == ENFILE)
		log_warning_ratelimited("no file descriptor for a connection: %s", failure(error));
	else
		log_error_ratelimited("cannot accept a connection: %s", failure(error));
	leave_alone(listening, PAUSE_NSEC);
}

/* False: it is not to be talked to, or is gone. */
static bool begin_conversation(struct conversation *conversation, const struct sockaddr_storage *from)
{
	struct watched_socket *watched = &conversation->watched;
	struct connector *connector = watched->connector;
	const struct device_ops *ops = connector_ops(connector);

	conversation->peer.host =
		watched->is_local ? connector->device->host : host_from_socket((const struct sockaddr *)from);
	if (ops->admit && !ops->admit(connector->device, watched->fd, &conversation->described))
		return false;
	socket_prepare(watched, &conversation->peer.host);
	if (socket_watch(watched, EPOLLIN | EPOLLRDHUP))
		return false;
	socket_set_time(watched, HALF_OPEN_NSEC);
	return true;
}

static void accept_one(struct watch *watch)
{
	struct watched_socket *listening = container_of(watch, struct watched_socket, watch);
	struct sockaddr_storage from = {0};
	struct watched_socket *watched;
	struct request *request;
	int error;

	if (!fd_is_own(listening->fd))
		return;
	if (listening->is_local && closer_is_busy()) {
		leave_alone(listening, SHORT_NSEC);
		return;
	}
	request = zeroed(1, sizeof(*request));
	if (!request) {
		cannot_accept(listening, ENOMEM);
		return;
	}
	watched = &request->conversation.watched;
	socket_init(watched, listening->connector, hear_request, request_expired);
	error = socket_accept(watched, listening, &from);
	if (error) {
		free(request);
		cannot_accept(listening, error);
	} else if (!begin_conversation(&request->conversation, &from)) {
		request_refuse(request, 0);
	} else {
		crowd_enter(watched, listening->half_open);
		hear_request(&watched->watch); /* mostly it has spoken already */
	}
}

/* ---- listening ---- */

static struct acceptor *find_acceptor(struct connector *connector, const struct place *first)
{
	struct acceptor *acceptor;

	LIST_FOREACH(acceptor, &connector->acceptors, in_connector)
		if (acceptor->first.length == first->length &&
		    !memcmp(&acceptor->first.address, &first->address, first->length))
			return acceptor;
	return NULL;
}

static void stop_listening(struct acceptor *acceptor)
{
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++)
		socket_close(&acceptor->sockets[i], false);
}

/* 0 or errno. */
static int listen_at(struct watched_socket *watched, const struct place *place)
{
	const int on = 1;
	int error = socket_open(watched, place);

	if (error)
		return error;
	if (!watched->is_local) /* connections of the last listener may rest there */
		setsockopt(watched->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (place->address.ss_family == AF_INET6)
		setsockopt(watched->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(watched->fd, (const struct sockaddr *)&place->address, place->length))
		error = cause("bind()", errno);
	else if (listen(watched->fd, BACKLOG))
		error = cause("listen()", errno);
	else
		error = socket_watch(watched, EPOLLIN);
	if (error)
		socket_close(watched, false);
	return error;
}

/* All addresses of one place; an interface may have lost one. 0 or errno. */
static int take_place(struct acceptor *acceptor, const struct place *at, unsigned count)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < count; i++) {
		int error = listen_at(&acceptor->sockets[taken], &at[i]);

		if (!error) {
			taken++;
		} else if (error != EADDRNOTAVAIL) {
			stop_listening(acceptor);
			return error;
		}
	}
	return taken ? 0 : EADDRNOTAVAIL;
}

/* Listens at the first free place of the discriminator. 0 or errno. */
static int take_free_place(struct acceptor *acceptor, const struct discriminator *wanted)
{
	struct device *device = acceptor->sockets[0].connector->device;
	struct place at[PLACE_ADDRESSES];
	unsigned count;

	for (unsigned number = 0; (count = device->ops->place(device, NULL, wanted, number, at)); number++) {
		int error = take_place(acceptor, at, count);

		if (error != EADDRINUSE)
			return error;
	}
	return EADDRINUSE;
}

static void tell_failure(int error)
{
	if (error == EADDRINUSE)
		log_warning_ratelimited("cannot wait for a connection: all places for the discriminator are taken, by processes that "
					"wait for it or have lately, or over TCP by other programs");
	else
		log_error_ratelimited("cannot wait for a connection: %s", failure(error));
}

struct acceptor *acceptor_open(struct connector *connector, const struct discriminator *wanted)
{
	struct place first[PLACE_ADDRESSES];
	struct acceptor *acceptor;
	int error;

	connector->device->ops->place(connector->device, NULL, wanted, 0, first);
	acceptor = find_acceptor(connector, &first[0]);
	if (acceptor) {
		acceptor->users++;
		return acceptor;
	}
	acceptor = zeroed(1, sizeof(*acceptor));
	if (!acceptor) {
		tell_failure(errno);
		return NULL;
	}
	acceptor->first = first[0];
	acceptor->users = 1;
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++) {
		socket_init(&acceptor->sockets[i], connector, accept_one, listening_expired);
		acceptor->sockets[i].half_open = &acceptor->half_open;
	}
	error = take_free_place(acceptor, wanted);
	if (!error) {
		LIST_INSERT_HEAD(&connector->acceptors, acceptor, in_connector);
		return acceptor;
	}
	tell_failure(error);
	free(acceptor);
	errno = error;
	return NULL;
}

void acceptor_serve(struct acceptor *acceptor)
{
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++)
		for (unsigned count = 0; count < BACKLOG && watch_has_event(&acceptor->sockets[i].watch); count++)
			accept_one(&acceptor->sockets[i].watch);
}

void acceptor_close(struct acceptor *acceptor)
{
	if (--acceptor->users)
		return;
	crowd_end(acceptor->sockets[0].connector, &acceptor->half_open);
	LIST_REMOVE(acceptor, in_connector);
	stop_listening(acceptor);
	free(acceptor);
}
