/* SPDX-License-Identifier: BSD-2-Clause */
/* The user of this process, and of the process on the other end of a Unix socket. */
#ifndef VIPL_USER_H
#define VIPL_USER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The effective user, which peers see. It is asked each time, because the program may change it. The kernel is asked, because
 * geteuid() may be another function (fakeroot).
 */
uid_t own_user(void);

/*
 * Called when a NIC is opened. The program may lose /proc afterwards (chroot). While a NIC is open the process has threads, so
 * it cannot enter another user namespace.
 */
void users_read(void);

/*
 * Returns the user of the process that has connected or listens on the other end, and if `process` is not NULL the
 * process. Returns false if the kernel cannot tell which user it is. In a user namespace that does not map all users,
 * one number stands for each user without a mapping.
 */
bool user_of_peer(int fd, uid_t *user, pid_t *process);

#endif
