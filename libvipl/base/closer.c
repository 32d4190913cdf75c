/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that close descriptors, and that nobody waits for. They are started when there is something to close, and end when
 * there is nothing. A close may never return.
 *
 * A Unix socket with unread descriptors is closed by a thread that has a table of descriptors of its own, with this socket in
 * it, and ends. When a thread ends, the kernel does not wait for lingering connections among the unread descriptors, and asks
 * no file system to flush those that were in no table. Any other descriptor is closed as usual, which can wait for its file
 * system.
 *
 * A place is the work of one such thread, for one user. A user has few places; the last ones take many descriptors at once.
 * Some places are for our own user only. When the number of a thread names nobody any more, the thread has ended, and the
 * kernel has closed all its descriptors.
 */
#include "closer.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "deadline.h"
#include "futex.h"
#include "log.h"
#include "own_table.h"
#include "thread.h"
#include "user.h"

#define PLACES	    32u
#define USER_PLACES 8u
#define USER_USUAL  4u /* of a user's places; the others are for many descriptors */
#define BATCH	    256u /* descriptors at a place */
#define USER_MOST   8u	 /* descriptors that take long, and this user may send no more */
#define LONG_NSEC   (100 * NSEC_PER_MSEC)
#define LONGEST_NAP_MSEC 64

struct unclosed {
	STAILQ_ENTRY(unclosed) in_queue;
	int fd;
	uid_t user;
	bool is_unix;
};

/* No thread uses any memory but this while it waits for the kernel. */
struct place {
	enum { PLACE_FREE, PLACE_WORKING, PLACE_ENDING } state;
	uid_t user;
	int64_t since;
	bool is_unix;
	unsigned count; /* of these, in ascending order: */
	int fds[BATCH];
	pid_t ender;	 /* the thread that ends with them; 0: none */
	bool has_begun, may_end; /* this thread */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* has_begun or may_end of a place */
static STAILQ_HEAD(, unclosed) queue = STAILQ_HEAD_INITIALIZER(queue);
static struct place places[PLACES];
static unsigned queued, closers, working; /* working: closers that are at a place */
static bool has_waiter; /* a closer waits for a place */

/* ---- places; the lock is held ---- */

/* A thread that has ended has closed all. */
static void free_ended(void)
{
	for (struct place *place = places; place < places + PLACES; place++)
		if (place->state == PLACE_ENDING && syscall(SYS_tgkill, getpid(), place->ender, 0))
			place->state = PLACE_FREE;
}

/* How many descriptors may wait in the table of the process. */
static unsigned most_queued(void)
{
	struct rlimit most;

	return getrlimit(RLIMIT_NOFILE, &most) || most.rlim_cur / 4 > BATCH ? BATCH : (unsigned)(most.rlim_cur / 4);
}

static unsigned queued_of(uid_t user)
{
	const struct unclosed *unclosed;
	unsigned count = 0;

	STAILQ_FOREACH(unclosed, &queue, in_queue)
		count += unclosed->user == user;
	return count;
}

static struct place *find_place(uid_t user)
{
	struct place *found = NULL;
	unsigned used = 0, others = 0;
	uid_t own = own_user();

	for (struct place *place = places; place < places + PLACES; place++) {
		if (place->state == PLACE_FREE) {
			found = place;
		} else {
			used += place->user == user;
			others += place->user != own;
		}
	}
	if (user != own && others >= PLACES - USER_PLACES)
		return NULL;
	if (!found || used >= USER_PLACES || (used >= USER_USUAL && queued_of(user) < most_queued() / 4 * 3))
		return NULL;
	*found = (struct place){.state = PLACE_WORKING, .user = user, .since = clock_nsec()};
	return found;
}

static void add_fd(struct place *place, int fd)
{
	unsigned i = place->count++;

	for (; i && place->fds[i - 1] > fd; i--)
		place->fds[i] = place->fds[i - 1];
	place->fds[i] = fd;
}

/* From the queue: sockets of one user, or one other descriptor. NULL: nobody who waits gets a place. */
static struct place *next_place(void)
{
	struct unclosed *unclosed, *next;
	struct place *place = NULL;

