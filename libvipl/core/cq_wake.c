/* SPDX-License-Identifier: BSD-2-Clause */
/* Waking who waits for a CQ: threads that sleep on its channel or at its word, the notifier, and with VIPL_PROGRESS the agent. */
#include "cq.h"
#include "nic.h"

static void note_announcement(struct cq *cq)
{
	atomic_fetch_add(&cq->announced, 1);
	if (atomic_load(&cq->notifies.watched))
		notifier_wake(cq->nic->notifier);
	if (cq->nic->progress.channels_fd >= 0 && !thread_is_agent) /* else it is awake */
		agent_wake(cq->nic);
}

void cq_announced(struct cq *cq)
{
	note_announcement(cq);
	channel_call(cq->channel, cq, false);
}

void cq_wake(struct cq *cq, bool all)
{
	struct channel *channel = cq->channel;

	if (channel)
		pthread_mutex_lock(&channel->lock);
	note_announcement(cq);
	if (channel) {
		channel_call(channel, cq, all);
		pthread_mutex_unlock(&channel->lock);
	} else {
		cq->ops->cq_wake(cq->device_cq, all || atomic_load(&cq->choosy));
	}
}
