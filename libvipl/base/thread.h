/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library. */
#ifndef VIPL_THREAD_H
#define VIPL_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* True in a thread of the library. It may never fault on memory of the program: own_memory.h. */
extern _Thread_local bool thread_is_library __attribute__((tls_model("initial-exec")));

/*
 * Starts a thread that blocks all signals, but those of its own faults and of abort() only if the caller does. 0 or
 * errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
