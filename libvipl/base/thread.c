/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the library. A signal that is meant for the process goes to one of the program's threads, so
 * these threads block it. What a handler of the program's does in such a thread, as abort() or a fault, raises a
 * signal in this very thread: those are not blocked, and the program's signal handlers run.
 */
#include "thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t blocked, before;
	int error;

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&blocked, own[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
