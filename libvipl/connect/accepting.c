/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for requests, without a daemon: a process that waits for a discriminator listens at the first free place of those
 * that the discriminator has. Every one can connect there: a half-open client has, and its request has not come yet.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "inside.h"

#define BACKLOG	       1024
#define MOST_HALF_OPEN 64u /* of an acceptor: the oldest goes when there are more */
#define HALF_OPEN_NSEC (10 * NSEC_PER_SEC)
#define PAUSE_NSEC     NSEC_PER_SEC /* an acceptor that cannot accept is left alone for so long */
#define SHORT_NSEC     (20 * NSEC_PER_MSEC) /* the same, when what it lacks is about to come */

struct acceptor;

struct listening_socket {
	struct watched_socket watched; /* first */
	struct acceptor *acceptor;
	bool is_local;
};

/* One for all discriminators that have the same places. */
struct acceptor {
	struct conversation pause; /* only its deadline is used: then the sockets are watched again */
	struct connector *connector;
	LIST_ENTRY(acceptor) in_connector;
	struct place first; /* the first address of the first place */
	struct listening_socket sockets[PLACE_ADDRESSES];
	unsigned users;
	TAILQ_HEAD(, client) half_open;
	unsigned half_open_count;
};

/* ---- clients ---- */

static void forget(struct client *client)
{
	struct acceptor *acceptor = client->acceptor;

	if (acceptor) {
		TAILQ_REMOVE(&acceptor->half_open, client, in_acceptor);
		acceptor->half_open_count--;
	}
	client->acceptor = NULL;
}

static void drop(struct client *client, enum message_code last_word)
{
	forget(client);
	conversation_end(&client->conversation, last_word);
	free(client);
}

void client_reject(struct client *client, VIP_RETURN refusal)
{
	drop(client, refusal == VIP_NO_MATCH   ? MESSAGE_NO_MATCH
		     : refusal == VIP_NOT_DONE ? MESSAGE_BUSY
					       : MESSAGE_REJECT);
}

/* A requester says nothing more until it is answered. */
bool client_waits(const struct client *client)
{
	return conversation_is_quiet(&client->conversation);
}

/* File descriptors are the program's: the lower half of them shall be enough for all that we hold. */
bool client_can_be_held(const struct client *client)
{
	struct rlimit most;

	return !getrlimit(RLIMIT_NOFILE, &most) && (rlim_t)client->conversation.watched.fd < most.rlim_cur / 2;
}

/* From here on its socket is looked at when it is answered, not before. */
static void arrive(struct client *client)
{
	struct conversation *conversation = &client->conversation;
	struct discriminator wanted;
	struct connect_info peer;
	VIP_RETURN refusal;

	forget(client);
	conversation_pause(conversation);
	message_read(&conversation->in, &peer, &wanted, &conversation->peer);
	peer.host = conversation->host;
	refusal = request_arrived(conversation->connector->nic, client, &peer, &wanted);
	if (refusal != VIP_SUCCESS)
		client_reject(client, refusal);
}

static void client_heard(struct conversation *conversation)
{
	struct client *client = (struct client *)conversation;
	int code = conversation_hear(conversation);

	switch (code) {
	case MESSAGE_NONE:
		break;
	case MESSAGE_REQUEST:
	case MESSAGE_PEER_REQUEST:
		arrive(client);
		break;
	case MESSAGE_OF_OTHER_VERSION:
		log_warning_ratelimited("refused a request by another version of this library (%u, not %u)",
					(unsigned)conversation->in.version, (unsigned)conversation->connector->device->version);
		drop(client, MESSAGE_BAD_VERSION);
		break;
	default:
		drop(client, 0);
		break;
	}
}

static void client_expired(struct conversation *conversation)
{
	drop((struct client *)conversation, 0);
}

/* ---- accepting them ---- */

static void watch_all(struct acceptor *acceptor, unsigned events)
{
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++)
		if (acceptor->sockets[i].watched.fd >= 0)
			socket_watch_for(acceptor->connector, &acceptor->sockets[i].watched, events);
}

/* Whoever asks waits meanwhile. */
static void leave_alone(struct acceptor *acceptor, int64_t nsec)
{
	watch_all(acceptor, 0);
	conversation_set_deadline(&acceptor->pause, clock_nsec() + nsec);
}

