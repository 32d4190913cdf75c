/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, public or a work queue's own, and the one loop in which threads wait. */
#include "cq.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/cpu_relax.h"
#include "base/deadline.h"
#include "base/futex.h"
#include "base/log.h"
#include "entries.h"
#include "nic.h"
#include "workqueue.h"

/* The first CQs get a channel each. Later ones share, since channels are file descriptors. */
static struct channel *find_channel(struct nic *nic)
{
	struct channel **best = &nic->channels[0];

	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++) {
		struct channel **slot = &nic->channels[i];

		if (!*slot || (*best && (*slot)->cqs < (*best)->cqs))
			best = slot;
		if (!*best)
			break;
	}
	if (!*best)
		*best = channel_create(nic->device, nic->agent.sleeper.always_fd,
				       nic->progress.channels_fd);
	return *best;
}

static void channel_release(struct nic *nic, struct channel *channel)
{
	if (--channel->cqs)
		return;
	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++)
		if (nic->channels[i] == channel)
			nic->channels[i] = NULL;
	channel_destroy(channel);
}

/* Sets the handle that VipCQDone accepts for the CQ from now on. */
static void name(struct cq *cq, VIP_CQ_HANDLE handle)
{
	lock_acquire(&cq->lock);
	atomic_store_explicit(&cq->handle, handle, memory_order_relaxed);
	lock_release(&cq->lock);
}

bool cq_retract_handle(struct cq *cq)
{
	if (object_retired(&cq->object))
		return false;
	name(cq, NULL);
	return object_retire(&cq->object);
}

static struct cq *allocate(void)
{
	bool is_new;
	struct cq *cq = object_allocate(OBJECT_CQ, sizeof(*cq), &is_new);

	if (!cq)
		return NULL;
	if (is_new)
		lock_init(&cq->lock);
	memset(&cq->is_public, 0, sizeof(*cq) - offsetof(struct cq, is_public));
	entries_init(&cq->entries);
	return cq;
}

struct cq *cq_create(struct nic *nic, struct channel *channel, unsigned entries,
		     bool is_public)
{
	struct cq *cq = allocate();
	unsigned capacity;
	int error = ENOMEM;

	if (!cq)
		return NULL;
	cq->nic = nic;
	cq->ops = nic->device->ops;
	cq->is_public = is_public;
	deferred_init(&cq->deferred);
	STAILQ_INIT(&cq->notifies.outstanding);
	cq->channel = channel ? channel : find_channel(nic);
	if (!cq->channel) {
		error = errno;
		log_error("no completion channel: %s%s", strerror(error),
			  error == EMFILE ? " (see ulimit -n)"
					  : filter_hint(error, "socket(), bind(), getrandom(), epoll_create1() or epoll_ctl()"));
		goto free_cq;
	}
	cq->channel->cqs++;
	cq->device_cq = cq->ops->cq_create(
		nic->device, cq, cq->channel->device_channel, is_public, entries, &capacity);
	if (!cq->device_cq) {
		error = errno;
		goto release_channel;
	}
	atomic_store(&cq->capacity, capacity);
	if (is_public && object_publish(&cq->object, OBJECT_CQ))
		goto destroy_device_cq;
	if (is_public)
		name(cq, object_handle(&cq->object));
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
}

/* In this order: what the device has had and completed meanwhile is among the entries, if no other thread has it. */
static bool seems_empty(struct cq *cq, const struct cq_look *look)
{
	return look->is_empty(look) && entries_seem_none(&cq->entries);
}

bool cq_enter_slowly(struct cq *cq, enum lock_way way, bool gives_way)
{
	struct cq_look *look = way == LOCK_CONTENDED
				       ? atomic_load_explicit(&cq->look, memory_order_acquire)
				       : NULL;
	unsigned rests = 0;

	if (look && seems_empty(cq, look))
		return !atomic_load_explicit(&look->is_polled, memory_order_relaxed) &&
		       lock_try(&cq->lock);
	while (gives_way && look && lock_has_tenant(&cq->lock)) {
		bool is_busy = lock_is_busy(&cq->lock);

		if (seems_empty(cq, look)) /* so the tenant has nothing to do */
			return false;
		if (!is_busy) {
			lock_vacate(&cq->lock);
			break;
		}
		lock_rest(&cq->lock, &rests);
	}
	lock_acquire_slowly(&cq->lock, way);
	return true;
}

/* The lock is held. A thread that sleeps would find something. */
static bool has_something(struct cq *cq)
{
	return cq->is_public ? !entries_are_none(&cq->entries) : queue_has_done(cq->own);
}

VIP_RETURN cq_unlock_and_run_slowly(struct cq *cq, struct object *owner, bool completed, bool run_deferred,
			   VIP_RETURN rc)
{
	/* With the lock it is certain that it is there, or the caller has a reference. */
	bool held = object_hold(owner);

	/* A poll takes some completions at a time. Who has found some and got nothing, or another thread, has to look again. */
	completed = completed && (rc != VIP_SUCCESS || has_something(cq) || atomic_load(&cq->choosy));
	lock_release(&cq->lock);
	if (run_deferred)
		deferred_run(cq, owner);
	if (completed)
		cq_kick(cq);
	if (held)
		object_put(owner);
	return rc;
}

