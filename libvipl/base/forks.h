/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks that a child of fork() finds free, and what they guard whole. */
#ifndef VIPL_FORKS_H
#define VIPL_FORKS_H

#include <pthread.h>

/*
 * Makes name_lock(), which takes the lock, and is the first one to do so. From then on a thread that forks has it meanwhile. In the
 * child forget() drops what only the parent has.
 */
#define LOCK_OVER_FORKS(name, lock, forget)                                                     \
	static void name##_before_fork(void)                                                    \
	{                                                                                       \
		pthread_mutex_lock(&lock);                                                      \
	}                                                                                       \
	static void name##_after_fork(void)                                                     \
	{                                                                                       \
		pthread_mutex_unlock(&lock);                                                    \
	}                                                                                       \
	static void name##_in_child(void)                                                       \
	{                                                                                       \
		forget();                                                                       \
		pthread_mutex_unlock(&lock);                                                    \
	}                                                                                       \
	static void name##_forks(void)                                                          \
	{                                                                                       \
		pthread_atfork(name##_before_fork, name##_after_fork, name##_in_child);         \
	}                                                                                       \
	static void name##_lock(void)                                                           \
	{                                                                                       \
		static pthread_once_t once = PTHREAD_ONCE_INIT;                                 \
                                                                                                \
		pthread_once(&once, name##_forks);                                              \
		pthread_mutex_lock(&lock);                                                      \
	}

#endif
