/* SPDX-License-Identifier: BSD-2-Clause */
// Holds what the library waits for, or lets it fail. A test program has these by the linker's --wrap of clock_gettime,
// process_vm_writev, pread64, sendmsg and timerfd_settime.
#pragma once

#include <atomic>

// From now on the library's clock stands still, or goes on: so no time limit of the library ends a wait.
void hold_clock(bool is_held);
// While this is set copies into the memory of another process do not end, nor do reads of it, as if its page faults took for ever.
extern std::atomic<bool> copies_held;
extern std::atomic<unsigned> in_copies; // threads
// While this is set calls that stop a timer, or set it to whole seconds, do not do so yet.
extern std::atomic<bool> stops_held;
extern std::atomic<unsigned> in_stops;
// So many of the next wake-ups fail with ENOBUFS.
extern std::atomic<unsigned> wakes_to_fail;
