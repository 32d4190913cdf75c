/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, public or a work queue's own; the one loop in which threads wait; VipCQDone. */
#include "cq.h"

#include <errno.h>
#include <string.h>

#include "base/cancel.h"
#include "base/config.h"
#include "base/cpu_relax.h"
#include "base/deadline.h"
#include "base/futex.h"
#include "base/log.h"
#include "entries.h"
#include "nic.h"
#include "object_at.h"
#include "workqueue.h"

/* Sets the handle that VipCQDone accepts for the CQ from now on. */
static void set_handle(struct cq *cq, VIP_CQ_HANDLE handle)
{
	lock_acquire(&cq->lock);
	atomic_store_explicit(&cq->handle, handle, memory_order_relaxed);
	lock_release(&cq->lock);
}

bool cq_retract_handle(struct cq *cq)
{
	if (object_retired(&cq->object))
		return false;
	set_handle(cq, NULL);
	return object_retire(&cq->object);
}

static struct cq *allocate_cq(void)
{
	bool is_new;
	struct cq *cq = object_allocate(OBJECT_CQ, sizeof(*cq), &is_new);

	if (!cq)
		return NULL;
	if (is_new)
		lock_init(&cq->lock);
	memset(&cq->is_public, 0, sizeof(*cq) - offsetof(struct cq, is_public));
	return cq;
}

/* 0 or errno. Where there are no channels nothing else here tells that the NIC is lost. */
static int use_channel(struct cq *cq, struct channel *channel)
{
	int error;

	if (!cq->ops->channel_create)
		return nic_is_lost(cq->nic) ? EBADF : 0;
	cq->channel = channel ? channel : channel_for_cq(cq->nic);
	if (cq->channel) {
		cq->channel->cqs++;
		return 0;
	}
	error = errno;
	log_error_ratelimited("no completion channel: %s", failure(error));
	return error;
}

struct cq *cq_create(struct nic *nic, struct channel *channel, unsigned entries,
		     bool is_public)
{
	struct cq *cq = allocate_cq();
	unsigned capacity;
	int error = ENOMEM;

	if (!cq)
		return NULL;
	cq->nic = nic;
	cq->ops = nic->device->ops;
	cq->is_public = is_public;
	backlogs_init(&cq->backlogs);
	STAILQ_INIT(&cq->notifies.outstanding);
	error = use_channel(cq, channel);
	if (error)
		goto free_cq;
	cq->device_cq = cq->ops->cq_create(nic->device, cq, cq->channel ? cq->channel->device_channel : NULL, is_public,
					   entries, &capacity);
	if (!cq->device_cq) {
		error = errno;
		goto release_channel;
	}
	atomic_store(&cq->capacity, capacity);
	cq->is_counted = is_public && capacity < CQ_UNLIMITED;
	if (is_public && object_publish(&cq->object, OBJECT_CQ))
		goto destroy_device_cq;
	if (is_public)
		set_handle(cq, object_handle(&cq->object));
	LIST_INSERT_HEAD(&nic->cqs, cq, in_nic);
	cq->served = atomic_load(&cq->announced) - 1;
	if (nic->progress.channels_fd >= 0)
		agent_wake(nic); /* to arm it */
	return cq;

destroy_device_cq:
	cq->ops->cq_destroy(cq->device_cq);
release_channel:
	channel_release(nic, cq->channel);
free_cq:
	object_free(&cq->object);
	errno = error;
	return NULL;
}

void cq_destroy(struct cq *cq)
{
	LIST_REMOVE(cq, in_nic);
	atomic_store_explicit(&cq->look, NULL, memory_order_relaxed);
	atomic_store_explicit(&cq->tenant, NULL, memory_order_relaxed);
	cq->ops->cq_destroy(cq->device_cq);
	channel_release(cq->nic, cq->channel);
	entries_free(&cq->entries);
	object_free(&cq->object);
}

struct cq_look *cq_former_look(struct cq *cq)
{
	return cq->kept_look;
}

void cq_show(struct cq *cq, struct cq_look *look)
{
	cq->kept_look = look;
	atomic_store_explicit(&cq->look, look, memory_order_release);
	atomic_store_explicit(&cq->tenant, TENANT_NONE, memory_order_relaxed);
}

