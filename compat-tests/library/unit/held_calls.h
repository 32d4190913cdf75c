/* SPDX-License-Identifier: BSD-2-Clause */
// Holds what the library waits for, or lets it fail. A test program has these by the linker's --wrap of clock_gettime,
// process_vm_writev, pread64, sendmsg and timerfd_settime.
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on the library's clock stands still, or goes on: so no time limit of the library ends a wait.
void hold_clock(bool is_held);
// From now on copies into the memory of another process do not end, nor do reads of it, as if its page faults took for ever; or
// they go on.
void hold_copies(bool are_held);
// Threads in such a call.
unsigned held_copies(void);
// From now on calls that stop a timer, or set it to whole seconds, do not do so yet; or they do it.
void hold_stops_of_timer(bool are_held);
unsigned held_stops_of_timer(void);
// The next wake-ups fail with ENOBUFS.
void fail_wakes(unsigned count);
unsigned wakes_to_fail(void);

#ifdef __cplusplus
}
#endif
