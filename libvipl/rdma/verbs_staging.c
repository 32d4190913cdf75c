/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Staging: registered memory of the library for messages of more segments than one request takes. A send is gathered there
 * when it is posted. A receive is scattered from there when it is done.
 *
 * A buffer is registered when no unused one fits, and kept afterwards. All buffers of a NIC together are limited; a message
 * that gets none waits in its queue. Few buffers are kept unused, so memory that one VI does not need any more is soon there
 * for another.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/pages.h"
#include "rdma.h"

#define SMALLEST 0x1000u
#define MOST	 0x10000000u
#define KEPT	 0x1000000u
/* Receives may wait for ever. So they leave some memory to sends, which give theirs back soon. */
#define MOST_FOR_RECEIVES (MOST / 4 * 3)

static unsigned size_class(uint32_t length)
{
	unsigned class = 0;

	while (SMALLEST << class < length)
		class++;
	return class;
}

/* What a buffer takes of MOST. Where a device has few regions, messages share those, and not the memory. */
static size_t share_of(const struct verbs_domain *domain, size_t size)
{
	int regions = domain->device->limits.max_mr;
	size_t region = regions > 0 ? MOST / (unsigned)regions : 0;

	return size > region ? size : region;
}

static void destroy_buffer(struct verbs_buffer *buffer)
{
	struct staging *staging = &buffer->domain->device->staging;
	void *data = staging_data(buffer);
	size_t size = buffer->mr->length;
	int error = ibv_dereg_mr(buffer->mr);

	if (error && error != EIO) /* the device is there, and may still use the memory, so it is not freed */
		log_error("cannot release memory for staging: %s", failure_of("ibv_dereg_mr()", error));
	else
		pages_free(data, size);
	pthread_mutex_lock(&staging->lock);
	staging->size -= share_of(buffer->domain, size);
	pthread_mutex_unlock(&staging->lock);
	free(buffer);
}

void staging_destroy(struct verbs_domain *domain)
{
	struct staging *staging = &domain->device->staging;
	struct verbs_buffer *buffer;

	for (unsigned i = 0; i < STAGING_CLASSES; i++)
		while ((buffer = LIST_FIRST(&domain->unused[i]))) {
			LIST_REMOVE(buffer, in_unused);
			pthread_mutex_lock(&staging->lock);
			staging->unused -= share_of(domain, buffer->mr->length);
			pthread_mutex_unlock(&staging->lock);
			destroy_buffer(buffer);
		}
}

/* On pages of its own, because a child of this process may lack registered pages. NULL and errno on failure. */
static struct verbs_buffer *create_buffer(struct verbs_domain *domain, size_t size)
{
	struct verbs_buffer *buffer = zeroed(1, sizeof(*buffer));
	void *data = buffer ? pages_allocate(size) : NULL;
	int error;

	if (data) {
		buffer->domain = domain;
		buffer->mr = ibv_reg_mr(domain->pd, data, size, IBV_ACCESS_LOCAL_WRITE);
		if (buffer->mr)
			return buffer;
		cause_of_memory("ibv_reg_mr()", size, errno);
	}
	error = errno;
	pages_free(data, size);
	free(buffer);
	errno = error;
	return NULL;
}

struct verbs_buffer *staging_take(struct verbs_endpoint *endpoint, uint32_t length, bool is_receive)
{
	struct verbs_domain *domain = endpoint->domain;
	struct staging *staging = &domain->device->staging;
	unsigned class = size_class(length);
	size_t size = (size_t)SMALLEST << class, share = share_of(domain, size), receives = is_receive ? share : 0;
	struct verbs_buffer *buffer = NULL;
	bool allowed, tells;
	int error = 0;

	pthread_mutex_lock(&staging->lock);
	allowed = !is_receive || staging->receives + receives <= MOST_FOR_RECEIVES;
	if (allowed && (buffer = LIST_FIRST(&domain->unused[class]))) {
		LIST_REMOVE(buffer, in_unused);
		staging->unused -= share;
	} else {
		allowed = allowed && staging->size + share <= MOST;
		staging->size += allowed ? share : 0;
	}
	staging->receives += allowed ? receives : 0;
	pthread_mutex_unlock(&staging->lock);
	if (allowed && !buffer) {
		int cancel = cancel_hold(); /* a poster has locks */

		buffer = create_buffer(domain, size);
		error = errno;
		cancel_resume(cancel);
	}
	pthread_mutex_lock(&staging->lock);
	if (buffer) {
		buffer->segment = (struct segment){(uintptr_t)buffer->mr->addr, length, buffer->mr->lkey};
		TAILQ_INSERT_TAIL(&endpoint->staged[is_receive], buffer, in_use);
	} else if (allowed) {
		staging->size -= share;
		staging->receives -= receives;
	}
	tells = !buffer && !staging->told;
	staging->told |= tells;
	pthread_mutex_unlock(&staging->lock);
	if (tells)
		log_warning("staging memory is exhausted, so descriptors of many segments are queued: %s",
			    allowed ? failure(error) : "as much is in use as this NIC may take");
	return buffer;
}

void staging_return(struct verbs_endpoint *endpoint, struct verbs_buffer *buffer, bool is_receive)
{
	struct verbs_domain *domain = buffer->domain;
	struct staging *staging = &domain->device->staging;
	size_t share = share_of(domain, buffer->mr->length);
	bool keep;

	pthread_mutex_lock(&staging->lock);
	TAILQ_REMOVE(&endpoint->staged[is_receive], buffer, in_use);
	if (is_receive)
		staging->receives -= share;
	keep = staging->unused + share <= KEPT;
	if (keep) {
		LIST_INSERT_HEAD(&domain->unused[size_class((uint32_t)buffer->mr->length)], buffer, in_unused);
		staging->unused += share;
	}
	pthread_mutex_unlock(&staging->lock);
	if (!keep)
		destroy_buffer(buffer);
}

static struct verbs_buffer *oldest(struct verbs_endpoint *endpoint, bool is_receive)
{
	struct verbs_buffer *buffer;

	pthread_mutex_lock(&endpoint->device->staging.lock);
	buffer = TAILQ_FIRST(&endpoint->staged[is_receive]);
	pthread_mutex_unlock(&endpoint->device->staging.lock);
	return buffer;
}

bool staging_done(struct verbs_endpoint *endpoint, const struct ibv_wc *completion)
{
	bool is_receive = completion->wr_id & VERBS_WR_ID_RECEIVE, has_place = true;
	struct verbs_buffer *buffer = oldest(endpoint, is_receive);

	if (!buffer) /* the device has completed what was never posted */
		return true;
	if (is_receive && !completion->status && completion->opcode == IBV_WC_RECV)
		has_place = workqueue_scatter(endpoint->receive_queue, 0, staging_data(buffer),
					      completion->byte_len, endpoint->is_careful);
	staging_return(endpoint, buffer, is_receive);
	return has_place;
}

void staging_forget(struct verbs_endpoint *endpoint)
{
	const struct ibv_cq *const cqs[] = {endpoint->wanted_qp.send_cq, endpoint->wanted_qp.recv_cq};
	struct verbs_buffer *buffer;

	for (int is_receive = 0; is_receive < 2; is_receive++) {
		cq_lock(cqs[is_receive]->cq_context); /* a thread may be at a late completion */
		while ((buffer = oldest(endpoint, is_receive)))
			staging_return(endpoint, buffer, is_receive);
		cq_unlock(cqs[is_receive]->cq_context);
	}
}