/* The lock is held. A thread that sleeps would find something. */
static bool has_something(struct cq *cq)
{
	return cq->is_public ? !entries_are_none(&cq->entries) : queue_has_done(cq->own);
}

VIP_RETURN cq_unlock_and_submit_slowly(struct cq *cq, struct object *owner, bool completed, VIP_RETURN rc)
{
	/* The owner is there, because the lock is held or the caller has a reference. */
	bool held = object_hold(owner), submit;

	/* A poll takes several completions. If the caller got none of them, it or another thread has to look again. */
	completed = completed && (rc != VIP_SUCCESS || has_something(cq) || atomic_load(&cq->choosy));
	submit = cq->backlogs.pending;
	cq->backlogs.pending = false;
	lock_release(&cq->lock);
	if (submit)
		backlogs_submit(cq);
	if (completed)
		cq_kick(cq);
	if (held)
		object_put(owner);
	return rc;
}

/* The CQ's lock is held. 0 or errno. */
static int grow_device_cq(struct cq *cq, unsigned entries)
{
	unsigned capacity;
	int cancel = cancel_hold();
	int error = cq->ops->cq_grow(cq->nic->device, cq->device_cq, entries,
						  &capacity);

	cancel_resume(cancel);
	if (!error)
		atomic_store(&cq->capacity, capacity);
	return error;
}

/* Takes the NIC's lock. The CQ has queues, and room for all that they give the device. */
static bool suffices(struct cq *cq)
{
	unsigned needed = 0;

	pthread_mutex_lock(&cq->nic->lock);
	for (uint32_t i = 0; i < cq->entries.room; i++)
		if (cq->entries.queues[i])
			needed += cq->entries.queues[i]->depth;
	pthread_mutex_unlock(&cq->nic->lock);
	return needed && needed <= atomic_load(&cq->capacity);
}

int cq_make_room(struct cq *cq, VIP_ULONG entries)
{
	int error = 0;

	lock_acquire(&cq->lock);
	if (entries > cq->nic->attributes.MaxCQEntries) {
		error = cause("the size of a completion queue (MaxCQEntries)", ENOSPC);
	} else if (entries > atomic_load(&cq->capacity)) {
		error = grow_device_cq(cq, (unsigned)entries);
		backlogs_have_room(&cq->backlogs);
	}
	cq_unlock_and_submit(cq, &cq->object, false, VIP_SUCCESS);
	if (error == EOPNOTSUPP && suffices(cq))
		return 0;
	if (error)
		log_error_ratelimited("a completion queue has room for %u entries, and cannot have %lu: %s",
				      atomic_load(&cq->capacity), (unsigned long)entries, failure(error));
	return error;
}

bool cq_reserve(struct cq *cq, bool is_receive)
{
	while (!cq_reserve_at_once(cq, is_receive)) {
		unsigned capacity;
		int error = 0;

		lock_acquire(&cq->lock);
		capacity = atomic_load(&cq->capacity);
		if (cq_most(cq) >= cq_share(cq, capacity, is_receive)) /* still: no other thread has let it grow, or made room */
			error = grow_device_cq(cq, 2 * capacity);
		lock_release(&cq->lock);
		if (error)
			return false;
	}
	return true;
}

void cq_lock(struct cq *cq)
{
	lock_acquire(&cq->lock);
}

void cq_unlock(struct cq *cq)
{
	lock_release(&cq->lock);
}

bool cq_poll_for_device(struct cq *cq)
{
	bool polled;

	lock_acquire(&cq->lock);
	polled = cq_poll_locked(cq);
	backlogs_leave_to_agent(cq);
	lock_release(&cq->lock);
	if (polled)
		cq_kick(cq);
	return polled;
}

void cq_catch_up(struct cq *cq)
{
	unsigned most = cq->is_public ? cq_most(cq) : 0;

	while (most-- && cq_poll_locked(cq))
		;
	backlogs_leave_to_agent(cq);
}

void cq_serve(struct cq *cq, struct object *owner)
{
	lock_acquire(&cq->lock);
	cq_unlock_and_submit(cq, owner, cq_poll_locked(cq), VIP_NOT_DONE);
}

