/* SPDX-License-Identifier: BSD-2-Clause */
/* Renames some of the calls that the device makes, so that they reach calls.c. */
#ifndef FUZZ_CALLS_H
#define FUZZ_CALLS_H

#define calloc          fuzz_calloc
#define close           fuzz_close
#define clock_gettime   fuzz_clock_gettime
#define malloc          fuzz_malloc
#define mmap            fuzz_mmap
#define munmap          fuzz_munmap
#define epoll_ctl       fuzz_epoll_ctl
#define getsockopt      fuzz_getsockopt
#define timerfd_settime fuzz_timerfd_settime

#endif
