/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers that wait for completions.
 *
 * A CQ at which handlers wait is *watched*: it counts as one with a sleeper, so completions are announced, and the notifier sleeps
 * on its channel, or at its word. Where it cannot sleep at so many words the agent calls it. Like any sleeper it takes, arms the
 * CQ, and takes again, and nothing at any other time.
 *
 * The notifier's thread has a reference to the VI or CQ while it takes, but none while a handler runs, because that may destroy it.
 * Another thread that destroys it waits here for the end of the handler.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "base/thread.h"
#include "core/nic.h"
#include "notifier.h"
#include "trace/trace.h"

#define CHANNELS     (SLEEPER_WOKEN + 1) /* a source of the notifier's sleeper */
#define REFUSED_NSEC (50 * NSEC_PER_MSEC) /* it sleeps so long where a filter refuses to let it sleep at words */

/* The arguments of a handler. */
struct notice {
	struct cq *cq; /* that it was taken from */
	VIP_VI_HANDLE vi;
	VIP_DESCRIPTOR *descriptor;
	VIP_BOOLEAN is_receive;
};

void notifies_init(struct notifies *notifies)
{
	TAILQ_INIT(&notifies->watched);
	notifies->channels_fd = -1;
	pthread_cond_init(&notifies->returned, NULL);
}

void notifies_free(struct notifies *notifies)
{
	fd_close(notifies->channels_fd);
	pthread_cond_destroy(&notifies->returned);
}

/* 0 or errno. */
static int open_channels(struct notifier *notifier)
{
	struct notifies *notifies = &notifier->notifies;
	int error;

	if (notifies->channels_fd >= 0)
		return 0;
	notifies->channels_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	if (notifies->channels_fd < 0)
		return errno;
	error = sleeper_watch(&notifier->sleeper, CHANNELS, notifies->channels_fd);
	if (error) {
		fd_close(notifies->channels_fd);
		notifies->channels_fd = -1;
	}
	return error;
}

/* 0 or errno. */
static int watch_channel(struct notifier *notifier, struct channel *channel)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
	int error = open_channels(notifier), channels_fd = notifier->notifies.channels_fd;

	if (error)
		return error;
	if (!fd_is_own(channels_fd))
		return EBADF;
	if (!channel->watched && epoll_ctl(channels_fd, EPOLL_CTL_ADD, channel->device_fd, &event))
		return errno;
	channel->watched++;
	return 0;
}

static void unwatch_channel(const struct notifies *notifies, struct channel *channel)
{
	if (!--channel->watched && fd_is_own(notifies->channels_fd))
		epoll_ctl(notifies->channels_fd, EPOLL_CTL_DEL, channel->device_fd, NULL);
}

/* The lock is held. 0 or errno. */
static int watch_cq(struct notifier *notifier, struct cq *cq, struct workqueue *queue)
{
	struct notifies *notifies = &notifier->notifies;
	int error = 0;

	if (atomic_load(&cq->notifies.watched))
		return 0;
	if (cq->channel)
		error = watch_channel(notifier, cq->channel);
	if (error)
		return error;
	cq->notifies.has_word = notifier->sleeps_at_words && notifies->words < FUTEX_MOST - 1;
	cq->notifies.word = (struct sleep_word){0};
	cq->notifies.place = 0;
	notifies->words += cq->notifies.has_word;
	cq->notifies.queue = queue;
	atomic_fetch_add(&cq->waiters, 1);
	atomic_store(&cq->notifies.watched, true);
	TAILQ_INSERT_TAIL(&notifies->watched, cq, notifies.in_watched);
	return 0;
}

static void unwatch_cq(struct notifies *notifies, struct cq *cq)
{
	TAILQ_REMOVE(&notifies->watched, cq, notifies.in_watched);
	atomic_store(&cq->notifies.watched, false);
	notifies->words -= cq->notifies.has_word;
	atomic_fetch_sub(&cq->waiters, 1);
	if (cq->channel)
		unwatch_channel(notifies, cq->channel);
}

