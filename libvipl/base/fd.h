/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's own file descriptors, in a process whose program may close any.
 *
 * A program that has closed standard input, output or error may still write to their numbers, which what is opened next
 * gets. So no descriptor of ours has them. And a program may close all descriptors, ours too, and get their numbers for
 * files of its own: a descriptor that is kept is marked, and is closed only while it still has the mark.
 */
#ifndef VIPL_FD_H
#define VIPL_FD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* Takes a new descriptor, or -1. Returns it with a number above theirs, or -1 and errno. */
static inline int fd_above_standard(int fd)
{
	int above, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	close(fd);
	errno = error;
	return above;
}

/* Marks a descriptor that the library keeps, or -1, and returns it. errno stays as it is. */
int fd_mark(int fd);
/* It has the mark, or this system has none. */
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

/* Both of it. */
static inline int fd_keep(int fd)
{
	return fd_mark(fd_above_standard(fd));
}

/*
 * Takes a descriptor that the data path uses without a question, or -1, and marks it. Its number is far above those that a
 * program gets next: one that closes all descriptors would have to open many files before one comes there, and within a
 * second, for then the agent has ended all connections.
 */
int fd_keep_far(int fd);

/*
 * While another library opens descriptors: occupies the numbers of standard files that are closed. What hold returns
 * goes to release.
 */
unsigned fd_hold_standard(void);
void fd_release_standard(unsigned held);

#endif
