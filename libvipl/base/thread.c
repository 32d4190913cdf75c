/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the library. They block signals, so that a signal that is sent to the process goes to one of the
 * program's threads. But abort() or a fault in a handler of the program's raises a signal in this very thread.
 * These signals stay as they are in the thread that starts this one, and the program's signal handlers run.
 */
#include "thread.h"

#include <signal.h>

_Thread_local bool thread_is_library;

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t blocked, before;
	int error;

	sigfillset(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!sigismember(&before, own[i]))
			sigdelset(&blocked, own[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	error = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
