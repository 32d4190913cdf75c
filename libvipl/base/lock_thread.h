/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads, as biased locks know them: each has a place where it says which locks it is inside. */
#ifndef VIPL_LOCK_THREAD_H
#define VIPL_LOCK_THREAD_H

#include <stdalign.h>
#include <stdatomic.h>

struct lock;

/* A thread is inside one lock of each level at most as its owner. While it is, it comes into others of the level by the latch. */
enum lock_level { LOCK_OF_QUEUE, LOCK_OF_CQ, LOCK_LEVELS };

/*
 * Only its thread writes `inside`, and reads it without atomic operations, which the compiler would not combine with others.
 *
 * The memory is static. The next thread that gets the place inherits what the former one owned. It sees what that one did,
 * because `is_taken` is released and acquired.
 */
struct lock_thread {
	alignas(128) const struct lock *inside[LOCK_LEVELS]; /* as the owner, or NULL. Processors fetch cache lines in pairs */
	atomic_bool is_taken;
};

/* Shared by all threads that never own a lock: agents, and those for which there is no place. */
extern struct lock_thread lock_guest;
/* The calling thread; NULL until it first needs a place, and at its end. */
extern _Thread_local struct lock_thread *lock_self __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a place. */
struct lock_thread *lock_thread_introduce(void);

static inline struct lock_thread *lock_this_thread(void)
{
	return lock_self ? lock_self : lock_thread_introduce();
}

#endif
