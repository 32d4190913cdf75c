// SPDX-License-Identifier: BSD-2-Clause
// Connection events: queues, delays, delivery.
#include "world.h"

#include <algorithm>
#include <ctime>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace fake
{

static uint64_t now_ns()
{
	timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

Event *make_event(Id *id, rdma_cm_event_type type, int status)
{
	auto *event = new Event;

	event->id = id;
	event->event = type;
	event->status = status;
	return event;
}

void queue_event(CmChannel *channel, Event *event)
{
	channel->ready.push_back(event);
	channel->signal.set(true);
}

// The timer only makes the channel readable in time. rdma_get_cm_event compares the clock.
static void set_timer(CmChannel *channel)
{
	itimerspec when{};
	uint64_t first = UINT64_MAX;

	if (channel->timer_fd < 0)
		return;
	for (const DelayedEvent &d : channel->delayed)
		first = std::min(first, d.due_ns);
	if (first != UINT64_MAX) {
		when.it_value.tv_sec = static_cast<time_t>(first / 1000000000u);
		when.it_value.tv_nsec = static_cast<long>(first % 1000000000u);
	}
	timerfd_settime(channel->timer_fd, TFD_TIMER_ABSTIME, &when, nullptr);
}

static void make_timer(CmChannel *channel)
{
	epoll_event want{};

	if (channel->timer_fd >= 0)
		return;
	channel->timer_fd = own_timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	want.events = EPOLLIN;
	if (channel->timer_fd < 0 ||
	    epoll_ctl(channel->fd, EPOLL_CTL_ADD, channel->timer_fd, &want) < 0)
		die("no timer for an event channel: %s", strerror(errno));
}

void queue_event_in(CmChannel *channel, Event *event, int ms)
{
	if (ms <= 0) {
		queue_event(channel, event);
		return;
	}
	make_timer(channel);
	channel->delayed.push_back({now_ns() + static_cast<uint64_t>(ms) * 1000000u, event});
	set_timer(channel);
}

static void take_due(CmChannel *channel)
{
	if (channel->delayed.empty())
		return;
	uint64_t now = now_ns();
	auto &delayed = channel->delayed;
	std::stable_sort(delayed.begin(), delayed.end(),
			 [](const auto &a, const auto &b) { return a.due_ns < b.due_ns; });
	while (!delayed.empty() && delayed.front().due_ns <= now) {
		queue_event(channel, delayed.front().event);
		delayed.erase(delayed.begin());
	}
	set_timer(channel);
}

void drop_events(Id *id)
{
	CmChannel *channel = channel_of(id);
	std::vector<Event *> dropped;
	auto drop = [&](Event *event) {
		bool ours = event->id == id;
		if (ours)
			dropped.push_back(event);
		return ours;
	};

	auto &ready = channel->ready;
	ready.erase(std::remove_if(ready.begin(), ready.end(), drop), ready.end());
	auto &delayed = channel->delayed;
	delayed.erase(std::remove_if(delayed.begin(), delayed.end(),
				     [&](DelayedEvent &d) { return drop(d.event); }),
		      delayed.end());
	channel->signal.set(!ready.empty());
	set_timer(channel);
	for (Event *event : dropped)
		delete event;
}

void report(Id *id, rdma_cm_event_type type, int status)
{
	queue_event(channel_of(id), make_event(id, type, status));
}

void free_cm_channel(CmChannel *channel)
{
	for (Event *event : channel->ready)
		delete event;
	for (DelayedEvent &d : channel->delayed)
		delete d.event;
	if (channel->timer_fd >= 0)
		close(channel->timer_fd);
	close(channel->fd);
	channel->signal.close();
	world().cm_channels.erase(channel);
	delete channel;
}

static bool open_channel(CmChannel *channel)
{
	epoll_event want{};

	want.events = EPOLLIN;
	channel->fd = own_epoll_create1(EPOLL_CLOEXEC);
	return channel->fd >= 0 && channel->signal.open() &&
	       epoll_ctl(channel->fd, EPOLL_CTL_ADD, channel->signal.fd, &want) == 0;
}

static void hand_out(CmChannel *channel, Event *event)
{
	World &w = world();

	++static_cast<Id *>(event->id)->unacked;
	++channel->unacked;
	w.events_out.insert(event);
}

} // namespace fake

using namespace fake;

rdma_event_channel *rdma_create_event_channel(void)
{
	FAKE_ENTER(rdma_create_event_channel);
	if (fault)
		return by_null(fault);
	auto *channel = new CmChannel;
	channel->fd = -1;
	world().cm_channels.insert(channel);
	if (!open_channel(channel)) {
		int err = errno;
		free_cm_channel(channel);
		return by_null(err);
	}
	++world().live.event_channels;
	return channel;
}

void rdma_destroy_event_channel(rdma_event_channel *rchannel)
{
	FAKE_ENTER(rdma_destroy_event_channel);
	auto *channel = static_cast<CmChannel *>(rchannel);

	(void)fault;
	if (channel->ids || channel->unacked)
		die("rdma_destroy_event_channel: %d ids still use it, %d events are not "
		    "acknowledged",
		    channel->ids, channel->unacked);
	--world().live.event_channels;
	free_cm_channel(channel);
}

int rdma_get_cm_event(rdma_event_channel *rchannel, rdma_cm_event **out)
{
	FAKE_ENTER(rdma_get_cm_event);
	auto *channel = static_cast<CmChannel *>(rchannel);

	if (fault)
		return by_minus(fault);
	take_due(channel);
	if (channel->ready.empty())
		return nothing_to_read(channel->fd);
	Event *event = channel->ready.front();
	channel->ready.pop_front();
	channel->signal.set(!channel->ready.empty());
	hand_out(channel, event);
	*out = event;
	return 0;
}

int rdma_ack_cm_event(rdma_cm_event *revent)
{
	FAKE_ENTER(rdma_ack_cm_event);
	World &w = world();
	auto *event = static_cast<Event *>(revent);

	if (fault || !event)
		return by_minus(fault ? fault : EINVAL);
	if (!w.events_out.count(event))
		die("rdma_ack_cm_event: this event is acknowledged already or none of ours");
	auto *id = static_cast<Id *>(event->id);
	--id->unacked;
	--channel_of(id)->unacked;
	w.events_out.erase(event);
	delete event;
	return 0;
}

void fake_remove_devices(void)
{
	std::lock_guard<std::mutex> lock(world().mutex);

	for (Id *id : world().ids)
		if (id->verbs)
			report(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
}
