/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes descriptors that other processes have sent, and sockets with such descriptors unread, in threads that nobody waits
 * for. Closing one may never end. So each is charged to the user who sent it.
 */
#ifndef VIPL_CLOSER_H
#define VIPL_CLOSER_H

#include <stdbool.h>
#include <sys/types.h>

#define CLOSER_NO_USER ((uid_t)-1) /* it is not known who */

/* Takes the descriptor. `is_received`: the user has sent this one; else it may have unread ones. */
void closer_take(int fd, uid_t user, bool is_received);
/* False: too many descriptors of this user cannot be closed, so we receive nothing more from this user. */
bool closer_admits(uid_t user);
/* True: so many wait to be closed that we receive no more from anybody. */
bool closer_is_busy(void);

#endif