/* The lock is held. */
static void cancel_at(struct notifies *notifies, struct cq *cq)
{
	struct notify *notify;

	if (!atomic_load(&cq->notifies.watched))
		return;
	while ((notify = STAILQ_FIRST(&cq->notifies.outstanding))) {
		STAILQ_REMOVE_HEAD(&cq->notifies.outstanding, next);
		free(notify);
	}
	unwatch_cq(notifies, cq);
}

void notify_cancel_all(struct notifier *notifier)
{
	struct cq *cq;

	while ((cq = TAILQ_FIRST(&notifier->notifies.watched)))
		cancel_at(&notifier->notifies, cq);
	/* Threads that wait for a handler that closes the NIC go on: it waits for them. */
	pthread_cond_broadcast(&notifier->notifies.returned);
}

/* The lock is held. */
static void await_return(struct notifier *notifier, const VIP_PVOID *running, VIP_PVOID handle)
{
	while (*running == handle && !notifier_is_caller(notifier) && !notifier->self_stopped)
		pthread_cond_wait(&notifier->notifies.returned, &notifier->lock);
}

void notify_cancel_vi(struct vi *vi)
{
	struct notifier *notifier = vi->nic->notifier;

	pthread_mutex_lock(&notifier->lock);
	if (!vi->send.cq->is_public)
		cancel_at(&notifier->notifies, vi->send.cq);
	if (!vi->receive.cq->is_public)
		cancel_at(&notifier->notifies, vi->receive.cq);
	await_return(notifier, &notifier->notifies.running_vi, object_handle(&vi->object));
	pthread_mutex_unlock(&notifier->lock);
}

void notify_cancel_cq(struct cq *cq)
{
	struct notifier *notifier = cq->nic->notifier;

	pthread_mutex_lock(&notifier->lock);
	cancel_at(&notifier->notifies, cq);
	await_return(notifier, &notifier->notifies.running_cq, object_handle(&cq->object));
	pthread_mutex_unlock(&notifier->lock);
}

/* At channels. The lock is held on entry and on return. */
static void sleep_by_epoll(struct notifier *notifier)
{
	struct notifies *notifies = &notifier->notifies;
	const int msec = notifies->retry ? ARM_RETRY_MSEC : -1;
	unsigned ready;
	struct cq *cq;

	pthread_mutex_unlock(&notifier->lock);
	ready = sleeper_sleep(&notifier->sleeper, msec);
	pthread_mutex_lock(&notifier->lock);
	/* No channel that is watched is destroyed while we have the lock. */
	if (ready & 1u << CHANNELS)
		channels_look(notifies->channels_fd);
	if (notifies->retry)
		TAILQ_FOREACH(cq, &notifies->watched, notifies.in_watched)
			cq->notifies.look = true;
	notifies->retry = false;
}

/* The words of the CQs, behind the notifier's own. Returns their number. The lock is held. */
static unsigned collect_words(struct notifier *notifier, uint32_t wakes, struct futex_word *words)
{
	unsigned count = 0;
	struct cq *cq;

	words[count++] = futex_word(&notifier->wakes, wakes, FUTEX_OF_PROCESS);
	TAILQ_FOREACH(cq, &notifier->notifies.watched, notifies.in_watched) {
		const struct sleep_word *at = &cq->notifies.word;

		cq->notifies.place = cq->notifies.has_word && at->word ? count : 0;
		if (cq->notifies.place)
			words[count++] = futex_word(at->word, at->value, FUTEX_SHARED);
	}
	return count;
}

/*
 * The thread was woken at the word of this place, or nobody has woken it: -1. The lock is held. Whoever wakes one thread may have
 * found this one, which calls a handler for an error or another CQ. The kernel names only one of the words, at which we look first,
 * so the threads that sleep at the others look.
 */
