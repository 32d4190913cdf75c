/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping on a device's channel until a completion comes. One sleeper of a channel, the leader, waits for the device's
 * announcements. The others doze, each on a futex of its own. A message wakes one thread.
 */
#include "channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/thread.h"
#include "cq.h"
#include "nic.h"

#define ANNOUNCED 1u /* the leader's source for the device's announcements */

/* A thread in channel_wait(). */
struct sleeping {
	TAILQ_ENTRY(sleeping) next; /* until it is called */
	struct cq *cq;
	bool is_choosy;
	_Atomic uint32_t state;
};

enum {
	DOZING,
	APPOINTED, /* the leader, which may still doze */
	LEADING,   /* the leader, which sleeps */
	AWAKE,	   /* the leader, which reads announcements */
	CALLED,	   /* from here on the thread may return at any moment, and its memory go */
	CALLED_LEADING, /* as before, but the thread stays the leader until it has the lock */
};

/* NULL and errno on failure. */
static struct channel *channel_create(struct nic *nic)
{
	const int epoll_fd = nic->progress.channels_fd;
	const struct device_ops *ops = nic->device->ops;
	struct channel *channel = zeroed(1, sizeof(*channel));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
	int error;

	if (!channel)
		return NULL;
	channel->nic = nic;
	error = sleeper_init(&channel->sleeper, nic->agent.sleeper.always_fd);
	if (error)
		goto free_channel;
	TAILQ_INIT(&channel->sleepers);
	pthread_mutex_init(&channel->lock, NULL);
	fd_hold_standard();
	channel->device_channel = ops->channel_create(nic->device, &channel->device_fd);
	error = errno;
	fd_release_standard();
	if (!channel->device_channel)
		goto destroy_lock;
	error = sleeper_watch(&channel->sleeper, ANNOUNCED, channel->device_fd);
	if (!error && epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, channel->device_fd, &event))
		error = cause("epoll_ctl()", errno);
	if (!error)
		return channel;

	ops->channel_destroy(channel->device_channel);
destroy_lock:
	pthread_mutex_destroy(&channel->lock);
	sleeper_destroy(&channel->sleeper);
free_channel:
	free(channel);
	errno = error;
	return NULL;
}

static void channel_destroy(struct channel *channel)
{
	const int epoll_fd = channel->nic->progress.channels_fd;

	if (fd_is_own(epoll_fd))
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, channel->device_fd, NULL);
	channel->nic->device->ops->channel_destroy(channel->device_channel);
	sleeper_destroy(&channel->sleeper);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

/* The first CQs get a channel each. Later ones share, because each takes file descriptors. */
struct channel *channel_for_cq(struct nic *nic)
{
	struct channel *best = nic->channels[0];

	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++) {
		struct channel *channel = nic->channels[i];

		if (!channel)
			return nic->channels[i] = channel_create(nic);
		if (channel->cqs < best->cqs)
			best = channel;
	}
	return best;
}

void channel_release(struct nic *nic, struct channel *channel)
{
	if (!channel || --channel->cqs)
		return;
	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++)
		if (nic->channels[i] == channel)
			nic->channels[i] = NULL;
	channel_destroy(channel);
}

static bool is_called(const struct sleeping *self)
{
	return atomic_load_explicit(&self->state, memory_order_acquire) >= CALLED;
}

/* Wakes the thread if it dozes. It may have returned since its state was set: then nobody sleeps at this address. */
static void wake(struct sleeping *sleeping)
{
	futex_wake(&sleeping->state, false, FUTEX_OF_PROCESS);
}

/* In what follows the channel's lock is held. */

static void call(struct channel *channel, struct sleeping *sleeping)
{
	uint32_t before = atomic_load_explicit(&sleeping->state, memory_order_relaxed);

	TAILQ_REMOVE(&channel->sleepers, sleeping, next);
	atomic_store_explicit(&sleeping->state, before == DOZING ? CALLED : CALLED_LEADING, memory_order_release);
	if (before == LEADING)
		sleeper_wake(&channel->sleeper);
	else if (before != AWAKE)
		wake(sleeping);
}

static void call_some(struct channel *channel, const struct cq *cq, bool choosy_only)
{
	struct sleeping *sleeping, *next;

	for (sleeping = TAILQ_FIRST(&channel->sleepers); sleeping; sleeping = next) {
		next = TAILQ_NEXT(sleeping, next);
		if (sleeping->cq == cq && (sleeping->is_choosy || !choosy_only))
			call(channel, sleeping);
	}
}

/* Returns the leader if it is awake, else the thread that has slept longest. A sleeping leader is the last choice. */
static struct sleeping *find_one(const struct channel *channel, const struct cq *cq)
{
	struct sleeping *sleeping, *one = NULL, *leader = NULL;