/* The CQ's lock is held. 0 or errno. */
static int grow(struct cq *cq, unsigned entries)
{
	unsigned capacity;
	int error = cq->ops->cq_grow(cq->nic->device, cq->device_cq, entries,
						  &capacity);

	if (!error)
		atomic_store(&cq->capacity, capacity);
	return error;
}

int cq_make_room(struct cq *cq, unsigned entries)
{
	int error = 0;

	lock_acquire(&cq->lock);
	if (entries > atomic_load(&cq->capacity)) {
		error = grow(cq, entries);
		backlogs_admit(cq);
	}
	cq_unlock_and_run(cq, &cq->object, false, false, VIP_SUCCESS);
	return error;
}

bool cq_reserve(struct cq *cq, bool is_receive)
{
	while (!cq_reserve_at_once(cq, is_receive)) {
		int error = 0;

		lock_acquire(&cq->lock);
		if (cq_is_full(cq, is_receive)) /* still: no other thread has let it grow */
			error = grow(cq, 2 * atomic_load(&cq->capacity));
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
	deferred_leave_to_agent(cq);
	lock_release(&cq->lock);
	if (polled)
		cq_kick(cq);
	return polled;
}

void cq_catch_up(struct cq *cq)
{
	unsigned most = cq->is_public ? cq_outstanding(cq) : 0; /* queues of others may go on and on */

	while (most-- && cq_poll_locked(cq))
		;
	deferred_leave_to_agent(cq);
}

void cq_look(struct cq *cq, struct object *owner)
{
	lock_acquire(&cq->lock);
	cq_unlock_and_run(cq, owner, cq_poll_locked(cq), false, VIP_NOT_DONE);
}

/*
 * Polling before sleeping is in vain if the completion takes longer, and it takes the processor from others. After
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

/* The waiting call without sleeping: VIP_NOT_DONE when it has to. */
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

VIP_RETURN cq_arm_and_take(struct cq *cq, cq_taker *take, void *argument, uint32_t *seen)
{
	*seen = atomic_load(&cq->announced);
	return cq->ops->cq_arm(cq->device_cq) ? VIP_ERROR_RESOURCE : take(argument);
}

/*
 * The caller has slept, others still do, and one announcement was enough for the caller: what comes next is announced again,
 * and what has come is for one of them.
 */
static void leave_to_others(struct cq *cq, struct object *owner)
{
	if (cq->ops->cq_arm_sleeper) {
		cq->ops->cq_arm_sleeper(cq->device_cq); /* those on the channel have all been called, and arm it themselves */
	} else if (cq->ops->cq_arm(cq->device_cq)) {
		channel_kick_all(cq->channel, cq);
		return;
	}
	if (!cq_enter(cq))
		return;
	cq_unlock_and_run(cq, owner, true, false, cq_poll_locked(cq) ? VIP_NOT_DONE : VIP_SUCCESS);
}

/* False at the deadline. The caller looks again in any case. */
static bool sleep_at(struct cq *cq, struct sleep_word at, uint32_t seen, int64_t deadline)
{
	int64_t left = deadline_left(deadline);

	if (left && atomic_load(&cq->announced) == seen)
		futex_sleep(at.word, at.value, left < NSEC_PER_SEC ? left : NSEC_PER_SEC);
	return deadline_left(deadline);
}

/* cq_wait() when there was nothing for a while. */
static VIP_RETURN sleep_until_done(struct cq *cq, struct object *owner, bool is_choosy, int64_t deadline,
				   cq_taker *take, void *argument)
{
	bool on_channel = is_choosy || !cq->ops->cq_arm_sleeper, in_time;
	struct sleep_word at;
	VIP_RETURN rc;
	uint32_t seen;

	do {
		if (on_channel) {
			rc = cq_arm_and_take(cq, take, argument, &seen);
		} else {
			seen = atomic_load(&cq->announced);
			at = cq->ops->cq_arm_sleeper(cq->device_cq);
			rc = take(argument);
		}
		if (rc == VIP_NOT_DONE && object_retired(owner))
			rc = VIP_INVALID_PARAMETER;
		if (rc != VIP_NOT_DONE)
			break;
		in_time = on_channel ? channel_wait(cq->channel, cq, is_choosy, seen, deadline)
				     : sleep_at(cq, at, seen, deadline);
		rc = take(argument); /* the CQ is not armed: no later completion wakes a thread in vain */
		if (rc == VIP_NOT_DONE && !in_time)
			rc = VIP_TIMEOUT;
	} while (rc == VIP_NOT_DONE);
	return rc;
}

VIP_RETURN cq_wait(struct cq *cq, struct object *owner, VIP_ULONG timeout, cq_taker *take,
		   void *argument)
{
	bool is_choosy = cq->is_public && owner != &cq->object;
	VIP_RETURN rc = take(argument);
	int64_t deadline;

	if (rc != VIP_NOT_DONE)
		return rc;
	if (!timeout)
		return VIP_TIMEOUT;
	deadline = deadline_after(timeout);
	rc = spin(cq, deadline, take, argument);
	if (rc != VIP_NOT_DONE)
		return rc;

	atomic_fetch_add(&cq->waiters, 1);
	atomic_fetch_add(&cq->choosy, is_choosy);
	rc = sleep_until_done(cq, owner, is_choosy, deadline, take, argument);
	atomic_fetch_sub(&cq->choosy, is_choosy);
	if (atomic_fetch_sub(&cq->waiters, 1) > 1)
		leave_to_others(cq, owner);
	return rc;
}