static void note_wake(struct notifier *notifier, int place)
{
	const bool has_errors = !STAILQ_EMPTY(&notifier->errors.pending); /* they come first */
	struct cq *cq, *woken = NULL;

	TAILQ_FOREACH(cq, &notifier->notifies.watched, notifies.in_watched) {
		if (!cq->notifies.place) /* also where a CQ is watched since */
			continue;
		if (cq->notifies.place == (unsigned)place)
			woken = cq;
		cq->notifies.look |= place < 0 || cq == woken;
		if (place >= 0 && (cq != woken || has_errors) && atomic_load(&cq->waiters) > 1)
			cq->ops->cq_wake(cq->device_cq, true);
	}
	if (woken) {
		TAILQ_REMOVE(&notifier->notifies.watched, woken, notifies.in_watched);
		TAILQ_INSERT_HEAD(&notifier->notifies.watched, woken, notifies.in_watched);
	}
}

static void sleep_at_words(struct notifier *notifier, uint32_t wakes)
{
	struct futex_word words[FUTEX_MOST];
	unsigned count = collect_words(notifier, wakes, words);
	int place;

	pthread_mutex_unlock(&notifier->lock);
	place = futex_sleep_at_any(words, count, count > 1 ? NSEC_PER_SEC : DEADLINE_NEVER);
	if (place < 0 && errno != EAGAIN && errno != EFAULT && errno != EINTR && errno != ETIMEDOUT)
		futex_rest(REFUSED_NSEC);
	pthread_mutex_lock(&notifier->lock);
	note_wake(notifier, place);
}

void notify_sleep(struct notifier *notifier, uint32_t wakes)
{
	if (notifier->sleeps_at_words)
		sleep_at_words(notifier, wakes);
	else
		sleep_by_epoll(notifier);
}

/* The lock is held. A CQ that has something new, and handlers that wait; or NULL. */
static struct cq *next_to_look_at(struct notifies *notifies)
{
	struct cq *cq, *next;

	for (cq = TAILQ_FIRST(&notifies->watched); cq; cq = next) {
		next = TAILQ_NEXT(cq, notifies.in_watched);
		if (STAILQ_EMPTY(&cq->notifies.outstanding)) {
			unwatch_cq(notifies, cq); /* only now: most handlers ask to be called again */
		} else if (cq->notifies.look || atomic_load(&cq->announced) != cq->notifies.seen) {
			/* The next time other CQs come first. */
			TAILQ_REMOVE(&notifies->watched, cq, notifies.in_watched);
			TAILQ_INSERT_TAIL(&notifies->watched, cq, notifies.in_watched);
			return cq;
		}
	}
	return NULL;
}

static VIP_RETURN take_notice(void *argument)
{
	struct notice *notice = argument;
	struct cq *cq = notice->cq;
	struct workqueue *queue = cq->notifies.queue;

	if (!queue)
		return cq_take(object_handle(&cq->object), &notice->vi, &notice->is_receive, cq);
	notice->vi = object_handle(&queue->vi->object);
	notice->is_receive = queue->is_receive;
	notice->descriptor = NULL;
	workqueue_take(notice->vi, &notice->descriptor, queue);
	return notice->descriptor ? VIP_SUCCESS : VIP_NOT_DONE;
}

/* Takes, or arms the CQ if there is nothing. The lock is held on entry and on return. */
static bool look_for_notice(struct notifier *notifier, struct cq *cq, struct object *owner, struct notice *notice)
{
	uint32_t seen = atomic_load(&cq->announced);
	const bool has_word = cq->notifies.has_word;
	struct sleep_word word = {0};
	VIP_RETURN rc;

	notice->cq = cq;
	pthread_mutex_unlock(&notifier->lock);
	rc = take_notice(notice);
	if (rc == VIP_NOT_DONE)
		rc = cq_arm_and_take(cq, take_notice, notice, &seen, has_word ? &word : NULL);
	/* A thread sleeps at the word, too: the handler may run for long. */
	if (rc == VIP_SUCCESS && !cq->channel && atomic_load(&cq->waiters) > 1)
		cq_leave_to_others(cq, owner);
	pthread_mutex_lock(&notifier->lock);
	if (rc == VIP_SUCCESS)
		return true;
	cq->notifies.seen = seen;
	cq->notifies.word = word;
	cq->notifies.look = false;
	notifier->notifies.retry |= rc == VIP_ERROR_RESOURCE;
	return false;
}

