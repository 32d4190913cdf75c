/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent polls for completions like any thread that waits: it takes, arms the CQ, and takes again. */
#include "nic.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/config.h"
#include "base/fd.h"

#define MOST_TURNS 64u /* at one CQ; then other CQs, and the program, have their turn */

int progress_start(struct nic *nic)
{
	nic->progress.channels_fd = -1;
	if (!config()->progress)
		return 0;
	nic->progress.channels_fd = fd_keep(epoll_create1(EPOLL_CLOEXEC), "epoll_create1()");
	return nic->progress.channels_fd < 0 ? errno : 0;
}

void progress_end(struct nic *nic)
{
	fd_close(nic->progress.channels_fd);
}

static VIP_RETURN poll_once(void *cq)
{
	return cq_poll_for_device(cq) ? VIP_SUCCESS : VIP_NOT_DONE;
}

/* False when the CQ could not be armed. */
static bool look_at(struct cq *cq)
{
	VIP_RETURN rc = VIP_SUCCESS;
	uint32_t seen;

	for (unsigned turn = 0; turn < MOST_TURNS && rc == VIP_SUCCESS; turn++) {
		rc = poll_once(cq);
		if (rc == VIP_NOT_DONE)
			rc = cq_arm_and_take(cq, poll_once, cq, &seen, NULL);
	}
	if (rc == VIP_NOT_DONE)
		cq->served = seen;
	else if (rc == VIP_SUCCESS)
		agent_wake(cq->nic);
	return rc != VIP_ERROR_RESOURCE;
}

int progress_serve(struct nic *nic, bool rings)
{
	bool all_armed = true;
	struct cq *cq;

	if (nic->progress.channels_fd < 0)
		return -1;
	if (rings)
		channels_look(nic->progress.channels_fd);
	LIST_FOREACH(cq, &nic->cqs, in_nic)
		if (atomic_load(&cq->announced) != cq->served)
			all_armed &= look_at(cq);
	return all_armed ? -1 : ARM_RETRY_MSEC;
}
