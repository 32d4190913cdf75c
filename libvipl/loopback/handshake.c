/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting: REQUEST, then ACCEPT with the link, then CONFIRM. The socket stays open as long as
 * the connection, and that it is closed tells the peer of its end, however it came.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "loopback.h"

static void introduce(struct loopback_endpoint *endpoint, struct hello *hello,
		      enum hello_kind kind)
{
	const struct connect_info *own = &endpoint->own;
	const struct nonce_page *page = endpoint->device->nonce_page;

	*hello = (struct hello){
		.magic = HELLO_MAGIC,
		.version = HELLO_VERSION,
		.kind = (uint16_t)kind,
		.reliability = own->reliability,
		.rights = (uint16_t)((own->rights.rdma_write ? HELLO_RDMA_WRITE : 0) |
				     (own->rights.rdma_read ? HELLO_RDMA_READ : 0)),
		.max_transfer = own->max_transfer,
		.domain = endpoint->domain->number,
		.queue = endpoint->receive_cq->page ? endpoint->queue + 1 : 0,
		.agent_bell = endpoint->device->bell_name,
		.channel_bell = endpoint->receive_cq->channel->bell_name,
		.own_length = own->discriminator.length,
		.wanted_length = endpoint->wanted.length,
	};
	if (page) {
		hello->nonce_address = (uintptr_t)page->nonce;
		memcpy(hello->nonce, page->nonce, sizeof(hello->nonce));
	}
	memcpy(hello->own, own->discriminator.bytes, own->discriminator.length);
	memcpy(hello->wanted, endpoint->wanted.bytes, endpoint->wanted.length);
}

/* Sends a request or an accept, with its descriptors; `link_fd`: -1, or one of these. */
static bool introduce_with(struct loopback_endpoint *endpoint, int fd, enum hello_kind kind, int link_fd)
{
	int fds[HELLO_FDS] = {endpoint->device->regions_file.fd};
	unsigned count = 1;
	struct hello hello;

	introduce(endpoint, &hello, kind);
	if (link_fd >= 0)
		fds[count++] = link_fd;
	if (hello.queue)
		fds[count++] = endpoint->receive_cq->page_file.fd;
	return hello_send(fd, &hello, fds, count);
}

/* Takes all that the peer's hello says, except for the link. 0 or errno. */
static int adopt_peer(struct loopback_endpoint *endpoint, const struct hello *hello, pid_t process,
		    int regions_fd, int page_fd)
{
	endpoint->peer_regions = region_entries_map(regions_fd);
	if (!endpoint->peer_regions)
		return errno;
	if (hello->queue > PAGE_QUEUES)
		return EPROTO;
	endpoint->peer_queue = hello->queue - 1;
	endpoint->peer_page = hello->queue ? cq_page_map(page_fd) : NULL;
	if (hello->queue && !endpoint->peer_page)
		return errno;
	endpoint->peer = loopback_info(endpoint->device, hello);
	endpoint->peer_domain = hello->domain;
	endpoint->peer_agent_bell = hello->agent_bell;
	endpoint->peer_channel_bell = hello->channel_bell;
	if (config()->lo_copy == LO_COPY_DIRECT)
		endpoint->peer_memory = peer_memory_open(endpoint->device, process,
							 hello->nonce_address, hello->nonce);
	return 0;
}

static void close_connection(struct loopback_endpoint *endpoint)
{
	endpoint->phase = LOOPBACK_UNCONNECTED;
	loopback_unwatch(endpoint->device, &endpoint->watch);
}

static void refuse(struct loopback_endpoint *endpoint, VIP_RETURN reason)
{
	close_connection(endpoint);
	endpoint_refused(endpoint->vi, reason);
}

static void endpoint_ready(struct watch *watch);

#define ASKING_CALLS	"socket(), connect(), sendmsg() or epoll_ctl()"
#define ACCEPTING_CALLS "memfd_create(), ftruncate(), fallocate(), fcntl(), mmap(), sendmsg() or epoll_ctl()"
#define MAPPING_CALLS	"fallocate() or mmap()"

