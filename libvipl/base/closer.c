/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that close descriptors, one at a time, and that nobody waits for: a close may never return. They are started when there
 * is something to close, and end when there is nothing. A user has few of them at a time, and some are for our own user only.
 */
#include "closer.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "fd.h"
#include "forks.h"
#include "log.h"
#include "thread.h"
#include "user.h"

#define THREADS	     32u
#define USER_THREADS 8u	  /* and if so many take long this user may send no more */
#define MOST_WAITING 256u /* descriptors for which there is no thread */
#define LONG_NSEC    NSEC_PER_SEC

struct unclosed {
	TAILQ_ENTRY(unclosed) in_list;
	int fd;
	uid_t user;
	bool is_received; /* from this user; else it is marked */
	int64_t since; /* a thread is closing it; 0: there is none; DEADLINE_NEVER: it has not begun */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static TAILQ_HEAD(, unclosed) unclosed_list = TAILQ_HEAD_INITIALIZER(unclosed_list);

/* ---- the list; the lock is held ---- */

static bool may_have_thread(uid_t user)
{
	const struct unclosed *unclosed;
	unsigned all = 0, of_user = 0, of_others = 0;
	uid_t own = own_user();

	TAILQ_FOREACH(unclosed, &unclosed_list, in_list) {
		if (!unclosed->since)
			continue;
		all++;
		of_user += unclosed->user == user;
		of_others += unclosed->user != own;
	}
	return all < THREADS && of_user < USER_THREADS && (user == own || of_others < THREADS - USER_THREADS);
}

/* The first one that may have a thread, or NULL. One user may have sent hundreds: it is asked for once. */
static struct unclosed *next_to_close(void)
{
	const struct unclosed *refused = NULL;
	struct unclosed *unclosed;

	TAILQ_FOREACH(unclosed, &unclosed_list, in_list) {
		if (unclosed->since || (refused && unclosed->user == refused->user))
			continue;
		if (may_have_thread(unclosed->user))
			break;
		refused = unclosed;
	}
	return unclosed;
}

static void *close_all(void *first)
{
	const struct linger none = {0};
	struct unclosed *unclosed = first;

	pthread_mutex_lock(&lock);
	while (unclosed) {
		unclosed->since = clock_nsec();
		pthread_mutex_unlock(&lock);
		if (unclosed->is_received || fd_is_own(unclosed->fd)) { /* else the program has closed it meanwhile */
			setsockopt(unclosed->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
			close(unclosed->fd);
		}
		pthread_mutex_lock(&lock);
		TAILQ_REMOVE(&unclosed_list, unclosed, in_list);
		free(unclosed);
		unclosed = next_to_close();
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void start_closing(void)
{
	struct unclosed *first = next_to_close();
	pthread_t thread;

	if (!first)
		return;
	first->since = DEADLINE_NEVER;
	if (thread_start(&thread, THREAD_OWN, close_all, first))
		first->since = 0; /* later */
	else
		pthread_detach(thread);
}

/* ---- for all ---- */

/* A child of fork() has none of these threads, and closes nothing of its parent's list. */
static void forget_list(void)
{
	TAILQ_INIT(&unclosed_list);
}

LOCK_OVER_FORKS(closer, lock, forget_list)

void closer_take(int fd, uid_t user, bool is_received)
{
	struct unclosed *new = malloc(sizeof(*new));

	if (!new) {
		log_warning_ratelimited("no memory to close a file descriptor that another process has sent");
		return; /* losing a descriptor is better than waiting */
	}
	if (!is_received)
		fd_mark(fd);
	*new = (struct unclosed){.fd = fd, .user = user, .is_received = is_received};
	closer_lock();
	TAILQ_INSERT_TAIL(&unclosed_list, new, in_list);
	start_closing();
	pthread_mutex_unlock(&lock);
}

bool closer_admits(uid_t user)
{
	const struct unclosed *unclosed;
	unsigned count = 0;
	int64_t now;

	closer_lock();
	start_closing(); /* there was no thread before */
	now = clock_nsec();
	/* Sockets wait for threads because of other users, too. */
	TAILQ_FOREACH(unclosed, &unclosed_list, in_list)
		count += unclosed->user == user &&
			 (unclosed->is_received || (unclosed->since && now - unclosed->since > LONG_NSEC));
	pthread_mutex_unlock(&lock);
	if (count >= USER_THREADS)
		log_warning_ratelimited("%u file descriptors that user %u has sent cannot be closed yet: no connections with this "
					"user until then", count, (unsigned)user);
	return count < USER_THREADS;
}

bool closer_is_busy(void)
{
	const struct unclosed *unclosed;
	struct rlimit most;
	unsigned count = 0;

	closer_lock();
	start_closing();
	TAILQ_FOREACH(unclosed, &unclosed_list, in_list)
		count += !unclosed->since;
	pthread_mutex_unlock(&lock);
	if (!count || (count < MOST_WAITING && (getrlimit(RLIMIT_NOFILE, &most) || count < most.rlim_cur / 4)))
		return false;
	log_warning_ratelimited("%u file descriptors that other processes have sent cannot be closed yet: "
				"no new connections until then", count);
	return true;
}
