/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for requests, without a daemon: a process that waits for a discriminator listens on a socket
 * whose abstract name is made of the discriminator and the user.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "base/closer.h"
#include "base/user.h"
#include "loopback.h"

#define BACKLOG	   1024
#define MOST_HALF_OPEN 64u /* of the half-open clients the oldest goes when there are more */

struct loopback_listener {
	struct watch watch;
	struct loopback_device *device;
	LIST_ENTRY(loopback_listener) in_device;
	struct discriminator discriminator;
	uid_t user; /* under whose name */
	unsigned users;
	TAILQ_HEAD(half_open_clients, half_open) half_open_clients;
	unsigned half_open_count;
	bool is_left_alone; /* until the next tick */
};

/* A half-open client: it has connected, and its hello has not come yet. */
struct half_open {
	struct watch watch;
	struct loopback_listener *listener;
	TAILQ_ENTRY(half_open) in_listener;
	pid_t process;
};

unsigned rendezvous_address(struct sockaddr_un *address, uid_t user,
			    const struct discriminator *discriminator, unsigned place)
{
	char text[2 * MAX_DISCRIMINATOR_LEN + 1] = "";

	for (unsigned i = 0; i < discriminator->length; i++)
		snprintf(text + 2 * (size_t)i, 3, "%02x", discriminator->bytes[i]);
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (unsigned)offsetof(struct sockaddr_un, sun_path) + 1 +
	       (unsigned)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
				  "vipl-%u-%s-%u", (unsigned)user, text, place);
}

bool rendezvous_user(unsigned index, uid_t *user)
{
	static atomic_bool told;
	const char *list = config()->lo_users;

	*user = own_user();
	while (index--) {
		unsigned long long number;
		char *end;

		if (!*list)
			return false;
		number = strtoull(list, &end, 10);
		if (*list < '0' || *list > '9' || number >= UINT32_MAX || (*end && *end != ',')) {
			if (!atomic_exchange(&told, true))
				log_warning("VIPL_LO_USERS: \"%s\" is not a list of user numbers",
					    list);
			return false;
		}
		*user = (uid_t)number;
		list = *end ? end + 1 : end;
	}
	return true;
}

bool rendezvous_peer(int fd, pid_t *process)
{
	uid_t peer, user;

	if (!user_of_peer(fd, &peer, process))
		return false;
	/*
	 * Memory is accessed directly only among processes that could do so anyway: with others, an
	 * access can take as long as the owner of the memory likes.
	 */
	if (peer != own_user())
		*process = 0;
	for (unsigned i = 0; rendezvous_user(i, &user); i++)
		if (user == peer)
			return closer_admits(peer);
	log_debug_ratelimited("user %u is not permitted to connect (see VIPL_LO_USERS)", (unsigned)peer);
	return false;
}

void loopback_request_free(struct loopback_request *request)
{
	/* A program that has closed one of them has closed them all. What the peer sent has the peer's marks, if any. */
	bool are_own = request->fd < 0 || fd_is_own(request->fd);

	if (request->fd >= 0 && are_own)
		strange_close(request->fd);
	if (request->regions_fd >= 0 && are_own)
		close(request->regions_fd);
	if (request->page_fd >= 0 && are_own)
		close(request->page_fd);
	free(request);
}

static void answer(int fd, enum hello_kind kind)
{
	struct hello hello = {.magic = HELLO_MAGIC, .version = HELLO_VERSION, .kind = kind};

	if (fd_is_own(fd))
		hello_send(fd, &hello, NULL, 0); /* the other end may be gone: no matter */
}

void loopback_reject(struct device_request *base, VIP_RETURN refusal)
{
	struct loopback_request *request = (struct loopback_request *)base;

	answer(request->fd, refusal == VIP_NO_MATCH   ? HELLO_NO_MATCH
			    : refusal == VIP_NOT_DONE ? HELLO_BUSY
						      : HELLO_REJECT);
	loopback_request_free(request);
}

