/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Undertakers: threads that nobody waits for. They are started when there is something to close, and end when there is
 * nothing. One that does not come back from closing is missed by none; when several do not, the rest waits unclosed.
 */
#include "undertaker.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "thread.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9, the same on all processors */
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

#define UNDERTAKERS 4u
#define MANY	    256u

struct body {
	STAILQ_ENTRY(body) in_queue;
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static STAILQ_HEAD(, body) bodies = STAILQ_HEAD_INITIALIZER(bodies);
static unsigned undertakers, waiting; /* waiting: to be closed, and those that are being closed */

/* ---- closing ---- */

/* A thread with a table of descriptors of its own, which has one entry. */
struct grave {
	int fd;
	bool is_separate;
	sem_t dug, filled;
};

/*
 * When a thread ends, connections that it closes do not linger: the kernel waits for none. So the thread does not close
 * its descriptor, but ends.
 */
static void *lie(void *argument)
{
	struct grave *grave = argument;
	unsigned fd = (unsigned)grave->fd;

	grave->is_separate = !syscall(SYS_close_range, fd + 1, ~0u, UNSHARE_TABLE) &&
			     (!fd || !syscall(SYS_close_range, 0, fd - 1, 0));
	sem_post(&grave->dug);
	while (sem_wait(&grave->filled))
		;
	return NULL;
}

static bool send_body(int to, int fd)
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

/* Sends the descriptor to a socket that only the other thread has, and which ends with it. */
static void lay_out(struct grave *grave, int to, int fd)
{
	pthread_t thread;

	if (!thread_start(&thread, THREAD_OWN, lie, grave)) {
		while (sem_wait(&grave->dug))
			;
		if (grave->is_separate)
			send_body(to, fd);
		/* Neither is the last one now. But with some file systems this waits, too. */
		close(fd);
		close(grave->fd);
		sem_post(&grave->filled);
		pthread_join(thread, NULL);
	} else {
		close(fd);
		close(grave->fd);
	}
}

static void entomb(int fd)
{
	struct grave grave;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		close(fd);
		return;
	}
	grave.fd = pair[1];
	sem_init(&grave.dug, 0, 0);
	sem_init(&grave.filled, 0, 0);
	lay_out(&grave, pair[0], fd);
	close(pair[0]);
	sem_destroy(&grave.dug);
	sem_destroy(&grave.filled);
}

/* ---- the queue ---- */

static void *undertake(void *unused)
{
	struct body *body;

	(void)unused;
	pthread_mutex_lock(&lock);
	while ((body = STAILQ_FIRST(&bodies))) {
		STAILQ_REMOVE_HEAD(&bodies, in_queue);
		pthread_mutex_unlock(&lock);
		entomb(body->fd);
		free(body);
		pthread_mutex_lock(&lock);
		waiting--;
	}
	undertakers--;
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

/* A child has no undertakers, and what its parent is to close is its parent's. */
static void in_child(void)
{
	STAILQ_INIT(&bodies);
	undertakers = waiting = 0;
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

void undertaker_take(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct body *body = malloc(sizeof(*body));
	pthread_t thread;

	pthread_once(&once, prepare);
	if (!body) {
		log_warning_ratelimited("no memory to close a file descriptor that another process has sent");
		return; /* rather one descriptor less than to wait */
	}
	body->fd = fd;
	pthread_mutex_lock(&lock);
	STAILQ_INSERT_TAIL(&bodies, body, in_queue);
	if (++waiting == MANY)
		log_warning_ratelimited("%u file descriptors that other processes have sent cannot be closed yet: "
					"no new connections until then", waiting);
	if (undertakers < UNDERTAKERS && !thread_start(&thread, THREAD_OWN, undertake, NULL)) {
		undertakers++;
		pthread_detach(thread);
	}
	pthread_mutex_unlock(&lock);
}

bool undertaker_is_busy(void)
{
	bool are;

	pthread_mutex_lock(&lock);
	are = waiting >= MANY;
	pthread_mutex_unlock(&lock);
	return are;
}