static void pause_expired(struct conversation *pause)
{
	struct acceptor *acceptor = (struct acceptor *)pause;
	struct connector *connector = acceptor->connector;

	if (connector->spare_fd < 0)
		connector->spare_fd = fcntl(connector->epoll_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	watch_all(acceptor, EPOLLIN);
}

/*
 * No file descriptor is left. Turned away, the client tries again after a pause. Left in the queue, it would keep us busy.
 */
static void turn_away(struct listening_socket *listening)
{
	struct connector *connector = listening->acceptor->connector;
	int fd;

	fd_close(connector->spare_fd);
	fd = accept4(listening->watched.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		socket_close(fd, listening->is_local, true);
	else /* closer.c has those that were turned away; or another thread has taken the spare one */
		leave_alone(listening->acceptor, closer_works() ? SHORT_NSEC : PAUSE_NSEC);
	connector->spare_fd = fcntl(connector->epoll_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	log_warning_ratelimited("no file descriptor for a connection (see ulimit -n)");
}

static void cannot_accept(struct acceptor *acceptor, int error)
{
	log_error_ratelimited("cannot accept a connection: %s%s", strerror(error), filter_hint(error, "accept4()"));
	leave_alone(acceptor, PAUSE_NSEC);
}

/* NULL: the socket is still the caller's. */
static struct client *greet(struct listening_socket *listening, int fd, const struct sockaddr *from)
{
	struct connector *connector = listening->acceptor->connector;
	const struct device_ops *ops = ops_of(connector);
	struct description peer = {.fd_count = 0};
	struct client *client;

	if (ops->admit && !ops->admit(connector->device, fd, &peer))
		return NULL;
	client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	if (!listening->is_local)
		socket_prepare(fd);
	if (conversation_begin(&client->conversation, connector, fd, EPOLLIN | EPOLLRDHUP)) {
		free(client);
		return NULL;
	}
	client->conversation.heard = client_heard;
	client->conversation.expired = client_expired;
	client->conversation.peer = peer;
	client->conversation.is_local = listening->is_local;
	client->conversation.host = listening->is_local ? connector->device->host : host_from_socket(from);
	return client;
}

static void accept_one(struct watched_socket *watched)
{
	struct listening_socket *listening = (struct listening_socket *)watched;
	struct acceptor *acceptor = listening->acceptor;
	struct sockaddr_storage from = {0};
	socklen_t length = sizeof(from);
	struct watched_socket held;
	struct client *client;
	int fd;

	if (!fd_is_own(watched->fd))
		return;
	if (listening->is_local && closer_is_busy()) {
		leave_alone(acceptor, SHORT_NSEC);
		return;
	}
	fd = socket_accept(&held, watched->fd, (struct sockaddr *)&from, &length);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			turn_away(listening);
		else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			cannot_accept(acceptor, errno);
		return;
	}
	client = greet(listening, fd, (struct sockaddr *)&from);
	if (!client)
		socket_close(fd, listening->is_local, true);
	socket_settle(&held);
	if (!client)
		return;
	client->acceptor = acceptor;
	TAILQ_INSERT_TAIL(&acceptor->half_open, client, in_acceptor);
	conversation_set_deadline(&client->conversation, clock_nsec() + HALF_OPEN_NSEC);
	if (++acceptor->half_open_count > MOST_HALF_OPEN)
		drop(TAILQ_FIRST(&acceptor->half_open), 0);
	if (conversation_say(&client->conversation, MESSAGE_HERE, NULL, NULL, NULL))
		client_heard(&client->conversation); /* mostly it has spoken already */
	else
		drop(client, 0);
}

/* ---- listening ---- */

static bool is_same_place(const struct place *a, const struct place *b)
{
	return a->length == b->length && !memcmp(&a->address, &b->address, a->length);
}

static struct acceptor *find(struct connector *connector, const struct place *first)
{
	struct acceptor *acceptor;

	LIST_FOREACH(acceptor, &connector->acceptors, in_connector)
		if (is_same_place(&acceptor->first, first))
			return acceptor;
	return NULL;
}

static void stop(struct acceptor *acceptor)
{
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++) {
		struct listening_socket *listening = &acceptor->sockets[i];
		struct watched_socket held;
		int fd;

		socket_hold(&held, listening->watched.fd);
		fd = socket_release(acceptor->connector, &listening->watched);
		if (fd >= 0 && listening->is_local)
			strange_close_listener(fd);
		else if (fd >= 0)
			close(fd);
		socket_settle(&held);
	}
}

/* 0 or errno. */
static int listen_at(struct acceptor *acceptor, struct listening_socket *listening, const struct place *place)
{
	struct watched_socket held;
	const int on = 1;
	int fd, error = socket_open(&held, place);

	if (error)
		return error;
	fd = held.fd;
	listening->acceptor = acceptor;
	listening->watched.ready = accept_one;
	listening->is_local = place->address.ss_family == AF_UNIX;
	if (!listening->is_local) /* connections of the last listener may rest there */
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (place->address.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&place->address, place->length) || listen(fd, BACKLOG))
		error = errno;
	if (!error)
		error = socket_watch(acceptor->connector, &listening->watched, fd, EPOLLIN);
	if (error)
		close(fd);
	socket_settle(&held);
	return error;
}

