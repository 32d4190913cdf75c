/* Completion queues: VipCreateCQ, DestroyCQ, CQDone, CQWait, and the one loop that waits. */
#include "completion.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "deadline.h"
#include "log.h"
#include "nic.h"

/* The first CQs get a channel each; later ones share, since channels are file descriptors. */
static struct channel *channel_take(struct nic *nic)
{
	struct channel **best = &nic->channels[0];

	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++) {
		struct channel **slot = &nic->channels[i];

		if (!*slot || (*best && (*slot)->cqs < (*best)->cqs))
			best = slot;
		if (!*best)
			break;
	}
	if (!*best)
		*best = channel_create(nic->device);
	if (*best)
		(*best)->cqs++;
	return *best;
}

static void channel_release(struct nic *nic, struct channel *channel)
{
	if (--channel->cqs)
		return;
	for (unsigned i = 0; i < PRIVATE_CHANNELS; i++)
		if (nic->channels[i] == channel)
			nic->channels[i] = NULL;
	channel_destroy(channel);
}

struct cq *cq_create(struct nic *nic, unsigned entries, bool is_public)
{
	struct cq *cq = calloc(1, sizeof(*cq));
	unsigned capacity;
	int error = ENOMEM;

	if (!cq)
		return NULL;
	cq->nic = nic;
	cq->is_public = is_public;
	TAILQ_INIT(&cq->ready);
	TAILQ_INIT(&cq->starved);
	TAILQ_INIT(&cq->attention);
	pthread_mutex_init(&cq->lock, NULL);
	cq->channel = channel_take(nic);
	if (!cq->channel) {
		error = errno;
		log_error("no completion channel: %s%s", strerror(error),
			  error == EMFILE ? " (see ulimit -n)" : "");
		goto free_cq;
	}
	cq->device_cq = nic->device->ops->cq_create(
		nic->device, cq, cq->channel->device_channel, entries, &capacity);
	if (!cq->device_cq) {
		error = errno;
		goto release_channel;
	}
	atomic_store(&cq->capacity, capacity);
	if (is_public && object_publish(&cq->object, OBJECT_CQ))
		goto destroy_device_cq;
	LIST_INSERT_HEAD(&nic->cqs, cq, in_nic);
	return cq;

destroy_device_cq:
	nic->device->ops->cq_destroy(cq->device_cq);
release_channel:
	channel_release(nic, cq->channel);
free_cq:
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	errno = error;
	return NULL;
}

void cq_destroy(struct cq *cq)
{
	LIST_REMOVE(cq, in_nic);
	cq->nic->device->ops->cq_destroy(cq->device_cq);
	channel_release(cq->nic, cq->channel);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
}

/* Receives may stay for ever: they leave room for sends, which complete by themselves. */
static unsigned share(struct cq *cq, unsigned capacity, bool is_receive)
{
	bool shared = is_receive && atomic_load_explicit(&cq->has_sends, memory_order_relaxed);

	return shared ? capacity - capacity / 4 : capacity;
}

bool cq_is_full(struct cq *cq, bool is_receive)
{
	return atomic_load(&cq->outstanding) >= share(cq, atomic_load(&cq->capacity), is_receive);
}

bool cq_reserve(struct cq *cq, bool is_receive)
{
	unsigned before = atomic_fetch_add(&cq->outstanding, 1);
	unsigned capacity = atomic_load_explicit(&cq->capacity, memory_order_relaxed);

	if (before < share(cq, capacity, is_receive))
		return true;
	pthread_mutex_lock(&cq->lock);
	capacity = atomic_load(&cq->capacity);
	if (before >= share(cq, capacity, is_receive) &&
	    !cq->nic->device->ops->cq_grow(cq->nic->device, cq->device_cq, 2 * capacity,
					  &capacity))
		atomic_store(&cq->capacity, capacity);
	pthread_mutex_unlock(&cq->lock);
	if (before < share(cq, capacity, is_receive))
		return true;
	atomic_fetch_sub(&cq->outstanding, 1);
	return false;
}

