/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: one for each VIPL CQ, and one for each work queue that is on no VIPL CQ. A CQ
 * cannot overflow: what may complete into it is counted, and posting holds back (and lets the CQ
 * grow) when there is no room.
 */
#ifndef VIPL_CQ_H
#define VIPL_CQ_H

#include <stdalign.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/deadline.h"
#include "base/lock.h"
#include "base/thread.h"
#include "channel.h"
#include "cq_look.h"
#include "backlog.h"
#include "device.h"
#include "handlers.h"
#include "object.h"

/*
 * The entries of a new VIPL CQ: not all devices can let it grow. The RDMA device asks for one more. Adapters add one of
 * their own, and round up to a power of two.
 */
#define CQ_ENTRIES 4094u

/* The completions that VipCQDone has not reported, in their order: see entries.h. */
struct entries {
	_Atomic uint32_t first, last; /* the oldest one, and the next one. Threads read them without the lock */
	uint32_t *ring;		   /* the numbers of the queues */
	uint32_t mask;		   /* the ring's size - 1 */
	uint32_t room;		   /* the size of this table, a power of two, or 0: */
	struct workqueue **queues; /* by their numbers; NULL where there is none */
};

struct cq {
	/* The next CQ in this memory keeps the members before the next blank line: see object_at(). */
	struct object object; /* with a handle if it is a VIPL CQ */
	struct lock lock;     /* guards each queue's side of completion, and the members that name it */
	_Atomic(VIP_CQ_HANDLE) handle; /* that VipCQDone accepts; NULL: none */
	_Atomic(const void *) tenant; /* the thread, TENANT_NONE, or NULL if there is nothing to look at: see cq_tenant.c */
	const void *last;	      /* thread that came in slowly; the lock guards this, and the next */
	unsigned in_a_row;	      /* how often it has done so */
	_Atomic(struct cq_look *) look; /* for threads without the lock; NULL: the device offers none */
	struct cq_look *kept_look; /* the last look that the device offered for a CQ in this memory */
	struct entries entries;	   /* of a VIPL CQ: completions that VipCQDone has not reported; guarded by the lock */
	/* Threads that rest write it, so it has its own cache line: see cq_tenant.c. */
	alignas(OBJECT_ALIGNMENT) _Atomic unsigned resting; /* threads */

	alignas(OBJECT_ALIGNMENT) bool is_public; /* a VIPL CQ */
	bool is_counted; /* what may complete here: a VIPL CQ of a device that does not have room for all */
	atomic_bool has_sends; /* a send queue completes here */
	struct nic *nic;
	struct device_cq *device_cq;

	/* Each look reads from here to the first members of `backlogs`: they share a cache line. */
	const struct device_ops *ops;
	_Atomic unsigned waiters;
	struct cq_backlogs backlogs;
	_Atomic uint32_t announced;
	_Atomic unsigned spun_in_vain; /* waits in a row, see cq_wait() */
	_Atomic unsigned slept_at_once;
	_Atomic unsigned choosy; /* waiters for one queue of a VIPL CQ */
	atomic_bool is_called;	 /* a thread that sleeps has been called and has not looked yet: see channel_wait() */
	struct workqueue *own;	 /* the queue of a CQ that is no VIPL CQ */
	_Atomic unsigned released; /* counts what has completed here; the CQ's lock guards it */
	_Atomic unsigned capacity;

	LIST_ENTRY(cq) in_nic;
	struct channel *channel; /* NULL: the device has none */
	unsigned queues; /* that complete here; guarded by the NIC's lock */
	struct cq_notifies notifies;
	uint32_t served; /* `announced` at progress_serve()'s last look; guarded by the NIC's lock */

	/* Counts the requests that complete here, done or not. Posting threads write it, so it has its own cache line. */
	alignas(OBJECT_ALIGNMENT) _Atomic unsigned reserved;
};

/* [nic] `channel`: another CQ's, or NULL. NULL and errno on failure. */
struct cq *cq_create(struct nic *nic, struct channel *channel, unsigned entries, bool is_public);
/* [nic] Nobody uses it any more. */
void cq_destroy(struct cq *cq);
/* [nic] Makes the handle invalid; no VipCQDone is in the CQ then. False when it was before. */
bool cq_retract_handle(struct cq *cq);

/* Takes what the device has completed. Returns false if that is nothing. The CQ's lock is held. */
static inline bool cq_poll_locked(struct cq *cq)
{
	if (cq->ops->cq_poll(cq->device_cq) <= 0)
		return false;
	backlogs_have_room(&cq->backlogs);
	return true;
}

/*
 * Reports what the device has completed until now, before something is completed without the device. The CQ's lock
 * is held.
 */
void cq_catch_up(struct cq *cq);

/* cq_wake.c: wakes all threads that wait, and the notifier; or one thread, and those that wait for one queue of a VIPL CQ. */
void cq_wake(struct cq *cq, bool all);
/* There is something for a thread that waits. */
static inline void cq_kick(struct cq *cq)
{
	if (atomic_load(&cq->waiters))
		cq_wake(cq, false);
}

VIP_RETURN cq_unlock_and_submit_slowly(struct cq *cq, struct object *owner, bool completed, VIP_RETURN rc);
/*
 * Releases the CQ's lock after a look. Wakes another thread if there is something for it. Submits backlogs that there is
 * room for. Meanwhile the `owner`, the CQ or the VI, keeps the CQ alive. Returns `rc`.
 */
