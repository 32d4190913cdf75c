/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's own file descriptors, in a process whose program may close any.
 *
 * A program may close standard input, output or error, and still write to their numbers, which the next files to be opened
 * get. So no descriptor of ours has these numbers. And a program may close all descriptors, ours included, and get their
 * numbers for files of its own. So a descriptor that we keep is marked, and is closed only while it has the mark.
 */
#ifndef VIPL_FD_H
#define VIPL_FD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "cause.h"

/*
 * Takes a new descriptor, or -1, of this call. Returns it with a number above those of standard files, or -1 and errno. Then it
 * is the cause, unless `call` is NULL: so what failed before stays the cause.
 */
static inline int fd_above_standard(int fd, const char *call)
{
	int above, error;

	if (fd < 0 && call)
		cause(call, errno);
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = above < 0 && call ? cause("fcntl(F_DUPFD_CLOEXEC)", errno) : errno;
	close(fd);
	errno = error;
	return above;
}

/* Marks a descriptor that the library keeps, or -1, and returns it. errno stays as it is. */
int fd_mark(int fd);
/* Has it the mark? True also where the system has no marks. */
bool fd_is_own(int fd);
/* Closes a marked descriptor, unless its number is another file's by now. */
void fd_close(int fd);

/* A file that other processes have, too. They can take the mark away, so its device and inode tell which it is. */
struct fd_shared {
	int fd;
	dev_t device;
	ino_t inode;
};

void fd_share(struct fd_shared *shared, int fd);
/* Closes it, unless its number is another file's by now. */
void fd_close_shared(const struct fd_shared *shared);

/* The same for one that the library keeps: it is marked. */
static inline int fd_keep(int fd, const char *call)
{
	return fd_mark(fd_above_standard(fd, call));
}

/*
 * The same for one that the data path uses without a check. Its number is far above those that the
 * program gets next. A program that has closed all descriptors would have to open many files to get it, and within a second,
 * because then the agent has ended all connections.
 */
int fd_keep_far(int fd, const char *call);

/* 0, or EMFILE and the cause: the process has not so many free numbers for files now. */
int fd_check_room(unsigned count);

/*
 * Occupies the numbers of standard files that are closed, while another library opens descriptors, until each thread that has
 * called fd_hold_standard() has called fd_release_standard().
 */
void fd_hold_standard(void);
void fd_release_standard(void);

#endif