	free_ended();
	STAILQ_FOREACH(unclosed, &queue, in_queue)
		if ((place = find_place(unclosed->user)))
			break;
	for (; unclosed && place->count < BATCH; unclosed = next) {
		next = STAILQ_NEXT(unclosed, in_queue);
		if (!place->count)
			place->is_unix = unclosed->is_unix;
		if (unclosed->user != place->user || unclosed->is_unix != place->is_unix)
			continue;
		add_fd(place, unclosed->fd);
		STAILQ_REMOVE(&queue, unclosed, unclosed, in_queue);
		free(unclosed);
		queued--;
		if (!place->is_unix)
			break;
	}
	return place;
}

/* ---- closing ---- */

/* The lock is held. */
static void wait_for(const bool *happens)
{
	while (!*happens)
		pthread_cond_wait(&changed, &lock);
}

static void announce(bool *happens)
{
	*happens = true;
	pthread_cond_broadcast(&changed);
}

/* This thread does not close its descriptors, but ends: then the kernel waits for no connection. */
static void *end_with_them(void *argument)
{
	struct place *place = argument;
	bool has_table = own_table_make(place->fds, place->count);

	pthread_mutex_lock(&lock);
	if (has_table)
		place->ender = (pid_t)syscall(SYS_gettid);
	announce(&place->has_begun);
	pthread_mutex_unlock(&lock);
	if (!has_table)
		return NULL; /* the place may be another's by now */
	own_table_keep(place->fds, place->count);
	pthread_mutex_lock(&lock);
	wait_for(&place->may_end);
	place->state = PLACE_ENDING;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static bool start_ender(struct place *place)
{
	pthread_t thread;

	if (thread_start(&thread, THREAD_OWN, end_with_them, place))
		return false;
	pthread_detach(thread);
	return true;
}

/* The lock is held on entry and on return. */
static void close_place(struct place *place)
{
	const struct linger none = {0};

	if (place->is_unix && start_ender(place))
		wait_for(&place->has_begun);
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < place->count; i++) {
		if (!place->is_unix)
			setsockopt(place->fds[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		close(place->fds[i]); /* of a socket that the other thread has, too, this is not the last one */
	}
	pthread_mutex_lock(&lock);
	if (place->ender)
		announce(&place->may_end);
	else
		place->state = PLACE_FREE;
}

static void *close_all(void *unused);

/* The lock is held. While the queue has something, one closer is at no place, because those at a place may hang. */
static void start_closer(void)
{
	pthread_t thread;

	if (STAILQ_EMPTY(&queue) || closers > working || thread_start(&thread, THREAD_OWN, close_all, NULL))
		return;
	closers++;
	pthread_detach(thread);
}

static void *close_all(void *unused)
{
	long pause = 1;

	pthread_mutex_lock(&lock);
	while (!STAILQ_EMPTY(&queue)) {
		struct place *place = next_place();

		if (place) {
			working++;
			start_closer();
			close_place(place);
			working--;
			pause = 1;
			continue;
		}
		if (has_waiter)
			break;
		has_waiter = true;
		pthread_mutex_unlock(&lock);
		futex_rest(pause * NSEC_PER_MSEC);
		pthread_mutex_lock(&lock);
		has_waiter = false;
		pause = pause < LONGEST_NAP_MSEC ? 2 * pause : pause;
	}
	closers--;
	pthread_mutex_unlock(&lock);
	return unused;
}

/* ---- the queue ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* A child of fork() has no closers, and closes nothing of its parent's queue. */
static void in_child(void)
{
	STAILQ_INIT(&queue);
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (unsigned i = 0; i < PLACES; i++)
		places[i].state = PLACE_FREE;
	queued = closers = working = 0;
	has_waiter = false;
	pthread_mutex_unlock(&lock);
}

static void closer_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

static void lock_places(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, closer_forks);
	pthread_mutex_lock(&lock);
}

void closer_take(int fd, uid_t user)
{
	struct unclosed *new = malloc(sizeof(*new));
	int domain = AF_UNSPEC;
	socklen_t length = sizeof(domain);

	if (!new) {
		log_warning_ratelimited("no memory to close a file descriptor that another process has sent");
		return; /* losing a descriptor is better than waiting */
	}
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
	*new = (struct unclosed){.fd = fd, .user = user, .is_unix = domain == AF_UNIX};
	lock_places();
	STAILQ_INSERT_TAIL(&queue, new, in_queue);
	queued++;
	start_closer();
	pthread_mutex_unlock(&lock);
}

/*
 * The lock is held. Unix sockets count only when they take long, because others may be the cause. Other descriptors count at
 * once: this user sent them.
 */
static unsigned unfinished_of(uid_t user)
{
	const struct unclosed *unclosed;
	int64_t now = clock_nsec();
	bool take_long = false;
	unsigned count = 0;

	for (const struct place *place = places; place < places + PLACES; place++) {
		if (place->state == PLACE_FREE || place->user != user)
			continue;
		take_long |= now - place->since > LONG_NSEC;
		if (!place->is_unix || now - place->since > LONG_NSEC)
			count += place->count;
	}
	STAILQ_FOREACH(unclosed, &queue, in_queue)
		count += unclosed->user == user && (take_long || !unclosed->is_unix);
	return count;
}

bool closer_admits(uid_t user)
{
	unsigned count;

	lock_places();
	free_ended();
	count = unfinished_of(user);
	pthread_mutex_unlock(&lock);
	if (count >= USER_MOST)
		log_warning_ratelimited("%u file descriptors that user %u has sent cannot be closed yet: no connections with this "
					"user until then", count, (unsigned)user);
	return count < USER_MOST;
}

bool closer_is_busy(void)
{
	unsigned count;

	lock_places();
	count = queued;
	start_closer(); /* none could be started before */
	pthread_mutex_unlock(&lock);
	if (!count || count < most_queued())
		return false;
	log_warning_ratelimited("%u file descriptors that other processes have sent cannot be closed yet: "
				"no new connections until then", count);
	return true;
}
