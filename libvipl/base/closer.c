/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that close, and that nobody waits for. They are started when there is something to close, and end when there is
 * nothing. One may never come back from closing a file. When all do not, the rest stays open.
 */
#include "closer.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fd.h"
#include "log.h"
#include "thread.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9, the same on all processors */
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

#define CLOSERS 4u
#define MANY	256u

struct unclosed {
	STAILQ_ENTRY(unclosed) in_queue;
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static STAILQ_HEAD(, unclosed) queue = STAILQ_HEAD_INITIALIZER(queue);
static unsigned closers, waiting; /* waiting: in the queue, and those that are being closed */

/* ---- closing one ---- */

/* A thread with a table of descriptors of its own, which has one entry: an end of a pair of sockets. */
struct holder {
	int fd;
	bool has_own_table;
	pthread_barrier_t meeting; /* of the two threads: the table is there; the table shall go */
};

/*
 * When a thread ends, connections that it closes do not linger: the kernel waits for none. So this thread does not close
 * its descriptor, but ends.
 */
static void *hold(void *argument)
{
	struct holder *holder = argument;
	unsigned fd = (unsigned)holder->fd;

	holder->has_own_table = !syscall(SYS_close_range, fd + 1, ~0u, UNSHARE_TABLE) &&
				(!fd || !syscall(SYS_close_range, 0, fd - 1, 0));
	pthread_barrier_wait(&holder->meeting);
	pthread_barrier_wait(&holder->meeting);
	return NULL;
}

static bool send_descriptor(int to, int fd)
{
	char unused = 0;
	struct iovec byte = {&unused, 1};
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	*header = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/* Sends the descriptor to a socket that only the other thread has, and which ends with that thread. */
static void close_by_end_of_thread(int fd, const int pair[2])
{
	struct holder holder = {.fd = pair[1]};
	pthread_t thread;

	pthread_barrier_init(&holder.meeting, NULL, 2);
	if (thread_start(&thread, THREAD_OWN, hold, &holder)) {
		close(fd);
		close(pair[1]);
	} else {
		pthread_barrier_wait(&holder.meeting);
		if (holder.has_own_table)
			send_descriptor(pair[0], fd);
		/* Neither is the last one now. But with some file systems this waits, too. */
		close(fd);
		close(pair[1]);
		pthread_barrier_wait(&holder.meeting);
		pthread_join(thread, NULL);
	}
	pthread_barrier_destroy(&holder.meeting);
}

static void close_one(int fd)
{
	const struct linger none = {0};
	int pair[2], domain = AF_UNSPEC;
	socklen_t length = sizeof(domain);

	/* Only a connection lingers, and what a Unix socket has unread. */
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
	if (domain != AF_UNIX) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		close(fd);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		close(fd);
		return;
	}
	pair[0] = fd_above_standard(pair[0]);
	pair[1] = fd_above_standard(pair[1]);
	close_by_end_of_thread(fd, pair);
	close(pair[0]);
}

/* ---- the queue ---- */

static void *close_all(void *unused)
{
	struct unclosed *first;

	(void)unused;
	pthread_mutex_lock(&lock);
	while ((first = STAILQ_FIRST(&queue))) {
		STAILQ_REMOVE_HEAD(&queue, in_queue);
		pthread_mutex_unlock(&lock);
		close_one(first->fd);
		free(first);
		pthread_mutex_lock(&lock);
		waiting--;
	}
	closers--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* A child has no closers, and what its parent is to close is its parent's. */
static void in_child(void)
{
	STAILQ_INIT(&queue);
	closers = waiting = 0;
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* The lock is held. */
static void start_closer(void)
{
	pthread_t thread;

	if (STAILQ_EMPTY(&queue) || closers == CLOSERS || thread_start(&thread, THREAD_OWN, close_all, NULL))
		return;
	closers++;
	pthread_detach(thread);
}

void closer_take(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct unclosed *new = malloc(sizeof(*new));

	pthread_once(&once, prepare);
	if (!new) {
		log_warning_ratelimited("no memory to close a file descriptor that another process has sent");
		return; /* rather one descriptor less than to wait */
	}
	new->fd = fd;
	pthread_mutex_lock(&lock);
	STAILQ_INSERT_TAIL(&queue, new, in_queue);
	if (++waiting == MANY)
		log_warning_ratelimited("%u file descriptors that other processes have sent cannot be closed yet: "
					"no new connections until then", waiting);
	start_closer();
	pthread_mutex_unlock(&lock);
}

bool closer_is_busy(void)
{
	bool is_busy;

	pthread_mutex_lock(&lock);
	is_busy = waiting >= MANY;
	if (is_busy)
		start_closer(); /* none could be started before */
	pthread_mutex_unlock(&lock);
	return is_busy;
}