/*
 * Polling before sleeping is in vain if the completion takes longer, and it keeps the processor from other threads. After
 * IN_VAIN_MOST such waits in a row only one wait in TRY_AGAIN polls first.
 */
#define IN_VAIN_MOST 8u
#define TRY_AGAIN    64u

static bool is_spinning_worth_it(struct cq *cq)
{
	return atomic_load_explicit(&cq->spun_in_vain, memory_order_relaxed) < IN_VAIN_MOST ||
	       atomic_fetch_add_explicit(&cq->slept_at_once, 1, memory_order_relaxed) % TRY_AGAIN ==
		       TRY_AGAIN - 1;
}

/* Polls for a while. VIP_NOT_DONE: the caller has to sleep. */
static VIP_RETURN spin(struct cq *cq, int64_t deadline, cq_taker *take, void *argument)
{
	VIP_RETURN rc = VIP_NOT_DONE;
	int64_t until;

	if (!config()->spin_usec || !is_spinning_worth_it(cq))
		return rc;
	until = clock_nsec() + config()->spin_usec * INT64_C(1000);
	do {
		cpu_relax();
		rc = take(argument);
	} while (rc == VIP_NOT_DONE && clock_nsec() < until && deadline_left(deadline));
	if (rc != VIP_NOT_DONE)
		atomic_store_explicit(&cq->spun_in_vain, 0, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&cq->spun_in_vain, 1, memory_order_relaxed);
	return rc;
}

VIP_RETURN cq_arm_and_take(struct cq *cq, cq_taker *take, void *argument, uint32_t *seen, struct sleep_word *word)
{
	*seen = atomic_load(&cq->announced);
	if (word)
		*word = cq->ops->cq_arm_sleeper(cq->device_cq);
	else if (cq->ops->cq_arm(cq->device_cq))
		return VIP_ERROR_RESOURCE;
	return take(argument);
}

void cq_leave_to_others(struct cq *cq, struct object *owner)
{
	if (cq->ops->cq_arm_sleeper) {
		cq->ops->cq_arm_sleeper(cq->device_cq);
	} else if (cq->ops->cq_arm(cq->device_cq)) {
		cq_wake(cq, true);
		return;
	}
	if (!cq_enter(cq))
		return;
	cq_unlock_and_submit(cq, owner, true, cq_poll_locked(cq) ? VIP_NOT_DONE : VIP_SUCCESS);
}

#define LOOK_NSEC NSEC_PER_SEC /* no thread sleeps longer without looking, also whether it is cancelled */

static void sleep_at(struct cq *cq, struct sleep_word at, uint32_t seen, int64_t deadline)
{
	int64_t left = deadline_left(deadline);

	if (left && atomic_load(&cq->announced) == seen)
		futex_sleep(at.word, at.value, left < LOOK_NSEC ? left : LOOK_NSEC, FUTEX_SHARED);
}

/* A thread that waits, as others see it. */
struct waiting {
	struct cq *cq;
	struct object *owner;
	bool is_choosy;
};

static void begin_wait(const struct waiting *waiting)
{
	atomic_fetch_add(&waiting->cq->waiters, 1);
	atomic_fetch_add(&waiting->cq->choosy, waiting->is_choosy);
}

static void end_wait(const struct waiting *waiting)
{
	atomic_fetch_sub(&waiting->cq->choosy, waiting->is_choosy);
	if (atomic_fetch_sub(&waiting->cq->waiters, 1) > 1)
		cq_leave_to_others(waiting->cq, waiting->owner);
}

static void leave_wait(void *argument)
{
	const struct waiting *waiting = argument;

	end_wait(waiting);
	object_put(waiting->owner);
}

/* Nothing will come. VIP_NOT_DONE: it may. */
static VIP_RETURN reason_to_leave(const struct waiting *waiting)
{
	if (object_retired(waiting->owner))
		return VIP_INVALID_PARAMETER;
	return atomic_load(&waiting->cq->nic->is_over) ? VIP_ERROR_RESOURCE : VIP_NOT_DONE;
}

