/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File descriptors of files that the library maps, and of connections with peers. A program that has closed standard
 * input, output or error may still write to their numbers, which what is opened next gets.
 */
#ifndef VIPL_FD_H
#define VIPL_FD_H

#include <errno.h>
#include <fcntl.h>
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

#endif