/* A requester says nothing more until it is answered. */
bool loopback_has_requester(const struct device_request *base)
{
	const struct loopback_request *request = (const struct loopback_request *)base;
	struct iovec place = {&(char){0}, 1};
	struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};

	return recvmsg(request->fd, &message, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* File descriptors are the program's: the lower half of them shall be enough for all that we hold. */
bool loopback_can_hold(const struct device_request *base)
{
	const struct loopback_request *request = (const struct loopback_request *)base;
	struct rlimit most;

	return !getrlimit(RLIMIT_NOFILE, &most) && (rlim_t)request->fd < most.rlim_cur / 2;
}

static void drop_half_open(struct half_open *half_open)
{
	TAILQ_REMOVE(&half_open->listener->half_open_clients, half_open, in_listener);
	half_open->listener->half_open_count--;
	loopback_unwatch(half_open->listener->device, &half_open->watch);
	free(half_open);
}

/* A request has come; from here on its socket is looked at when it is answered, not before. Takes `fds`. */
static void arrive(struct half_open *half_open, const struct hello *hello, int fds[HELLO_FDS])
{
	struct loopback_device *device = half_open->listener->device;
	struct loopback_request *request = malloc(sizeof(*request));
	struct discriminator wanted = {.length = hello->wanted_length};
	struct connect_info peer = loopback_info(device, hello);

	memcpy(wanted.bytes, hello->wanted, wanted.length);
	if (request)
		*request = (struct loopback_request){loopback_release(device, &half_open->watch), fds[0], fds[1],
						     half_open->process, *hello};
	if (request) {
		VIP_RETURN refusal;

		fds[0] = fds[1] = -1;
		refusal = request_arrived(device->nic, (struct device_request *)request, &peer, &wanted);
		if (refusal != VIP_SUCCESS)
			loopback_reject((struct device_request *)request, refusal);
	} else {
		log_warning_ratelimited("a connection request is refused: no memory");
		answer(half_open->watch.fd, HELLO_NO_MATCH);
	}
}

static void half_open_ready(struct watch *watch)
{
	struct half_open *half_open = (struct half_open *)watch;
	struct hello hello;
	int fds[HELLO_FDS];

	if (!fd_is_own(watch->fd))
		return;
	switch (hello_receive(watch->fd, &hello, fds)) {
	case -1:
		return;
	case HELLO_REQUEST:
	case HELLO_PEER_REQUEST:
		arrive(half_open, &hello, fds);
		break;
	case HELLO_BAD_VERSION:
		log_warning_ratelimited(
			"refused a request by another version of this library (%u, not %u)",
			hello.version, HELLO_VERSION);
		answer(watch->fd, HELLO_BAD_VERSION);
		break;
	default:
		break;
	}
	hello_close_fds(fds);
	drop_half_open(half_open);
}

/* Whoever asks waits until the next tick. */
static void leave_alone(struct loopback_listener *listener)
{
	listener->is_left_alone = true;
	loopback_leave_alone(listener->device, &listener->watch, true);
	left_alone_wait(listener->device);
}

/*
 * No file descriptor is left. Turned away, the client tries again after a pause. Left in the queue, it would keep us busy.
 */
static void turn_away(struct loopback_listener *listener)
{
	struct loopback_device *device = listener->device;
	int fd;

	fd_close(device->spare_fd);
	fd = accept4(listener->watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		strange_close(fd);
	else /* another thread has taken the spare one */
		leave_alone(listener);
	device->spare_fd = fcntl(device->base.event_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	log_warning_ratelimited("no file descriptor for a connection (see ulimit -n)");
}

void loopback_listeners_tick(struct loopback_device *device)
{
	struct loopback_listener *listener;

	LIST_FOREACH(listener, &device->listeners, in_device) {
		if (!listener->is_left_alone)
			continue;
		listener->is_left_alone = false;
		loopback_leave_alone(device, &listener->watch, false);
		if (device->spare_fd < 0)
			device->spare_fd = fcntl(device->base.event_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
}

static void listener_ready(struct watch *watch)
{
	struct loopback_listener *listener = (struct loopback_listener *)watch;
	struct loopback_device *device = listener->device;
	struct half_open *half_open = NULL;
	pid_t process;
	int fd;

	if (!fd_is_own(watch->fd))
		return;
	if (closer_is_busy()) {
		leave_alone(listener);
		return;
	}
	fd = fd_above_standard(accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		turn_away(listener);
		return;
	}
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		log_error_ratelimited("cannot wait for a connection: %s%s", strerror(errno),
				      filter_hint(errno, "accept4()"));
		leave_alone(listener);
	}
	if (fd < 0)
		return;
	if (rendezvous_peer(fd, &process))
		half_open = calloc(1, sizeof(*half_open));
	if (!half_open || loopback_watch(device, &half_open->watch, fd)) {
		free(half_open);
		strange_close(fd);
		return;
	}
	half_open->watch.ready = half_open_ready;
	half_open->listener = listener;
	half_open->process = process;
	TAILQ_INSERT_TAIL(&listener->half_open_clients, half_open, in_listener);
	if (++listener->half_open_count > MOST_HALF_OPEN)
		drop_half_open(TAILQ_FIRST(&listener->half_open_clients));
	half_open_ready(&half_open->watch); /* mostly it has spoken already */
}

static struct loopback_listener *find(struct loopback_device *device,
				      const struct discriminator *discriminator)
{
	struct loopback_listener *listener;

	LIST_FOREACH(listener, &device->listeners, in_device)
		if (discriminator_equal(&listener->discriminator, discriminator))
			return listener;
	return NULL;
}

/* Takes the first free name of the discriminator. 0 or errno. */
static int take_name(int fd, const struct discriminator *discriminator)
{
	for (unsigned place = 0; place < RENDEZVOUS_PLACES; place++) {
		struct sockaddr_un address;
		socklen_t length = rendezvous_address(&address, own_user(), discriminator, place);

		if (!bind(fd, (struct sockaddr *)&address, length))
			return listen(fd, BACKLOG) ? errno : 0;
		if (errno != EADDRINUSE)
			return errno;
	}
	return EADDRINUSE;
}

int loopback_listen(struct device *base, const struct discriminator *discriminator)
{
	struct loopback_device *device = (struct loopback_device *)base;
	struct loopback_listener *listener = find(device, discriminator);
	int fd, error;

	if (listener) {
		listener->users++;
		return 0;
	}
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return ENOMEM;
	fd = fd_above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	error = fd < 0 ? errno : take_name(fd, discriminator);
	if (!error)
		error = loopback_watch(device, &listener->watch, fd);
	if (!error) {
		listener->watch.ready = listener_ready;
		listener->device = device;
		listener->discriminator = *discriminator;
		listener->user = own_user();
		listener->users = 1;
		TAILQ_INIT(&listener->half_open_clients);
		LIST_INSERT_HEAD(&device->listeners, listener, in_device);
		return 0;
	}
	log_ratelimited(error == EADDRINUSE ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
			"cannot wait for a connection: %s%s%s", strerror(error),
			filter_hint(error, "socket(), bind(), listen() or epoll_ctl()"),
			error == EADDRINUSE
				? ": four other NICs wait for the same discriminator, or have waited lately"
			: error == EMFILE ? " (see ulimit -n)"
					  : "");
	if (fd >= 0)
		close(fd);
	free(listener);
	return error;
}

static void close_listener(struct loopback_device *device, struct watch *watch)
{
	int fd = loopback_release(device, watch);

	if (fd_is_own(fd))
		strange_close_listener(fd);
}

int loopback_relisten(struct device *base, const struct discriminator *discriminator)
{
	struct loopback_device *device = (struct loopback_device *)base;
	struct loopback_listener *listener = find(device, discriminator);
	struct watch former;
	int fd, error;

	if (!listener || listener->user == own_user())
		return 0;
	former = (struct watch){.fd = listener->watch.fd};
	fd = fd_above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	error = fd < 0 ? errno : take_name(fd, discriminator);
	if (!error)
		error = loopback_watch(device, &listener->watch, fd);
	if (error) {
		log_warning_ratelimited("cannot wait for a connection as user %u, which this process has become: %s%s",
					(unsigned)own_user(), strerror(error),
					filter_hint(error, "socket(), bind(), listen() or epoll_ctl()"));
		if (fd >= 0)
			close(fd);
		return error;
	}
	listener->user = own_user();
	listener->is_left_alone = false;
	close_listener(device, &former);
	return 0;
}

void loopback_unlisten(struct device *base, const struct discriminator *discriminator)
{
	struct loopback_device *device = (struct loopback_device *)base;
	struct loopback_listener *listener = find(device, discriminator);

	if (!listener || --listener->users)
		return;
	while (!TAILQ_EMPTY(&listener->half_open_clients))
		drop_half_open(TAILQ_FIRST(&listener->half_open_clients));
	LIST_REMOVE(listener, in_device);
	close_listener(device, &listener->watch);
	free(listener);
}
