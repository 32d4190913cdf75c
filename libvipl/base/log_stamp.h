/* SPDX-License-Identifier: BSD-2-Clause */
/* What a log line begins with: when, on which host, and which process. */
#ifndef VIPL_LOG_STAMP_H
#define VIPL_LOG_STAMP_H

#include <stddef.h>
#include <time.h>

#define LOG_STAMP_ROOM 160

/* Called early: how far local time is from UTC. errno stays as it is. */
void log_stamp_look(void);

/* "2026-11-28T03:14:15.926+01:00 node7 ring[4711] ". Returns its length. Takes no lock. */
size_t log_stamp(char text[LOG_STAMP_ROOM], const struct timespec *now);

#endif
