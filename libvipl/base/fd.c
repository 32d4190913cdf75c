/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks of descriptors, and descriptors that hold the numbers of standard files.
 *
 * The mark is the signal that the open file would send if it were asynchronous, which ours are not. Device and inode
 * would not do: all eventfds, epolls and timers have the same ones.
 */
#include "fd.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "forks.h"
#include "standard_error.h"

static atomic_bool has_no_marks; /* this system has none: then all that we have is closed */
static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static unsigned holders;				    /* threads */
static unsigned held;					    /* numbers, each a bit */

int fd_mark(int fd)
{
	int error = errno;

	if (fd >= 0 && (fcntl(fd, F_SETSIG, SIGRTMAX) ? errno == EINVAL : fcntl(fd, F_GETSIG) != SIGRTMAX))
		atomic_store(&has_no_marks, true);
	errno = error;
	return fd;
}

int fd_keep_far(int fd, const char *call)
{
	struct rlimit most;
	int far = -1;

	fd = fd_above_standard(fd, call);
	if (fd >= 0 && !getrlimit(RLIMIT_NOFILE, &most))
		far = fcntl(fd, F_DUPFD_CLOEXEC, most.rlim_cur < 2048 ? (int)most.rlim_cur / 2 : 1024);
	if (far < 0)
		return fd_mark(fd);
	close(fd);
	return fd_mark(far);
}

bool fd_is_own(int fd)
{
	int mark;

	if (fd < 0)
		return false;
	mark = fcntl(fd, F_GETSIG);
	/* A filter of system calls may refuse this. */
	return mark == SIGRTMAX || (mark < 0 ? errno != EBADF : atomic_load(&has_no_marks));
}

void fd_close(int fd)
{
	if (fd_is_own(fd))
		close(fd);
}

int fd_check_room(unsigned count)
{
	struct rlimit most;
	unsigned found = 0;

	if (getrlimit(RLIMIT_NOFILE, &most))
		return 0;
	/* From the highest number down, since free numbers are there first. */
	for (int fd = most.rlim_cur < INT_MAX ? (int)most.rlim_cur - 1 : INT_MAX; fd > STDERR_FILENO && found < count; fd--) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (errno != EBADF) /* a filter of system calls refuses to tell */
			return 0;
		found++;
	}
	return found < count ? cause("RLIMIT_NOFILE", EMFILE) : 0;
}

void fd_share(struct fd_shared *shared, int fd)
{
	struct stat status = {0};

	fstat(fd, &status);
	*shared = (struct fd_shared){fd, status.st_dev, status.st_ino};
}

void fd_close_shared(const struct fd_shared *shared)
{
	struct stat status;

	if (!fstat(shared->fd, &status) && status.st_dev == shared->device && status.st_ino == shared->inode)
		close(shared->fd);
}

static void release_all(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (held & 1u << fd)
			fd_close(fd); /* or another thread has redirected it meanwhile */
	held = 0;
}

/* The threads that have held them are not there. */
static void forget_holders(void)
{
	holders = 0;
	release_all();
}

LOCK_OVER_FORKS(fd, holding, forget_holders)

/* No thread waits for another one, whose device may hang. */
void fd_hold_standard(void)
{
	int fd;

	standard_error_look();
	fd_lock();
	holders++;
	/* What is written to it meanwhile goes nowhere. */
	while ((fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0 && fd <= STDERR_FILENO) {
		fd_mark(fd);
		held |= 1u << fd;
	}
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&holding);
}

void fd_release_standard(void)
{
	int error = errno;

	pthread_mutex_lock(&holding);
	if (!--holders)
		release_all();
	pthread_mutex_unlock(&holding);
	errno = error;
}
