/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the library. They block signals, so that a signal to the process goes to one of the program's threads. But
 * abort(), or a fault in one of the program's handlers, raises a signal in the library's thread. Such signals stay as they
 * are in the thread that starts this one, so that the program's signal handlers run.
 */
#include "thread.h"

#include <sched.h>
#include <signal.h>

#include "cause.h"

_Thread_local bool thread_is_library, thread_is_agent;

#define KIB	 1024u
#define ATTEMPTS 3

/* 0: the default. A program with much thread-local data needs more: pthread_create() then fails with EINVAL. */
static const size_t stacks[][ATTEMPTS] = {
	[THREAD_OWN] = {256 * KIB, 1024 * KIB, 0},
	[THREAD_HANDLERS] = {0, 1024 * KIB, 256 * KIB},
};

static int create(pthread_t *thread, size_t stack, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	if (stack)
		error = pthread_attr_setstacksize(&attributes, stack);
	if (!error)
		error = pthread_create(thread, &attributes, run, argument);
	pthread_attr_destroy(&attributes);
	return error;
}

/* One priority above a program with real-time priority, which may poll without an end: at the same one it would never run. */
static void raise_priority(pthread_t thread)
{
	struct sched_param scheduling;
	int policy;

	if (pthread_getschedparam(pthread_self(), &policy, &scheduling) || (policy != SCHED_FIFO && policy != SCHED_RR) ||
	    scheduling.sched_priority >= sched_get_priority_max(policy))
		return;
	scheduling.sched_priority++;
	pthread_setschedparam(thread, policy, &scheduling);
}

int thread_start(pthread_t *thread, enum thread_stack stack, void *(*run)(void *), void *argument)
{
	static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t blocked, before;
	int error = 0;

	sigfillset(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!sigismember(&before, own[i]))
			sigdelset(&blocked, own[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		error = create(thread, stacks[stack][i], run, argument);
		if (!error)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error && stack == THREAD_OWN)
		raise_priority(*thread);
	if (!error)
		return 0;
	return cause_of_memory(is_refused(error) ? "clone3() or clone()" : "pthread_create()", 256 * KIB, error);
}