/* Removes the handler that has waited longest, to be called; NULL: none. The lock is held. */
static struct notify *begin_handler(struct notifier *notifier, struct cq *cq, const struct notice *notice)
{
	struct notify *notify = STAILQ_FIRST(&cq->notifies.outstanding);

	if (!notify || !object_is_live(notice->vi, OBJECT_VI)) /* a VI's entries go with it */
		return NULL;
	STAILQ_REMOVE_HEAD(&cq->notifies.outstanding, next);
	notifier->notifies.running_vi = notice->vi;
	notifier->notifies.running_cq = cq->is_public ? object_handle(&cq->object) : NULL;
	return notify;
}

/* The lock is held on entry and on return. */
static void call_handler(struct notifier *notifier, struct notify *notify, const struct notice *notice)
{
	const uintptr_t handler = notify->cq_handler ? (uintptr_t)notify->cq_handler : (uintptr_t)notify->vi_handler;
	const bool is_traced = trace_is_on();
	struct trace_line line;

	pthread_mutex_unlock(&notifier->lock);
	if (is_traced)
		trace_done_handler(&line, notify->cq_handler ? notifier->notifies.running_cq : NULL, notice->vi,
				   notice->is_receive, notice->descriptor, notify->context, handler);
	thread_is_library = false; /* the handler is the program's */
	if (notify->cq_handler)
		notify->cq_handler(notify->context, notifier->nic, notice->vi, notice->is_receive);
	else
		notify->vi_handler(notify->context, notifier->nic, notice->vi, notice->descriptor);
	thread_is_library = true;
	if (is_traced)
		trace_handler_returned(&line);
	free(notify);
	pthread_mutex_lock(&notifier->lock);
	notifier->notifies.running_vi = NULL;
	notifier->notifies.running_cq = NULL;
	pthread_cond_broadcast(&notifier->notifies.returned);
}

bool notify_deliver(struct notifier *notifier)
{
	struct cq *cq = next_to_look_at(&notifier->notifies);
	struct notify *notify = NULL;
	struct object *owner;
	struct notice notice;

	if (!cq)
		return false;
	owner = cq->is_public ? &cq->object : &cq->notifies.queue->vi->object;
	if (!object_hold(owner)) { /* it is being destroyed */
		cancel_at(&notifier->notifies, cq);
		return true;
	}
	if (look_for_notice(notifier, cq, owner, &notice))
		notify = begin_handler(notifier, cq, &notice);
	pthread_mutex_unlock(&notifier->lock);
	object_put(owner); /* from here on the CQ may be gone */
	pthread_mutex_lock(&notifier->lock);
	if (notify)
		call_handler(notifier, notify, &notice);
	return true;
}

VIP_RETURN notify_add(struct notifier *notifier, struct cq *cq, struct workqueue *queue, const struct notify *wanted)
{
	struct notify *notify = malloc(sizeof(*notify));

	if (!notify)
		return VIP_ERROR_RESOURCE;
	if (watch_cq(notifier, cq, queue)) {
		free(notify);
		return VIP_ERROR_RESOURCE;
	}
	*notify = *wanted;
	cq->notifies.look |= STAILQ_EMPTY(&cq->notifies.outstanding);
	STAILQ_INSERT_TAIL(&cq->notifies.outstanding, notify, next);
	return VIP_SUCCESS;
}
