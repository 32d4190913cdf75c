/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bells that cannot be emptied now, because descriptors came with a ring, which closer.c takes. The bell would stay readable,
 * so nobody watches it until the next tick, which rings it once more. Since Linux 6.16 nobody can send descriptors to a bell.
 * Before that, each channel's bell is in an epoll descriptor of its own, on which the sleepers sleep.
 * Also the rings that are refused to a thread. And the timer that ticks.
 */
#include <errno.h>
#include <sys/timerfd.h>

#include "base/cause.h"
#include "base/fd.h"
#include "base/thread.h"
#include "loopback.h"

void left_alone_init(struct loopback_device *device)
{
	pthread_mutex_init(&device->left_alone.lock, NULL);
	LIST_INIT(&device->left_alone.channels);
}

void left_alone_destroy(struct loopback_device *device)
{
	pthread_mutex_destroy(&device->left_alone.lock);
}

void loopback_set_timer(struct loopback_device *device, long milliseconds)
{
	struct itimerspec tick = {.it_value = {.tv_sec = milliseconds / 1000,
					       .tv_nsec = milliseconds % 1000 * 1000000}};

	if (fd_is_own(device->timer.fd) && timerfd_settime(device->timer.fd, 0, &tick, NULL))
		device_lost(device->nic, "timerfd_settime()", errno);
}

void loopback_slow_tick(struct loopback_device *device)
{
	loopback_set_timer(device, SLOW_TICK_MSEC);
	if (atomic_load(&device->ticks) || atomic_load(&device->left_alone.any)) /* already, or just now */
		loopback_set_timer(device, TICK_MSEC);
}

void left_alone_wait(struct loopback_device *device)
{
	atomic_store(&device->left_alone.any, true);
	loopback_set_timer(device, TICK_MSEC);
}

int channel_open(struct loopback_channel *channel)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error;

	channel->epoll_fd = -1;
	if (bell_takes_no_descriptors())
		return channel->bell_fd;
	channel->epoll_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	if (channel->epoll_fd < 0 || !epoll_ctl(channel->epoll_fd, EPOLL_CTL_ADD, channel->bell_fd, &event))
		return channel->epoll_fd;
	error = cause("epoll_ctl()", errno);
	close(channel->epoll_fd);
	errno = error;
	return -1;
}

void channel_close(struct loopback_channel *channel)
{
	struct left_alone *left_alone = &channel->device->left_alone;

	pthread_mutex_lock(&left_alone->lock);
	if (channel->is_left_alone)
		LIST_REMOVE(channel, in_left_alone);
	pthread_mutex_unlock(&left_alone->lock);
	fd_close(channel->epoll_fd);
}

static void watch_channel(struct loopback_channel *channel, bool is_watched)
{
	struct epoll_event event = {.events = is_watched ? EPOLLIN : 0};

	epoll_ctl(channel->epoll_fd, EPOLL_CTL_MOD, channel->bell_fd, &event);
}

void left_alone_channel(struct loopback_channel *channel)
{
	struct left_alone *left_alone = &channel->device->left_alone;

	pthread_mutex_lock(&left_alone->lock);
	if (!channel->is_left_alone && channel->epoll_fd >= 0) {
		channel->is_left_alone = true;
		LIST_INSERT_HEAD(&left_alone->channels, channel, in_left_alone);
		watch_channel(channel, false);
	}
	left_alone_wait(channel->device);
	pthread_mutex_unlock(&left_alone->lock);
}

void left_alone_bell(struct loopback_device *device)
{
	device->left_alone.bell = true;
	watch_for(device->base.event_fd, &device->bell, 0);
	left_alone_wait(device);
}

/*
 * A peer can have its own bell refused to us, but not ours. So ours tells whether this thread may ring none: then the agent rings
 * all of them. Landlock and filters can hold for some threads only. If it is refused to the agent, the device is lost.
 */
void loopback_ring(struct loopback_device *device, uint64_t number)
{
	int error = bell_ring(device->bell.fd, number);

	if (!is_refused(error) || !is_refused(bell_ring(device->bell.fd, device->bell_name)))
		return;
	if (thread_is_agent) {
		device_lost(device->nic, "sendto() and sendmsg()", error);
	} else {
		atomic_store(&device->left_alone.rings, true);
		left_alone_wait(device);
	}
}

/* Of peers, and of this process. */
static void ring_all(struct loopback_device *device)
{
	struct loopback_endpoint *endpoint;
	struct loopback_cq *cq;

	LIST_FOREACH(endpoint, &device->linked, in_linked) {
		loopback_ring(device, endpoint->peer_channel_bell);
		loopback_ring(device, endpoint->peer_agent_bell);
	}
	TAILQ_FOREACH (cq, &device->cqs, in_device)
		loopback_ring(device, cq->channel->bell_name);
	loopback_ring(device, device->bell_name);
}

void left_alone_tick(struct loopback_device *device)
{
	struct left_alone *left_alone = &device->left_alone;
	struct loopback_channel *channel;

	if (!atomic_load(&left_alone->any))
		return;
	pthread_mutex_lock(&left_alone->lock);
	atomic_store(&left_alone->any, false);
	/* Whoever took the descriptors may have taken other rings, too. */
	while ((channel = LIST_FIRST(&left_alone->channels))) {
		LIST_REMOVE(channel, in_left_alone);
		channel->is_left_alone = false;
		watch_channel(channel, true);
		loopback_ring(device, channel->bell_name);
	}
	pthread_mutex_unlock(&left_alone->lock);
	if (atomic_exchange(&left_alone->rings, false)) /* after `any`: a thread writes to it before */
		ring_all(device);
	if (!left_alone->bell)
		return;
	left_alone->bell = false;
	watch_for(device->base.event_fd, &device->bell, EPOLLIN);
	loopback_ring(device, device->bell_name);
}