/* What may be behind an error, or "". `calls`: those that it may come from. */
static const char *error_hint(int error, const char *calls)
{
	return error == EMFILE ? " (see ulimit -n)"
	       : error == ETOOMANYREFS
		       ? " (a process has not received yet what it was sent, and that counts against ulimit -n of this user: "
			 "is one stopped?)"
	       : is_refused(error) ? filter_hint(error, calls)
				   : memory_hint(error);
}

/* Asks for a listener under one name. ECONNREFUSED: there is none. */
static int ask(struct loopback_endpoint *endpoint, uid_t user, unsigned place)
{
	int fd = fd_above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), error = 0;
	struct sockaddr_un address;
	socklen_t length;
	pid_t process;

	if (fd < 0)
		return errno;
	length = rendezvous_address(&address, user, &endpoint->wanted, place);
	if (connect(fd, (struct sockaddr *)&address, length)) {
		error = errno;
	} else {
		if (!rendezvous_peer(fd, &process))
			error = ECONNREFUSED; /* not one of ours */
		else if (!introduce_with(endpoint, fd,
					 endpoint->own.peer_to_peer ? HELLO_PEER_REQUEST : HELLO_REQUEST, -1))
			error = errno == ETOOMANYREFS || is_refused(errno) ? errno : ECONNREFUSED; /* or gone again */
	}
	if (!error)
		error = loopback_watch(endpoint->device, &endpoint->watch, fd);
	if (error) {
		strange_close(fd);
		return error;
	}
	endpoint->watch.ready = endpoint_ready;
	endpoint->peer_pid = process;
	endpoint->phase = LOOPBACK_ASKING;
	return 0;
}

/* Goes on with the names that have not been tried yet in this look. */
static void ask_next(struct loopback_endpoint *endpoint)
{
	uid_t user;

	for (; rendezvous_user(endpoint->place / RENDEZVOUS_PLACES, &user); endpoint->place++) {
		int error = ask(endpoint, user, endpoint->place % RENDEZVOUS_PLACES);

		if (!error)
			return;
		/* EAGAIN: the listener's queue is full, so its discriminator is not known. */
		if (error != ECONNREFUSED && error != EAGAIN) {
			log_error_ratelimited("cannot connect: %s%s", strerror(error), error_hint(error, ASKING_CALLS));
			if (error == ETOOMANYREFS) /* others of this user cause it, and soon it may be over */
				endpoint_no_answer(endpoint->vi, VIP_ERROR_RESOURCE);
			else
				endpoint_refused(endpoint->vi, VIP_ERROR_RESOURCE);
			return;
		}
	}
	log_debug_ratelimited("no permitted listener for this discriminator in this network namespace "
			      "(docs/PORTING.md, *Containers*)");
	endpoint_no_listener(endpoint->vi);
}

void loopback_connect(struct device_endpoint *base, const struct connect_info *own,
		      const struct in6_addr *host, const struct discriminator *wanted)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;

	(void)host; /* there is but one */
	endpoint->own = *own;
	endpoint->wanted = *wanted;
	endpoint->place = 0;
	ask_next(endpoint);
}

/* The peer has said yes, and that is the link. */
static void accepted(struct loopback_endpoint *endpoint, const struct hello *hello,
		     const int fds[HELLO_FDS])
{
	struct hello confirm = {.magic = HELLO_MAGIC, .version = HELLO_VERSION,
				.kind = HELLO_CONFIRM};
	int error = adopt_peer(endpoint, hello, endpoint->peer_pid, fds[0], fds[2]);
	struct link *link = error ? NULL : link_map(fds[1]);

	if (!link) {
		error = error ? error : errno;
		log_error_ratelimited("cannot map the memory of a connection: %s%s", strerror(error),
				      error_hint(error, MAPPING_CALLS));
		refuse(endpoint, VIP_ERROR_RESOURCE);
		return;
	}
	endpoint_establishing(endpoint->vi);
	endpoint_attach(endpoint, link, 0);
	if (!hello_send(endpoint->watch.fd, &confirm, NULL, 0)) {
		refuse(endpoint, VIP_TIMEOUT);
		return;
	}
	endpoint->phase = LOOPBACK_CONNECTED;
	endpoint_connected(endpoint->vi, &endpoint->peer);
}

