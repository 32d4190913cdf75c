/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library. */
#ifndef VIPL_THREAD_H
#define VIPL_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* True in a thread of the library. It may never fault on memory of the program: own_memory.h. */
extern _Thread_local bool thread_is_library __attribute__((tls_model("initial-exec")));

/* True in the agent of a NIC, and in no other thread. */
extern _Thread_local bool thread_is_agent __attribute__((tls_model("initial-exec")));

/* Another address in each thread that lives. */
static inline const void *thread_self(void)
{
	return &thread_is_library;
}

/*
 * The default stack has the size of ulimit -s. That may be more memory than there is, above all if the program locks all its
 * memory (mlockall()).
 */
enum thread_stack {
	THREAD_OWN,	 /* runs nothing but the library: a small stack */
	THREAD_HANDLERS, /* runs the program's handlers: the default, or 1 MiB where that cannot be had */
};

/*
 * Starts a thread that blocks signals: those of its own faults and of abort() only if the caller blocks them, and all others. If
 * the caller has real-time priority, a thread of the library alone has one more. 0 or errno.
 */
int thread_start(pthread_t *thread, enum thread_stack stack, void *(*run)(void *), void *argument);

#endif
