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
	if (cq->channel)
		channel_call(cq->channel, cq);
	else if (atomic_load(&cq->choosy)) /* whoever has completed this has woken one thread, perhaps another one */
		cq->ops->cq_wake(cq->device_cq, true);
}

void cq_kick_slowly(struct cq *cq)
{
	if (cq->channel) {
		pthread_mutex_lock(&cq->channel->lock);
		cq_announced(cq);
		pthread_mutex_unlock(&cq->channel->lock);
	} else {
		note_announcement(cq);
		cq->ops->cq_wake(cq->device_cq, atomic_load(&cq->choosy));
	}
}

void cq_kick_all(struct cq *cq)
{
	if (cq->channel) {
		pthread_mutex_lock(&cq->channel->lock);
		note_announcement(cq);
		channel_call_all(cq->channel, cq);
		pthread_mutex_unlock(&cq->channel->lock);
	} else {
		note_announcement(cq);
		cq->ops->cq_wake(cq->device_cq, true);
	}
}
