/* SPDX-License-Identifier: BSD-2-Clause */
/* The places of threads: each thread gets one when it first needs it, and gives it back at its end. */
#include "lock_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define PLACES 1024u /* threads that may own locks at a time */

static struct lock_thread places[PLACES];
struct lock_thread lock_guest;
_Thread_local struct lock_thread *lock_self;
static pthread_key_t end_of_thread;
static bool threads_tell_their_end;

static void give_back(struct lock_thread *place)
{
	atomic_store_explicit(&place->is_taken, false, memory_order_release);
}

/* Destructors that run after this, and call the library, get another place. One in the last round does not give it back. */
static void forget_thread(void *place)
{
	lock_self = NULL;
	give_back(place);
}

/* In a child of fork(). The parent's other threads are not there, nor its locks: object.c forgets all objects. */
static void forget_other_threads(void)
{
	for (struct lock_thread *place = places; place < places + PLACES; place++)
		if (place != lock_self && atomic_load_explicit(&place->is_taken, memory_order_relaxed))
			*place = (struct lock_thread){0};
}

static void prepare(void)
{
	threads_tell_their_end = !pthread_key_create(&end_of_thread, forget_thread);
	pthread_atfork(NULL, NULL, forget_other_threads);
}

static struct lock_thread *find_place(void)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (!atomic_load_explicit(&places[i].is_taken, memory_order_relaxed) &&
		    !atomic_exchange_explicit(&places[i].is_taken, true, memory_order_acquire))
			return &places[i];
	return NULL;
}

/* A thread whose end nobody would learn of gets no place. */
struct lock_thread *lock_thread_introduce(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct lock_thread *place;

	pthread_once(&once, prepare);
	place = threads_tell_their_end ? find_place() : NULL;
	if (place && pthread_setspecific(end_of_thread, place)) {
		give_back(place);
		place = NULL;
	}
	lock_self = place ? place : &lock_guest;
	return lock_self;
}
