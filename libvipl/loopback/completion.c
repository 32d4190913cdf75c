/* Completion queues, and the channels on which they are announced. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "loopback.h"

#define CQ_CAPACITY (1u << 30) /* entries are kept nowhere, so there is room for any number */

struct device_channel *loopback_channel_create(struct device *base, int *fd)
{
	struct loopback_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->device = (struct loopback_device *)base;
	channel->bell_fd = bell_create(&channel->bell_name);
	if (channel->bell_fd < 0) {
		free(channel);
		return NULL;
	}
	pthread_mutex_init(&channel->lock, NULL);
	*fd = channel->bell_fd;
	return (struct device_channel *)channel;
}

void loopback_channel_destroy(struct device_channel *base)
{
	struct loopback_channel *channel = (struct loopback_channel *)base;

	close(channel->bell_fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
}

void loopback_channel_read(struct device_channel *base, bool all)
{
	struct loopback_channel *channel = (struct loopback_channel *)base;
	struct loopback_cq *cq;

	(void)all; /* nobody knows whom it rings for */
	/* Before they look: what comes after their look rings again. */
	bell_drain(channel->bell_fd);
	pthread_mutex_lock(&channel->lock);
	LIST_FOREACH(cq, &channel->cqs, in_channel)
		cq_announced(cq->cq);
	pthread_mutex_unlock(&channel->lock);
}

struct device_cq *loopback_cq_create(struct device *device, struct cq *named,
				     struct device_channel *base, unsigned entries,
				     unsigned *capacity)
{
	struct loopback_channel *channel = (struct loopback_channel *)base;
	struct loopback_cq *cq = calloc(1, sizeof(*cq));

	(void)device;
	(void)entries;
	if (!cq)
		return NULL;
	cq->cq = named;
	cq->channel = channel;
	pthread_mutex_lock(&channel->lock);
	LIST_INSERT_HEAD(&channel->cqs, cq, in_channel);
	pthread_mutex_unlock(&channel->lock);
	*capacity = CQ_CAPACITY;
	return (struct device_cq *)cq;
}

void loopback_cq_destroy(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;

	pthread_mutex_lock(&cq->channel->lock);
	LIST_REMOVE(cq, in_channel);
	pthread_mutex_unlock(&cq->channel->lock);
	free(cq);
}

int loopback_cq_grow(struct device *device, struct device_cq *cq, unsigned entries,
		     unsigned *capacity)
{
	(void)device;
	(void)cq;
	(void)entries;
	(void)capacity;
	return ENOSPC;
}

/* Both looks are short, since most find nothing. */
static inline int look_at_receives(struct loopback_endpoint *endpoint)
{
	if (atomic_load_explicit(&endpoint->stopped, memory_order_acquire))
		return loopback_flush_receives(endpoint);
	if (!endpoint->in || endpoint->deaf || !next_message(endpoint))
		return 0;
	return loopback_consume(endpoint);
}

static inline int look_at_sends(struct loopback_endpoint *endpoint)
{
	/* After a failure there may be something to report although nothing more is finished. */
	if (atomic_load_explicit(&endpoint->finished, memory_order_acquire) == endpoint->reported &&
	    !atomic_load_explicit(&endpoint->is_pending, memory_order_acquire) &&
	    !atomic_load_explicit(&endpoint->failure, memory_order_acquire) &&
	    !atomic_load_explicit(&endpoint->stopped, memory_order_acquire))
		return 0;
	return loopback_report_sends(endpoint);
}

int loopback_cq_poll(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;
	struct loopback_device *device = cq->channel->device;
	struct loopback_endpoint *endpoint;
	int count = 0;

	atomic_store_explicit(&cq->polls,
			      atomic_load_explicit(&cq->polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (!atomic_load_explicit(&device->ticks, memory_order_relaxed))
		progress_start_ticking(device);
	LIST_FOREACH(endpoint, &cq->senders, in_send_cq)
		count += look_at_sends(endpoint);
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		count += look_at_receives(endpoint);
	return count;
}

int loopback_cq_arm(struct device_cq *base)
{
	struct loopback_cq *cq = (struct loopback_cq *)base;
	struct loopback_endpoint *endpoint;

	cq_lock(cq->cq);
	atomic_store_explicit(&cq->armed, true, memory_order_relaxed);
	LIST_FOREACH(endpoint, &cq->receivers, in_receive_cq)
		if (endpoint->in)
			atomic_fetch_or_explicit(&endpoint->in->receiver_waits,
						 WAIT_ON_CHANNEL, memory_order_relaxed);
	cq_unlock(cq->cq);
	/* The caller looks once more after this; who completes something looks at these flags after
	   that. With a fence in between on both sides, at least one of the two sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}