void cq_retry_starved(struct cq *cq)
{
	struct workqueue *queue;

	while ((queue = TAILQ_FIRST(&cq->starved))) {
		TAILQ_REMOVE(&cq->starved, queue, in_starved);
		queue->is_starved = false;
		workqueue_call_attention(queue);
	}
}

bool cq_poll_locked(struct cq *cq)
{
	if (cq->nic->device->ops->cq_poll(cq->device_cq) <= 0)
		return false;
	cq_retry_starved(cq);
	return true;
}

void cq_kick(struct cq *cq)
{
	if (atomic_load(&cq->waiters))
		channel_kick(cq->channel, cq);
}

static struct workqueue *next_attention(struct cq *cq)
{
	struct workqueue *queue;

	pthread_mutex_lock(&cq->lock);
	queue = TAILQ_FIRST(&cq->attention);
	if (queue) {
		TAILQ_REMOVE(&cq->attention, queue, in_attention);
		queue->wants_attention = false;
	}
	pthread_mutex_unlock(&cq->lock);
	return queue;
}

void cq_attend_locked(struct cq *cq)
{
	struct workqueue *queue;

	while ((queue = next_attention(cq))) {
		if (atomic_load(&queue->vi->broken))
			vi_break(queue->vi, VIP_ERROR_CONN_LOST);
		else
			workqueue_feed(queue);
	}
}

bool cq_serve(struct cq *cq, bool *progress)
{
	bool starved, polled = false;

	pthread_mutex_lock(&cq->lock);
	if (!TAILQ_EMPTY(&cq->starved)) {
		polled = cq_poll_locked(cq);
		cq_retry_starved(cq); /* room may have come without a completion, too */
	}
	pthread_mutex_unlock(&cq->lock);
	cq_attend_locked(cq);
	if (polled) {
		cq_kick(cq);
		*progress = true;
	}
	pthread_mutex_lock(&cq->lock);
	starved = !TAILQ_EMPTY(&cq->starved);
	pthread_mutex_unlock(&cq->lock);
	return starved;
}

void cq_attend(struct cq *cq)
{
	pthread_mutex_lock(&cq->nic->lock);
	cq_attend_locked(cq);
	pthread_mutex_unlock(&cq->nic->lock);
}