static inline VIP_RETURN cq_unlock_and_submit(struct cq *cq, struct object *owner, bool completed, VIP_RETURN rc)
{
	/* A thread that begins to wait after this looks once more, with the lock. */
	completed = completed && atomic_load_explicit(&cq->waiters, memory_order_relaxed);
	if (__builtin_expect(completed | cq->backlogs.pending, false))
		return cq_unlock_and_submit_slowly(cq, owner, completed, rc);
	lock_release(&cq->lock);
	return rc;
}

/* Takes what has completed, and does what follows from it. */
void cq_serve(struct cq *cq, struct object *owner);

#define TENANT_NONE ((const void *)1)

/* Takes the CQ's lock. Returns false if the thread has to look first, or to wait: cq_enter_slowly() goes on. */
static inline bool cq_enter_at_once(struct cq *cq)
{
	const void *tenant = atomic_load_explicit(&cq->tenant, memory_order_relaxed);

	return __builtin_expect(!tenant || tenant == thread_self(), true) && lock_try(&cq->lock);
}
/*
 * Returns false if the CQ is empty: then the lock is not held. The CQ may be gone, so the caller compares the handle after this. A
 * caller that wants any completion, and holds no lock, gives way within its `timeout`: it rests while another thread is the CQ's
 * tenant and goes on. Others have NULL.
 */
bool cq_enter_slowly(struct cq *cq, struct timeout *timeout);
static inline bool cq_enter(struct cq *cq)
{
	return cq_enter_at_once(cq) || cq_enter_slowly(cq, NULL);
}

/* VipCQDone: its arguments, and the CQ at the handle's place. */
VIP_RETURN cq_take(VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive, struct cq *cq);
/* The same for a caller that waits for the CQ, and has a reference. */
VIP_RETURN cq_take_in_time(struct cq *cq, struct timeout *timeout, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive);

/*
 * Makes room for at least this number of entries, or, where the device cannot resize a CQ, for all that its queues give the device.
 * No completion is lost. 0 or errno.
 */
int cq_make_room(struct cq *cq, VIP_ULONG entries);
/* A queue's own CQ has room for all that the queue gives the device: nothing is counted there. */
static inline void cq_unreserve(struct cq *cq)
{
	if (cq->is_counted)
		atomic_fetch_sub_explicit(&cq->reserved, 1, memory_order_relaxed);
}
/* Counts an entry that nothing will complete into: cq_unreserve() follows. */
static inline void cq_count_one(struct cq *cq)
{
	if (cq->is_counted)
		atomic_fetch_add_explicit(&cq->reserved, 1, memory_order_relaxed);
}
/* The CQ's lock is held: entries that were reserved are free again. Where none are counted this means nothing. */
static inline void cq_release_entries(struct cq *cq, unsigned count)
{
	unsigned released = atomic_load_explicit(&cq->released, memory_order_relaxed);

	atomic_store_explicit(&cq->released, released + count, memory_order_release);
}
/* So many completions may be there now, or fewer. Others may come without end. */
static inline unsigned cq_most(const struct cq *cq)
{
	/* `released` is read first: a thread that sees an entry released also sees it reserved. */
	unsigned released = atomic_load_explicit(&cq->released, memory_order_acquire);

	return cq->is_counted ? atomic_load_explicit(&cq->reserved, memory_order_relaxed) - released
			      : (cq->entries.room + 1) * RECEIVE_DEPTH;
}
/* Receives may stay for ever: they leave room for sends, which complete by themselves. */
static inline unsigned cq_share(struct cq *cq, unsigned capacity, bool is_receive)
{
	bool shared = is_receive && atomic_load_explicit(&cq->has_sends, memory_order_relaxed);

	return shared ? capacity - capacity / 4 : capacity;
}

/* Reserves one entry, if the CQ need not grow for it. */
static inline bool cq_reserve_at_once(struct cq *cq, bool is_receive)
{
	unsigned released, before, capacity;

	if (!cq->is_counted)
		return true;
	released = atomic_load_explicit(&cq->released, memory_order_acquire);
	before = atomic_fetch_add_explicit(&cq->reserved, 1, memory_order_relaxed) - released;
	capacity = atomic_load_explicit(&cq->capacity, memory_order_relaxed);
	if (before < cq_share(cq, capacity, is_receive))
		return true;
	cq_unreserve(cq);
	return false;
}
/* Reserves one entry; false when the CQ is full and cannot grow. */
bool cq_reserve(struct cq *cq, bool is_receive);

/* Looks once for a completion. VIP_NOT_DONE: there is none. */
typedef VIP_RETURN cq_taker(void *argument);

/*
 * The step before a sleep, when there was nothing to take: arms the CQ and takes again, because what completed before the CQ was
 * armed wakes nobody. VIP_NOT_DONE: the caller may sleep until cq->announced is no longer `seen`, or, if `word` is not NULL, there.
 * VIP_ERROR_RESOURCE: the CQ could not be armed. Else it returns what `take` has returned.
 */
VIP_RETURN cq_arm_and_take(struct cq *cq, cq_taker *take, void *argument, uint32_t *seen, struct sleep_word *word);
/*
 * The caller has used up an announcement, and others still sleep. Arms the CQ, so that the next completion is announced, and wakes
 * one of them for what has come.
 */
void cq_leave_to_others(struct cq *cq, struct object *owner);
/*
 * The one place where a thread of the program waits for completions. The wait ends with whatever `take` returns but
 * VIP_NOT_DONE, with VIP_TIMEOUT at the deadline, with VIP_INVALID_PARAMETER when `owner` is destroyed meanwhile, or with
 * VIP_ERROR_RESOURCE when the device has failed. The caller has a reference to it, which is put if the thread is cancelled.
 */
VIP_RETURN cq_wait(struct cq *cq, struct object *owner, struct timeout *timeout, cq_taker *take,
		   void *argument);

#endif
