/* SPDX-License-Identifier: BSD-2-Clause */
/* Which user a process on the other end of a Unix socket has. */
#ifndef VIPL_USER_H
#define VIPL_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Returns the user of the process that has connected or listens on the other end, and if `process` is not NULL the
 * process. Returns false if the kernel cannot tell which user it is. In a user namespace that does not map all users,
 * one number stands for each user without a mapping.
 */
bool user_of_peer(int fd, uid_t *user, pid_t *process);

#endif
