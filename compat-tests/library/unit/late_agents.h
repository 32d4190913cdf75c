/* SPDX-License-Identifier: BSD-2-Clause */
// The library's threads get the processor late, and the clock goes on meanwhile. A test program has these by the linker's
// --wrap of epoll_wait, connect, clock_gettime, clock_nanosleep and pthread_cond_timedwait.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on threads that have slept until an event stay behind that, or go on.
void agents_hold(bool hold);
// Those that stay there.
unsigned agents_held(void);
// From now on agents do not look by themselves once a second, but sleep until they are woken; or no longer.
void agents_sleep_on(bool sleep_on);
// Agents that have fallen asleep so, and sleep.
unsigned agents_asleep(void);
// From now on connect() succeeds later, where it would at once over TCP; or no longer.
void connect_slowly(bool slowly);
// The clock of the library jumps, though no time has passed.
void clock_jump(int msec);

#ifdef __cplusplus
}
#endif