static void answered(struct loopback_endpoint *endpoint, int kind, const struct hello *hello,
		     const int fds[HELLO_FDS])
{
	switch (kind) {
	case HELLO_ACCEPT:
		accepted(endpoint, hello, fds);
		break;
	case HELLO_REJECT:
		refuse(endpoint, VIP_REJECT);
		break;
	case HELLO_BAD_VERSION:
		log_error_ratelimited("the peer has another version of this library (%u, not %u)", hello->version,
				      HELLO_VERSION);
		refuse(endpoint, VIP_ERROR_RESOURCE);
		break;
	case HELLO_CUT:
		refuse(endpoint, VIP_ERROR_RESOURCE);
		break;
	default: /* BUSY, NO_MATCH, or it has stopped to wait without a word */
		if (kind == HELLO_BUSY)
			endpoint_busy(endpoint->vi);
		close_connection(endpoint);
		endpoint->place++;
		ask_next(endpoint);
		break;
	}
}

static void endpoint_ready(struct watch *watch)
{
	struct loopback_endpoint *endpoint =
		(struct loopback_endpoint *)((char *)watch -
					     offsetof(struct loopback_endpoint, watch));
	int fds[HELLO_FDS], kind;
	struct hello hello;

	if (!fd_is_own(watch->fd))
		return;
	kind = hello_receive(watch->fd, &hello, fds);
	if (kind == -1)
		return;
	switch (endpoint->phase) {
	case LOOPBACK_ASKING:
		answered(endpoint, kind, &hello, fds);
		break;
	case LOOPBACK_CONFIRMING:
		if (kind == HELLO_CONFIRM) {
			endpoint->phase = LOOPBACK_CONNECTED;
			endpoint_connected(endpoint->vi, &endpoint->peer);
		} else {
			refuse(endpoint, VIP_TIMEOUT); /* it has given up */
		}
		break;
	default: /* the socket's end, or a message that must not come */
		endpoint_lost(endpoint->vi);
		close_connection(endpoint);
		break;
	}
	hello_close_fds(fds);
}

/* Makes the link and says yes. 0 or errno; EPIPE when the requester is gone. */
static int send_accept(struct loopback_endpoint *endpoint, const struct loopback_request *request)
{
	struct link *link;
	int error, fd;

	error = adopt_peer(endpoint, &request->hello, request->process, request->regions_fd,
			 request->page_fd);
	if (error)
		return error;
	link = link_create(&fd);
	if (!link)
		return errno;
	/* The requester may send as soon as it has the answer. */
	endpoint_establishing(endpoint->vi);
	endpoint_attach(endpoint, link, 1);
	if (!introduce_with(endpoint, endpoint->watch.fd, HELLO_ACCEPT, fd))
		error = errno == ETOOMANYREFS || is_refused(errno) ? errno : EPIPE;
	close(fd);
	return error;
}

void loopback_accept(struct device_request *base, struct device_endpoint *base_endpoint,
		     const struct connect_info *own)
{
	struct loopback_request *request = (struct loopback_request *)base;
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base_endpoint;
	int error;

	endpoint->own = *own;
	endpoint->wanted.length = 0;
	error = loopback_watch(endpoint->device, &endpoint->watch, request->fd);
	if (!error) {
		request->fd = -1; /* it is the endpoint's */
		endpoint->watch.ready = endpoint_ready;
		endpoint->phase = LOOPBACK_CONFIRMING;
		error = send_accept(endpoint, request);
	}
	loopback_request_free(request);
	if (error && error != EPIPE)
		log_error_ratelimited("cannot accept a connection: %s%s", strerror(error),
				      error_hint(error, ACCEPTING_CALLS));
	if (error)
		refuse(endpoint, error == EPIPE ? VIP_TIMEOUT : VIP_ERROR_RESOURCE);
}

VIP_RETURN loopback_cancel(struct device_endpoint *endpoint)
{
	/* While a probe is under way a listener has the request. */
	close_connection((struct loopback_endpoint *)endpoint);
	return VIP_TIMEOUT;
}

void loopback_disconnect(struct device_endpoint *endpoint)
{
	close_connection((struct loopback_endpoint *)endpoint);
}
