/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC's service thread. It holds the NIC's lock but while it sleeps. */
#include "agent.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/thread.h"
#include "core/connecting.h"
#include "core/listening.h"
#include "core/nic.h"
#include "notifier.h"
#include "status.h"

/* Between two looks at CQs whose queues have backlogs. */
#define FIRST_BACKLOG_MSEC   1
#define LONGEST_BACKLOG_MSEC 64

/*
 * Runs the deferred work of the NIC's CQs. Returns after how many msec it has to be called again, or -1. It submits
 * backlogs, since perhaps the program does not poll. While that makes no progress the pauses become longer.
 */
static int serve_cqs(struct nic *nic)
{
	bool backlogs = false, progress = false, may_skip = nic->agent.backlog_msec < LONGEST_BACKLOG_MSEC;
	struct cq *cq;

	LIST_FOREACH(cq, &nic->cqs, in_nic)
		backlogs |= deferred_serve(cq, may_skip, &progress);
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

/* A reader that cannot be accepted stays at the socket, so the socket is left alone for a second. */
static int serve_status(struct nic *nic, struct pollfd *status, int64_t *again)
{
	if (status->revents && !status_serve(nic, nic->agent.status_fd)) {
		status->fd = -1;
		*again = clock_nsec() + NSEC_PER_SEC;
	}
	if (*again != DEADLINE_NEVER && !deadline_left(*again)) {
		status->fd = nic->agent.status_fd;
		*again = DEADLINE_NEVER;
	}
	return deadline_msec(*again);
}

static void *run(void *argument)
{
	enum { WAKE, DEVICE, CHANNELS, STATUS };
	struct nic *nic = argument;
	/* Each is a system call between a message and the thread that watches for it, so only if there is an event. */
	struct pollfd fds[] = {
		[WAKE] = {.fd = nic->agent.wake_fd, .events = POLLIN},
		[DEVICE] = {.fd = nic->device->event_fd, .events = POLLIN},
		[CHANNELS] = {.fd = nic->progress.channels_fd, .events = POLLIN},
		[STATUS] = {.fd = nic->agent.status_fd, .events = POLLIN}, /* -1 is passed over */
	};
	int64_t status_again = DEADLINE_NEVER;

	lock_thread = LOCK_NEVER_BIASED;
	thread_is_library = true;
	while (!atomic_load(&nic->agent.stop)) {
		eventfd_t wakes;
		int msec;

		pthread_mutex_lock(&nic->lock);
		msec = progress_serve(nic, fds[CHANNELS].revents);
		if (fds[DEVICE].revents)
			nic->device->ops->serve(nic->device);
		msec = shorter(msec, serve_status(nic, &fds[STATUS], &status_again));
		msec = shorter(msec, serve_cqs(nic));
		msec = shorter(msec, deadline_msec(attempts_serve(nic)));
		msec = shorter(msec, deadline_msec(listeners_serve(nic)));
		msec = shorter(msec, notifier_serve(nic->notifier));
		pthread_mutex_unlock(&nic->lock);
		poll(fds, sizeof(fds) / sizeof(fds[0]), msec);
		if (fds[WAKE].revents)
			eventfd_read(nic->agent.wake_fd, &wakes);
	}
	return NULL;
}

static void close_status(struct nic *nic)
{
	if (nic->agent.status_fd < 0)
		return;
	shutdown(nic->agent.status_fd, SHUT_RDWR); /* a forked child may have it, too, and not answer */
	close(nic->agent.status_fd);
}

int agent_start(struct nic *nic)
{
	int error;

	nic->agent.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (nic->agent.wake_fd < 0)
		return errno;
	error = progress_start(nic);
	if (error)
		goto close_wake;
	nic->agent.status_fd = status_open();
	error = thread_start(&nic->agent.thread, run, nic);
	if (!error)
		return 0;
	close_status(nic);
	progress_end(nic);
close_wake:
	close(nic->agent.wake_fd);
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
	close_status(nic);
	progress_end(nic);
	close(nic->agent.wake_fd);
}