/* cq_wait() when there was nothing for a while. */
static VIP_RETURN sleep_until_done(struct waiting *waiting, int64_t deadline, cq_taker *take, void *argument)
{
	struct cq *cq = waiting->cq;
	bool on_channel = cq->channel;
	struct sleep_word at;
	VIP_RETURN rc;
	uint32_t seen;

	do {
		rc = cq_arm_and_take(cq, take, argument, &seen, on_channel ? NULL : &at);
		if (rc == VIP_NOT_DONE)
			rc = reason_to_leave(waiting);
		if (rc != VIP_NOT_DONE)
			break;
		if (on_channel)
			channel_wait(cq->channel, cq, waiting->is_choosy, seen, deadline_within(deadline, LOOK_NSEC));
		else
			sleep_at(cq, at, seen, deadline);
		rc = take(argument); /* a channel is not armed any more: no later completion wakes a thread in vain */
		if (rc == VIP_NOT_DONE && !deadline_left(deadline))
			rc = VIP_TIMEOUT;
		if (rc == VIP_NOT_DONE)
			cancel_here(leave_wait, waiting);
	} while (rc == VIP_NOT_DONE);
	return rc;
}

VIP_RETURN cq_wait(struct cq *cq, struct object *owner, struct timeout *timeout, cq_taker *take,
		   void *argument)
{
	struct waiting waiting = {cq, owner, cq->is_public && owner != &cq->object};
	VIP_RETURN rc = take(argument);
	int64_t deadline;

	if (rc != VIP_NOT_DONE)
		return rc;
	if (!timeout->msec)
		return VIP_TIMEOUT;
	deadline = timeout_deadline(timeout);
	rc = spin(cq, deadline, take, argument);
	if (rc != VIP_NOT_DONE)
		return rc;

	begin_wait(&waiting);
	rc = sleep_until_done(&waiting, deadline, take, argument);
	end_wait(&waiting);
	return rc;
}

/* ---- VipCQDone ---- */

/* Takes the oldest entry, of which there is one. The CQ's lock is held, and released here. */
static inline VIP_RETURN take_entry(struct cq *cq, bool polled, VIP_VI_HANDLE *vi,
				    VIP_BOOLEAN *is_receive)
{
	struct workqueue *queue = entries_take(&cq->entries);

	*vi = object_handle(&queue->vi->object);
	*is_receive = queue->is_receive ? VIP_TRUE : VIP_FALSE;
	return cq_unlock_and_submit(cq, &cq->object, polled, VIP_SUCCESS);
}

/* Polls, and takes the oldest entry if there is one then. The CQ's lock is held, and released here. */
static __attribute__((noinline)) VIP_RETURN poll_and_take_entry(struct cq *cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive)
{
	bool polled = cq_poll_locked(cq);

	return entries_are_none(&cq->entries)
		       ? cq_unlock_and_submit(cq, &cq->object, polled, VIP_NOT_DONE)
		       : take_entry(cq, polled, vi, is_receive);
}

static inline VIP_RETURN take_entry_locked(VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive,
					   struct cq *cq)
{
	if (atomic_load_explicit(&cq->handle, memory_order_relaxed) != handle)
		return object_unlock_bad_handle(&cq->lock);
	return entries_are_none(&cq->entries) ? poll_and_take_entry(cq, vi, is_receive)
					      : take_entry(cq, false, vi, is_receive);
}

static __attribute__((noinline)) VIP_RETURN take_entry_slowly(VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive,
							      struct cq *cq)
{
	struct timeout any = {.deadline = DEADLINE_NEVER}; /* give_way() has its own limit */

	if (cq_enter_slowly(cq, &any))
		return take_entry_locked(handle, vi, is_receive, cq);
	return atomic_load_explicit(&cq->handle, memory_order_relaxed) == handle ? VIP_NOT_DONE
										 : VIP_INVALID_PARAMETER;
}

VIP_RETURN cq_take(VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive, struct cq *cq)
{
	if (!cq_enter_at_once(cq))
		return take_entry_slowly(handle, vi, is_receive, cq);
	return take_entry_locked(handle, vi, is_receive, cq);
}

VIP_RETURN cq_take_in_time(struct cq *cq, struct timeout *timeout, VIP_VI_HANDLE *vi, VIP_BOOLEAN *is_receive)
{
	if (!cq_enter_at_once(cq) && !cq_enter_slowly(cq, timeout))
		return VIP_NOT_DONE;
	return take_entry_locked(object_handle(&cq->object), vi, is_receive, cq);
}