void cq_look(struct cq *cq)
{
	bool attention, polled;

	pthread_mutex_lock(&cq->lock);
	polled = cq_poll_locked(cq);
	attention = !TAILQ_EMPTY(&cq->attention);
	pthread_mutex_unlock(&cq->lock);
	if (attention)
		cq_attend(cq);
	if (polled)
		cq_kick(cq);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

VIP_RETURN cq_wait(struct cq *cq, const struct object *owner, VIP_ULONG timeout,
		   VIP_RETURN (*take)(void *argument), void *argument)
{
	int64_t deadline, spin_until;
	VIP_RETURN rc = take(argument);

	if (rc != VIP_NOT_DONE)
		return rc;
	if (!timeout)
		return VIP_TIMEOUT;
	deadline = deadline_after(timeout);
	spin_until = clock_nsec() + config()->spin_usec * INT64_C(1000);
	while (clock_nsec() < spin_until && deadline_left(deadline)) {
		relax();
		rc = take(argument);
		if (rc != VIP_NOT_DONE)
			return rc;
	}

	atomic_fetch_add(&cq->waiters, 1);
	for (;;) {
		uint32_t seen = atomic_load(&cq->announced);

		if (cq->nic->device->ops->cq_arm(cq->device_cq)) {
			rc = VIP_ERROR_RESOURCE;
			break;
		}
		/* What completed before the CQ was armed is not announced. */
		rc = take(argument);
		if (rc != VIP_NOT_DONE)
			break;
		if (object_retired(owner)) {
			rc = VIP_INVALID_PARAMETER;
			break;
		}
		if (!channel_wait(cq->channel, cq, seen, deadline)) {
			rc = take(argument);
			if (rc == VIP_NOT_DONE)
				rc = VIP_TIMEOUT;
			break;
		}
	}
	atomic_fetch_sub(&cq->waiters, 1);
	return rc;
}

struct cq_taking {
	struct cq *cq;
	VIP_VI_HANDLE *vi;
	VIP_BOOLEAN *is_receive;
};

static VIP_RETURN cq_take(void *argument)
{
	struct cq_taking *taking = argument;
	struct cq *cq = taking->cq;
	struct workqueue *queue;
	bool attention, polled;

	pthread_mutex_lock(&cq->lock);
	polled = TAILQ_EMPTY(&cq->ready) && cq_poll_locked(cq);
	queue = TAILQ_FIRST(&cq->ready);
	if (queue) {
		*taking->vi = object_handle(&queue->vi->object);
		*taking->is_receive = queue->is_receive ? VIP_TRUE : VIP_FALSE;
		TAILQ_REMOVE(&cq->ready, queue, in_ready);
		queue->is_ready = --queue->untold > 0;
		if (queue->is_ready) /* behind the others: each VI gets its turn */
			TAILQ_INSERT_TAIL(&cq->ready, queue, in_ready);
	}
	attention = !TAILQ_EMPTY(&cq->attention);
	pthread_mutex_unlock(&cq->lock);

	if (attention)
		cq_attend(cq);
	if (polled) /* what others wait for may be among it */
		cq_kick(cq);
	return queue ? VIP_SUCCESS : VIP_NOT_DONE;
}

static struct cq *cq_get(VIP_CQ_HANDLE handle)
{
	return object_get(handle, OBJECT_CQ);
}

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
	VIP_RETURN rc = VIP_ERROR_RESOURCE;
	struct nic *nic = nic_get(NicHandle);
	struct cq *cq;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	if (!CQHandle || !EntryCount) {
		rc = VIP_INVALID_PARAMETER;
		goto put_nic;
	}
	if (EntryCount > nic->attributes.MaxCQEntries)
		goto put_nic;
	pthread_mutex_lock(&nic->lock);
	/* EntryCount is a hint: programs ask for 1 and have dozens of descriptors on many VIs. */
	cq = cq_create(nic, EntryCount > CQ_ENTRIES ? (unsigned)EntryCount : CQ_ENTRIES, true);
	if (cq) {
		*CQHandle = object_handle(&cq->object);
		rc = VIP_SUCCESS;
	}
	pthread_mutex_unlock(&nic->lock);
put_nic:
	nic_put(nic);
	return rc;
}

/* Makes the handle invalid, if no VI uses the CQ. */
static VIP_RETURN retire(struct cq *cq)
{
	VIP_RETURN rc = VIP_SUCCESS;

	pthread_mutex_lock(&cq->nic->lock);
	if (cq->queues)
		rc = VIP_ERROR_RESOURCE;
	else if (!object_retire(&cq->object))
		rc = VIP_INVALID_PARAMETER;
	pthread_mutex_unlock(&cq->nic->lock);
	return rc;
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle)
{
	VIP_RETURN rc = VIP_INVALID_PARAMETER;
	struct cq *cq = cq_get(CQHandle);
	struct nic *nic;

	if (!cq)
		return rc;
	nic = cq->nic;
	if (!object_hold(&nic->object)) /* being closed, with all its CQs */
		goto put_cq;
	rc = retire(cq);
	if (rc != VIP_SUCCESS) {
		nic_put(nic);
		goto put_cq;
	}
	channel_kick(cq->channel, cq);
	object_drain(&cq->object, 1);
	pthread_mutex_lock(&nic->lock);
	cq_destroy(cq);
	pthread_mutex_unlock(&nic->lock);
	nic_put(nic);
	return rc;

put_cq:
	object_put(&cq->object);
	return rc;
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
	struct cq_taking taking = {cq_get(CQHandle), ViHandle, RecvQueue};
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!taking.cq)
		return rc;
	if (ViHandle && RecvQueue)
		rc = cq_take(&taking);
	object_put(&taking.cq->object);
	return rc;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
		     VIP_BOOLEAN *RecvQueue)
{
	struct cq_taking taking = {cq_get(CQHandle), ViHandle, RecvQueue};
	VIP_RETURN rc = VIP_INVALID_PARAMETER;

	if (!taking.cq)
		return rc;
	if (ViHandle && RecvQueue)
		rc = cq_wait(taking.cq, &taking.cq->object, Timeout, cq_take, &taking);
	object_put(&taking.cq->object);
	return rc;
}
