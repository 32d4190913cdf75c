/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping until a completion comes. One of the sleepers of a channel, the leader, waits
 * for the device's announcements and for kicks; the others wait for the leader.
 */
#include "channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "cq.h"
#include "nic.h"

#define ANNOUNCED 1u /* this source of the leader's is the device */

struct channel *channel_create(struct device *device, int always_fd, int epoll_fd)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
	unsigned held;
	int error;

	if (!channel)
		return NULL;
	channel->device = device;
	error = sleeper_init(&channel->sleeper, always_fd);
	if (error)
		goto free_channel;
	error = condition_init(&channel->changed);
	if (error)
		goto destroy_sleeper;
	pthread_mutex_init(&channel->lock, NULL);
	held = fd_hold_standard();
	channel->device_channel = device->ops->channel_create(device, &channel->device_fd);
	error = errno;
	fd_release_standard(held);
	if (!channel->device_channel)
		goto destroy_lock;
	channel->epoll_fd = epoll_fd;
	error = sleeper_watch(&channel->sleeper, ANNOUNCED, channel->device_fd);
	if (!error && epoll_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, channel->device_fd, &event))
		error = errno;
	if (!error)
		return channel;

	device->ops->channel_destroy(channel->device_channel);
destroy_lock:
	pthread_mutex_destroy(&channel->lock);
	pthread_cond_destroy(&channel->changed);
destroy_sleeper:
	sleeper_destroy(&channel->sleeper);
free_channel:
	free(channel);
	errno = error;
	return NULL;
}

void channel_destroy(struct channel *channel)
{
	if (fd_is_own(channel->epoll_fd))
		epoll_ctl(channel->epoll_fd, EPOLL_CTL_DEL, channel->device_fd, NULL);
	channel->device->ops->channel_destroy(channel->device_channel);
	sleeper_destroy(&channel->sleeper);
	pthread_cond_destroy(&channel->changed);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

/* The channel's lock is held; also called by the device from channel_read(). */
void cq_announced(struct cq *cq)
{
	atomic_fetch_add(&cq->announced, 1);
	if (atomic_load(&cq->notifies.watched))
		notifier_wake(cq->nic->notifier);
	if (cq->nic->progress.channels_fd >= 0 && lock_thread != LOCK_NEVER_BIASED) /* else it is awake */
		agent_wake(cq->nic);
}

/* The lock is held. */
static void read_announcements(struct channel *channel, bool all)
{
	channel->device->ops->channel_read(channel->device_channel, all);
	/* Some of the sleepers have their announcement, and one has to lead. */
	pthread_cond_broadcast(&channel->changed);
}

/* The lock is held. */
static void wake_leader(struct channel *channel)
{
	if (channel->has_leader)
		sleeper_wake(&channel->sleeper);
}

static void channel_look(struct channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	read_announcements(channel, true);
	wake_leader(channel); /* we may have consumed its event */
	pthread_mutex_unlock(&channel->lock);
}

void channels_look(int epoll_fd)
{
	struct epoll_event events[CHANNELS_MOST];
	int count = fd_is_own(epoll_fd) ? epoll_wait(epoll_fd, events, CHANNELS_MOST, 0) : 0;

	for (int i = 0; i < count; i++)
		channel_look(events[i].data.ptr);
}

/* The lock is held on entry and on return. */
static void lead(struct channel *channel, int64_t deadline)
{
	unsigned ready;

	channel->has_leader = true;
	pthread_mutex_unlock(&channel->lock);
	/* The caller looks at the clock and comes again. */
	ready = sleeper_sleep(&channel->sleeper, deadline_msec(deadline));
	pthread_mutex_lock(&channel->lock);
	channel->has_leader = false;

	/* It is a system call between a message and the thread that waits for it. */
	if (ready & 1u << ANNOUNCED)
		read_announcements(channel, channel->sleepers > 1);
	else /* one of the others has to lead */
		pthread_cond_broadcast(&channel->changed);
}

bool channel_wait(struct channel *channel, struct cq *cq, uint32_t seen, int64_t deadline)
{
	bool announced;

	pthread_mutex_lock(&channel->lock);
	channel->sleepers++;
	while (!(announced = atomic_load(&cq->announced) != seen) && deadline_left(deadline)) {
		if (channel->has_leader)
			condition_wait(&channel->changed, &channel->lock, deadline);
		else
			lead(channel, deadline);
		/* Nothing is announced any more, so look. The agent ends the connections. */
		if (sleeper_is_lost(&channel->sleeper)) {
			announced = true;
			break;
		}
	}
	channel->sleepers--;
	pthread_mutex_unlock(&channel->lock);
	return announced;
}

void channel_kick(struct channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	cq_announced(cq);
	pthread_cond_broadcast(&channel->changed);
	wake_leader(channel);
	pthread_mutex_unlock(&channel->lock);
}
