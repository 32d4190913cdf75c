/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC's service thread. It holds the NIC's lock except while asleep. */
#include "agent.h"

#include <errno.h>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strange.h"
#include "base/thread.h"
#include "base/watch.h"
#include "connect/connect.h"
#include "connect/vis.h"
#include "core/nic.h"
#include "notifier.h"

/* Between two looks at CQs whose queues have backlogs. */
#define FIRST_BACKLOG_MSEC   1
#define LONGEST_BACKLOG_MSEC 64

#define STAND_IN_NSEC (10 * NSEC_PER_MSEC)
#define WAIT_NSEC     (10 * STAND_IN_NSEC)

/* What the agent sleeps for, beside being woken. */
enum { DEVICE = SLEEPER_WOKEN + 1, CHANNELS, STATUS };

/* Submits backlogs, as the program may not poll. Returns the msec until the next call, longer while it is in vain, or -1. */
static int serve_cqs(struct nic *nic)
{
	bool backlogs = false, progress = false, may_skip = nic->agent.backlog_msec < LONGEST_BACKLOG_MSEC;
	struct cq *cq;

	LIST_FOREACH(cq, &nic->cqs, in_nic)
		backlogs |= backlogs_serve(cq, may_skip, &progress);
	if (!backlogs || progress)
		nic->agent.backlog_msec = FIRST_BACKLOG_MSEC;
	else if (nic->agent.backlog_msec < LONGEST_BACKLOG_MSEC)
		nic->agent.backlog_msec *= 2;
	return backlogs ? nic->agent.backlog_msec : -1;
}

/* The shorter of two times to sleep, in msec or -1 for ever. */
static int shorter(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* A reader that cannot be accepted keeps the socket readable, so the agent does not watch the socket until its next turn. */
static void serve_status(struct nic *nic, bool rings)
{
	bool fails = rings && !status_serve(nic, nic->agent.status_fd);

	if (fails != nic->agent.ignores_status)
		sleeper_ignore(&nic->agent.sleeper, STATUS, nic->agent.status_fd, fails);
	nic->agent.ignores_status = fails;
}

/* Fails the NIC if its device is gone, the program has closed the library's descriptors, or a filter refuses their use. */
static void fail_if_lost(struct nic *nic)
{
	int error = atomic_load(&nic->gone);
	const char *call = "read()";

	if (atomic_load(&nic->failed) || !nic_is_lost(nic))
		return;
	if (!error) {
		call = atomic_load(&nic->agent.sleeper.lost_by);
		error = atomic_load(&nic->agent.sleeper.lost_error);
		if (error == ENOENT || error == EINVAL) /* the number is another file's */
			error = EBADF;
	}
	log_error("NIC %p has failed: %s", object_handle(&nic->object), failure_of(call, error));
	device_failed(nic);
}

/* The NIC's lock is held. Returns the msec until it has to be called again, or -1. */
static int take_turn(struct nic *nic, unsigned ready)
{
	int msec;

	fail_if_lost(nic);
	/* Only after an event: each is a system call, and delays a thread that watches for a message. */
	msec = progress_serve(nic, ready & 1u << CHANNELS);
	if (ready & 1u << DEVICE)
		watch_serve(nic->device->event_fd);
	if (nic->device->ops->serve)
		msec = shorter(msec, nic->device->ops->serve(nic->device));
	msec = shorter(msec, deadline_msec(connector_serve(nic->connector)));
	serve_status(nic, ready & 1u << STATUS);
	msec = shorter(msec, serve_cqs(nic));
	faults_serve(nic);
	msec = shorter(msec, ends_serve(nic));
	msec = shorter(msec, device_serve(nic));
	msec = shorter(msec, deadline_msec(listeners_serve(nic)));
	msec = shorter(msec, notifier_serve(nic->notifier));
	atomic_store_explicit(&nic->agent.turned, clock_nsec(), memory_order_relaxed);
	return msec;
}

static void *run_agent(void *argument)
{
	struct nic *nic = argument;
	unsigned ready = 0;

	thread_is_agent = true;
	thread_is_library = true;
	while (!atomic_load(&nic->agent.stop)) {
		int msec;

		pthread_mutex_lock(&nic->lock);
		msec = take_turn(nic, ready);
		pthread_mutex_unlock(&nic->lock);
		ready = sleeper_sleep(&nic->agent.sleeper, msec);
	}
	return NULL;
}

/* The agent may have the lock, but not the processor. A thread that waits for the lock leaves the processor to it. */
static bool lock_in_place_of_agent(struct nic *nic)
{
	int64_t idle = clock_nsec() - atomic_load_explicit(&nic->agent.turned, memory_order_relaxed);

	if (idle < STAND_IN_NSEC)
		return false;
	return !pthread_mutex_trylock(&nic->lock) ||
	       (idle >= WAIT_NSEC && sleeper_has_event(&nic->agent.sleeper) && !pthread_mutex_lock(&nic->lock));
}

void agent_stand_in(struct nic *nic)
{
	bool was_library = thread_is_library;
	unsigned ready = 0;

	if (!lock_in_place_of_agent(nic))
		return;
	if (!object_retired(&nic->object)) {
		ready = sleeper_sleep(&nic->agent.sleeper, 0);
		thread_is_library = true;
		/* Only the agent answers vip_stat: a limit on files would raise a signal in a thread of the program. */
		take_turn(nic, ready & ~(1u << STATUS));
		thread_is_library = was_library;
	}
	pthread_mutex_unlock(&nic->lock);
	if (ready) /* the time for which the agent may sleep has changed */
		agent_wake(nic);
}

int agent_start(struct nic *nic)
{
	const int always_fd = nic->notifier->sleeps_at_words ? -1 : nic->notifier->sleeper.always_fd;
	struct sleeper *sleeper = &nic->agent.sleeper;
	int error = sleeper_init(sleeper, always_fd);

	if (error)
		return error;
	nic->agent.status_fd = fd_mark(status_open());
	error = progress_start(nic);
	if (!error)
		error = sleeper_watch(sleeper, DEVICE, nic->device->event_fd);
	if (!error)
		error = sleeper_watch(sleeper, CHANNELS, nic->progress.channels_fd);
	if (!error)
		error = sleeper_watch(sleeper, STATUS, nic->agent.status_fd);
	if (!error)
		error = thread_start(&nic->agent.thread, THREAD_OWN, run_agent, nic);
	if (error)
		agent_free(nic);
	return error;
}

void agent_stop(struct nic *nic)
{
	atomic_store(&nic->agent.stop, true);
	agent_wake(nic);
	pthread_join(nic->agent.thread, NULL);
}

void agent_free(struct nic *nic)
{
	if (fd_is_own(nic->agent.status_fd))
		strange_close_listener(nic->agent.status_fd);
	progress_end(nic);
	sleeper_destroy(&nic->agent.sleeper);
}