	TAILQ_FOREACH(sleeping, &channel->sleepers, next) {
		if (sleeping->cq != cq || sleeping->is_choosy)
			continue;
		if (sleeping == channel->leader)
			leader = sleeping;
		else if (!one)
			one = sleeping;
	}
	if (leader && (!one || atomic_load_explicit(&leader->state, memory_order_relaxed) == AWAKE))
		return leader;
	return one;
}

static void call_one(struct channel *channel, struct cq *cq)
{
	struct sleeping *one;

	/* The caller has completed something. A called thread that has not looked yet sees that: see channel_wait(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&cq->is_called))
		return;
	one = find_one(channel, cq);
	if (!one)
		return;
	atomic_store(&cq->is_called, true);
	call(channel, one);
}

void channel_call(struct channel *channel, struct cq *cq, bool all)
{
	if (all || atomic_load_explicit(&cq->choosy, memory_order_relaxed))
		call_some(channel, cq, !all);
	if (!all)
		call_one(channel, cq);
}

static void appoint_leader(struct channel *channel)
{
	channel->leader = TAILQ_FIRST(&channel->sleepers);
	if (!channel->leader)
		return;
	atomic_store_explicit(&channel->leader->state, APPOINTED, memory_order_relaxed);
	wake(channel->leader);
}

/* False: the device is gone, and the channel is readable for ever. */
static bool read_announcements(struct channel *channel, bool all)
{
	int error = channel->nic->device->ops->channel_read(channel->device_channel, all);

	if (!error)
		return true;
	sleeper_lose(&channel->sleeper, "read()", error);
	nic_lose(channel->nic, error);
	return false;
}

/* The lock is released meanwhile. */
static void lead(struct channel *channel, struct sleeping *self, int64_t deadline)
{
	unsigned ready;

	channel->leader = self;
	atomic_store_explicit(&self->state, LEADING, memory_order_relaxed);
	pthread_mutex_unlock(&channel->lock);
	/* The caller looks at the clock and comes again. */
	ready = sleeper_sleep(&channel->sleeper, deadline_msec(deadline));
	pthread_mutex_lock(&channel->lock);
	if (!is_called(self))
		atomic_store_explicit(&self->state, AWAKE, memory_order_relaxed);

	/* Only after an announcement: the read is a system call, and delays the thread that waits for the message. */
	if (ready & 1u << ANNOUNCED)
		read_announcements(channel, TAILQ_FIRST(&channel->sleepers) != TAILQ_LAST(&channel->sleepers, sleepers));
	/* No announcement will come any more, so all threads look. The agent ends the connections. */
	while (sleeper_is_lost(&channel->sleeper) && !TAILQ_EMPTY(&channel->sleepers))
		call(channel, TAILQ_FIRST(&channel->sleepers));
}

/* The lock is held, and released here. False at the deadline. */
static bool sleep_until_called(struct channel *channel, struct sleeping *self, int64_t deadline)
{
	bool called;

	TAILQ_INSERT_TAIL(&channel->sleepers, self, next);
	while (!is_called(self) && deadline_left(deadline)) {
		if (!channel->leader || channel->leader == self) {
			lead(channel, self, deadline);
			continue;
		}
		pthread_mutex_unlock(&channel->lock);
		futex_sleep(&self->state, DOZING, deadline_left(deadline), FUTEX_OF_PROCESS);
		if (atomic_load_explicit(&self->state, memory_order_acquire) == CALLED)
			return true; /* whoever called may still have the lock */
		pthread_mutex_lock(&channel->lock);
	}
	called = is_called(self);
	if (!called)
		TAILQ_REMOVE(&channel->sleepers, self, next);
	if (channel->leader == self)
		appoint_leader(channel);
	pthread_mutex_unlock(&channel->lock);
	return called;
}

void channel_wait(struct channel *channel, struct cq *cq, bool is_choosy, uint32_t seen, int64_t deadline)
{
	struct sleeping self = {.cq = cq, .is_choosy = is_choosy};
	bool called;

	pthread_mutex_lock(&channel->lock);
	if (atomic_load(&cq->announced) != seen) {
		pthread_mutex_unlock(&channel->lock);
		return;
	}
	called = sleep_until_called(channel, &self, deadline);
	/* From here on a completion calls another thread. The caller's next look finds all completions before that. */
	if (called && !is_choosy) {
		atomic_store(&cq->is_called, false);
		atomic_thread_fence(memory_order_seq_cst);
	}
}

void channels_look(int epoll_fd)
{
	struct epoll_event events[CHANNELS_MOST];
	int count = fd_is_own(epoll_fd) ? epoll_wait(epoll_fd, events, CHANNELS_MOST, 0) : 0;

	for (int i = 0; i < count; i++) {
		struct channel *channel = events[i].data.ptr;
		bool goes_on;

		pthread_mutex_lock(&channel->lock);
		goes_on = read_announcements(channel, true);
		pthread_mutex_unlock(&channel->lock);
		if (!goes_on)
			epoll_ctl(epoll_fd, EPOLL_CTL_DEL, channel->device_fd, NULL);
	}
}
