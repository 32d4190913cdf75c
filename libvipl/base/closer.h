/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes descriptors that other processes have sent, and sockets in which such are unread, in threads that nobody waits
 * for. To close one can take for ever. So each is accounted to the user who sent it.
 */
#ifndef VIPL_CLOSER_H
#define VIPL_CLOSER_H

#include <stdbool.h>
#include <sys/types.h>

#define CLOSER_NO_USER ((uid_t)-1) /* it is not known who */

/* Takes the descriptor. */
void closer_take(int fd, uid_t user);
/* False: so many of what this user has sent cannot be closed that no more is received from this user. */
bool closer_admits(uid_t user);
/* So many wait to be closed that there shall be no more, whoever sends them. */
bool closer_is_busy(void);
/* Descriptors are about to be closed. */
bool closer_works(void);

/*
 * Has a thread take all messages of a datagram socket, and what came with them, which nobody else may do meanwhile:
 * while closer_drains() is true. Does nothing if that is so, or if too many threads hang already.
 */
void closer_drain(int socket);
bool closer_drains(int socket);

#endif
