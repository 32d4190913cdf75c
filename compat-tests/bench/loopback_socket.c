/*
 * The socket contenders: a Unix stream socket, and TCP over 127.0.0.1 with
 * TCP_NODELAY. Both are non-blocking, and the reader spins on read: what a
 * program does that wants the least latency of them.
 */
#include "loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct socket_path {
	struct pair *pair;
	int ends[2]; /* the client's, the server's; -1 when closed */
	uint64_t exchanges;
};

static void close_end(struct socket_path *path, int end)
{
	if (path->ends[end] >= 0)
		close(path->ends[end]);
	path->ends[end] = -1;
}

static void socket_close(void *state)
{
	struct socket_path *path = state;

	close_end(path, 0);
	close_end(path, 1);
	free(path);
}

static struct socket_path *path_new(struct pair *pair)
{
	struct socket_path *path = calloc(1, sizeof(*path));

	if (!path) {
		fail(pair, "no memory");
		return NULL;
	}
	path->pair = pair;
	path->ends[0] = path->ends[1] = -1;
	return path;
}

/* Returns the path, or NULL after a message when a step before it had failed. */
static void *finish(struct socket_path *path, const char *kind, bool ok)
{
	for (int i = 0; ok && i < 2; ++i)
		ok = fcntl(path->ends[i], F_SETFL, O_NONBLOCK) == 0;
	if (ok)
		return path;
	fail(path->pair, "cannot make a pair of %s sockets: %s", kind, strerror(errno));
	socket_close(path);
	return NULL;
}

static void *unix_open(struct pair *pair)
{
	struct socket_path *path = path_new(pair);

	if (!path)
		return NULL;
	return finish(path, "Unix", !socketpair(AF_UNIX, SOCK_STREAM, 0, path->ends));
}

/* Connects the two ends to each other over a listener that is gone thereafter. */
static bool connect_tcp(struct socket_path *path, int listener)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	static const int on = 1;

	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		return false;
	path->ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (path->ends[0] < 0 || connect(path->ends[0], (struct sockaddr *)&address, length))
		return false;
	path->ends[1] = accept(listener, NULL, NULL);
	if (path->ends[1] < 0)
		return false;
	for (int i = 0; i < 2; ++i)
		if (setsockopt(path->ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
			return false;
	return true;
}

static void *tcp_open(struct pair *pair)
{
	struct socket_path *path = path_new(pair);
	int listener;
	bool ok;

	if (!path)
		return NULL;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	ok = listener >= 0 && connect_tcp(path, listener);
	path = finish(path, "TCP", ok);
	if (listener >= 0)
		close(listener);
	return path;
}

static int socket_start(void *state)
{
	struct socket_path *path = state;

	/* Only then does the end of one process show as the end of file in the other one. */
	close_end(path, !path->pair->is_server);
	return 0;
}

static int put(struct socket_path *path, uint64_t value)
{
	int fd = path->ends[path->pair->is_server];
	ssize_t sent = send(fd, &value, sizeof(value), MSG_NOSIGNAL);

	/* With one message under way there is always room for it. */
	if (sent == (ssize_t)sizeof(value))
		return 0;
	return fail(path->pair, "socket: cannot send: %s",
		    sent < 0 ? strerror(errno) : "only a part went");
}

static int take(struct socket_path *path, uint64_t right)
{
	int fd = path->ends[path->pair->is_server];
	struct patience patience = {0};
	uint8_t data[sizeof(uint64_t)];
	size_t have = 0;
	uint64_t value;

	while (have < sizeof(data)) {
		ssize_t got = read(fd, data + have, sizeof(data) - have);

		if (got > 0)
			have += (size_t)got;
		else if (got == 0 || errno != EAGAIN)
			return fail(path->pair, "socket: cannot receive: %s",
				    got ? strerror(errno) : "the other end is closed");
		else if (keep_waiting(path->pair, &patience, "a message on a socket"))
			return -1;
	}
	memcpy(&value, data, sizeof(value));
	if (value != right)
		return fail(path->pair, "socket: %#llx came instead of %#llx",
			    (unsigned long long)value, (unsigned long long)right);
	return 0;
}

static int socket_ping(void *state, unsigned long round_trips)
{
	struct socket_path *path = state;

	for (unsigned long i = 0; i < round_trips; ++i) {
		++path->exchanges;
		if (put(path, ping_value(path->exchanges)) ||
		    take(path, pong_value(path->exchanges)))
			return -1;
	}
	return 0;
}

static int socket_echo(void *state, unsigned long round_trips)
{
	struct socket_path *path = state;

	for (unsigned long i = 0; i < round_trips; ++i) {
		++path->exchanges;
		if (take(path, ping_value(path->exchanges)) ||
		    put(path, pong_value(path->exchanges)))
			return -1;
	}
	return 0;
}

const struct contender unix_contender = {
	.open = unix_open,
	.start = socket_start,
	.ping = socket_ping,
	.echo = socket_echo,
	.close = socket_close,
};

const struct contender tcp_contender = {
	.open = tcp_open,
	.start = socket_start,
	.ping = socket_ping,
	.echo = socket_echo,
	.close = socket_close,
};
