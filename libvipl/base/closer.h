/* SPDX-License-Identifier: BSD-2-Clause */
/* Closes descriptors that other processes have sent, in threads that nobody waits for. */
#ifndef VIPL_CLOSER_H
#define VIPL_CLOSER_H

#include <stdbool.h>

/* Takes the descriptor. */
void closer_take(int fd);
/* So many wait to be closed that there shall be no more. */
bool closer_is_busy(void);

#endif
