/* SPDX-License-Identifier: BSD-2-Clause */
/* Which user this process has, and which a process on the other end of a Unix socket. */
#ifndef VIPL_USER_H
#define VIPL_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The effective user, which peers are told. It is asked anew each time, since the program may change it, and of the kernel,
 * since geteuid() may be another function (fakeroot).
 */
uid_t own_user(void);

/* For EACCES from the kernel's RDMA devices, what is behind it, else "". */
const char *user_hint(int error);

/*
 * Whenever a NIC is opened: the program may leave /proc behind afterwards (chroot), and while a NIC is open, and so has
 * threads, the process cannot enter another user namespace.
 */
void users_read(void);

/*
 * Returns the user of the process that has connected or listens on the other end, and if `process` is not NULL the
 * process. Returns false if the kernel cannot tell which user it is. In a user namespace that does not map all users,
 * one number stands for each user without a mapping.
 */
bool user_of_peer(int fd, uid_t *user, pid_t *process);

#endif
