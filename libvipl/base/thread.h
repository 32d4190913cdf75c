/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library. */
#ifndef VIPL_THREAD_H
#define VIPL_THREAD_H

#include <pthread.h>

/*
 * Starts a thread that blocks all signals, but those of its own faults and of abort() only if the caller does. 0 or
 * errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
