/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent as one who asks for completions: as any sleeper it takes, arms, and takes again. */
#include "progress.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/config.h"
#include "nic.h"

#define MOST_TURNS 64u /* at one CQ, then it is the others' turn, and the program's */

int progress_start(struct nic *nic)
{
	nic->progress.channels_fd = -1;
	if (!config()->progress)
		return 0;
	nic->progress.channels_fd = epoll_create1(EPOLL_CLOEXEC);
	return nic->progress.channels_fd < 0 ? errno : 0;
}

void progress_end(struct nic *nic)
{
	if (nic->progress.channels_fd >= 0)
		close(nic->progress.channels_fd);
}

/* False when the CQ could not be armed. */
static bool look_at(struct cq *cq)
{
	uint32_t announced = atomic_load(&cq->announced);

	for (unsigned turn = 0; turn < MOST_TURNS; turn++) {
		if (cq_poll_for_device(cq))
			continue;
		if (cq->ops->cq_arm(cq->device_cq))
			return false;
		/* What completed before the CQ was armed is not announced. */
		if (!cq_poll_for_device(cq)) {
			cq->served = announced;
			return true;
		}
	}
	agent_wake(cq->nic);
	return true;
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