/* All addresses of one place; an interface may have lost one. 0 or errno. */
static int take_place(struct acceptor *acceptor, const struct place *at, unsigned count)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < count; i++) {
		int error = listen_at(acceptor, &acceptor->sockets[taken], &at[i]);

		if (!error) {
			taken++;
		} else if (error != EADDRNOTAVAIL) {
			stop(acceptor);
			return error;
		}
	}
	return taken ? 0 : EADDRNOTAVAIL;
}

/* Listens at the first free place of the discriminator. 0 or errno. */
static int take_free_place(struct acceptor *acceptor, const struct discriminator *wanted)
{
	struct device *device = acceptor->connector->device;
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
	log_ratelimited(error == EADDRINUSE ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "cannot wait for a connection: %s%s",
			strerror(error),
			error == EADDRINUSE ? ": all places for the discriminator are taken, by processes that wait for it or "
					      "have lately, or over TCP by other programs"
			: error == EADDRNOTAVAIL ? " (has the network interface lost its address?)"
						 : socket_hint(error, "socket(), bind(), listen() or epoll_ctl()"));
}

struct acceptor *acceptor_open(struct connector *connector, const struct discriminator *wanted)
{
	struct place first[PLACE_ADDRESSES];
	struct acceptor *acceptor;
	int error;

	connector->device->ops->place(connector->device, NULL, wanted, 0, first);
	acceptor = find(connector, &first[0]);
	if (acceptor) {
		acceptor->users++;
		return acceptor;
	}
	acceptor = calloc(1, sizeof(*acceptor));
	if (!acceptor)
		return NULL;
	acceptor->connector = acceptor->pause.connector = connector;
	acceptor->pause.deadline = DEADLINE_NEVER;
	acceptor->pause.expired = pause_expired;
	acceptor->first = first[0];
	acceptor->users = 1;
	TAILQ_INIT(&acceptor->half_open);
	for (unsigned i = 0; i < PLACE_ADDRESSES; i++)
		acceptor->sockets[i].watched.fd = -1;
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

int acceptor_renew(struct acceptor *acceptor, const struct discriminator *wanted)
{
	struct device *device = acceptor->connector->device;
	struct place first[PLACE_ADDRESSES];
	int error;

	device->ops->place(device, NULL, wanted, 0, first);
	if (is_same_place(&acceptor->first, &first[0]))
		return 0;
	stop(acceptor);
	acceptor->first = (struct place){0}; /* it listens nowhere, also if the program becomes the former user again */
	error = take_free_place(acceptor, wanted);
	if (error)
		tell_failure(error);
	else
		acceptor->first = first[0];
	return error;
}

void acceptor_close(struct acceptor *acceptor)
{
	if (--acceptor->users)
		return;
	while (!TAILQ_EMPTY(&acceptor->half_open))
		drop(TAILQ_FIRST(&acceptor->half_open), 0);
	conversation_set_deadline(&acceptor->pause, DEADLINE_NEVER);
	LIST_REMOVE(acceptor, in_connector);
	stop(acceptor);
	free(acceptor);
}
