/* SPDX-License-Identifier: BSD-2-Clause */
/* A VI's end of a connection: creation, what the ends tell each other of their data path (docs/LOOPBACK.md), and states. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/own_memory.h"
#include "base/pages.h"
#include "order.h"

#define HOLDERS_NSEC 50000 /* a thread rests so long while others have the endpoint */

_Static_assert(RECEIVE_DEPTH <= LANE_RECEIVES, "there is a place for each in the lane");
_Static_assert(SEND_DEPTH <= SEND_STAMPS, "there is a stamp for each");

void endpoint_lock(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *first = endpoint->send_cq, *second = endpoint->receive_cq;

	workqueue_lock(endpoint->send_queue);
	workqueue_lock(endpoint->receive_queue);
	/* Ordered by the address of struct cq, where the locks are: this memory stays. */
	if ((uintptr_t)first->cq > (uintptr_t)second->cq) {
		first = endpoint->receive_cq;
		second = endpoint->send_cq;
	}
	cq_lock(first->cq);
	if (second != first)
		cq_lock(second->cq);
}

void endpoint_unlock(struct loopback_endpoint *endpoint)
{
	cq_unlock(endpoint->send_cq->cq);
	if (endpoint->receive_cq != endpoint->send_cq)
		cq_unlock(endpoint->receive_cq->cq);
	workqueue_unlock(endpoint->receive_queue);
	workqueue_unlock(endpoint->send_queue);
}

/* 0 or errno. */
static int join_cqs(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *send_cq = endpoint->send_cq, *receive_cq = endpoint->receive_cq;
	int error = 0;

	endpoint->sending = (struct loopback_source){.endpoint = endpoint};
	endpoint->receiving = (struct loopback_source){.endpoint = endpoint, .is_receive = true};
	if (send_cq->page)
		error = order_join(send_cq, &endpoint->sending);
	if (error)
		return error;
	if (receive_cq->page)
		error = order_join(receive_cq, &endpoint->receiving);
	if (error) {
		if (send_cq->page)
			order_leave(send_cq, &endpoint->sending);
		return error;
	}
	endpoint_lock(endpoint);
	if (!send_cq->page)
		LIST_INSERT_HEAD(&send_cq->senders, endpoint, in_send_cq);
	if (!receive_cq->page)
		LIST_INSERT_HEAD(&receive_cq->receivers, endpoint, in_receive_cq);
	endpoint_unlock(endpoint);
	return 0;
}

static void leave_cqs(struct loopback_endpoint *endpoint)
{
	struct loopback_cq *send_cq = endpoint->send_cq, *receive_cq = endpoint->receive_cq;

	if (send_cq->page)
		order_leave(send_cq, &endpoint->sending);
	if (receive_cq->page)
		order_leave(receive_cq, &endpoint->receiving);
	endpoint_lock(endpoint);
	if (!send_cq->page)
		LIST_REMOVE(endpoint, in_send_cq);
	if (!receive_cq->page)
		LIST_REMOVE(endpoint, in_receive_cq);
	endpoint_unlock(endpoint);
}

struct device_endpoint *loopback_endpoint_create(struct device *device,
						 struct endpoint_config *config)
{
	struct loopback_endpoint *endpoint = aligned_create(CACHE_LINE, sizeof(*endpoint));
	int error;

	if (!endpoint)
		return NULL;
	endpoint->arrays = pages_allocate(sizeof(*endpoint->arrays));
	endpoint->device = (struct loopback_device *)device;
	endpoint->vi = config->vi;
	endpoint->domain = (struct loopback_domain *)config->domain;
	endpoint->send_queue = config->send_queue;
	endpoint->receive_queue = config->receive_queue;
	endpoint->send_cq = (struct loopback_cq *)config->send_cq;
	endpoint->receive_cq = (struct loopback_cq *)config->receive_cq;
	endpoint->link_fd = endpoint->socket = -1;
	/*
	 * A VI takes no descriptor before it is connected. But a server that creates one for each request shall learn that it has too
	 * few while it can still hear requests, and refuse them: a request takes a socket, and what comes with it.
	 */
	error = endpoint->arrays ? fd_check_room(1 + DESCRIPTION_FDS) : errno;
	if (!error)
		error = join_cqs(endpoint);
	if (!error)
		return (struct device_endpoint *)endpoint;
	log_error_ratelimited("cannot create a VI: %s", failure(error));
	pages_free(endpoint->arrays, sizeof(*endpoint->arrays));
	aligned_free(endpoint);
	return NULL;
}

void loopback_endpoint_destroy(struct device_endpoint *base)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;

	loopback_endpoint_reset(base);
	leave_cqs(endpoint);
	pages_free(endpoint->arrays, sizeof(*endpoint->arrays));
	aligned_free(endpoint);
}

/* ---- connecting ---- */

void endpoint_set_careful(struct loopback_endpoint *endpoint, bool is_careful)
{
	uint32_t most = endpoint->own.max_transfer < MESSAGE_INLINE ? endpoint->own.max_transfer : MESSAGE_INLINE;

	endpoint->is_careful = is_careful;
	endpoint->short_most = is_careful ? 0 : most;
}

bool endpoint_attach(struct loopback_endpoint *endpoint, struct link *link, unsigned out_lane)
{
	bool is_published = true;

	endpoint_lock(endpoint);
	if (!endpoint->receive_cq->page)
		loopback_cq_rouse(endpoint->receive_cq);
	endpoint->link = link;
	endpoint->out = &link->lanes[out_lane];
	endpoint->in = &link->lanes[!out_lane];
	endpoint->out_known = endpoint->in_known = endpoint->posting_known = link_known();
	endpoint->short_receive = endpoint->own.reliability == VIP_SERVICE_RELIABLE_RECEPTION ? 0 : LANE_SHORT;
	endpoint->shares = endpoint->peer_page || endpoint->send_cq->page;
	endpoint_set_careful(endpoint, own_memory_may_be_protected());
	endpoint->peer_waits = endpoint->peer_page ? &endpoint->peer_page->waits
						   : &endpoint->out->receiver_waits;
	/* The CQ may have been armed before there was a lane, so the first message wakes the agent in any case. */
	atomic_store(&endpoint->in->receiver_waits, WAIT_IN_AGENT);
	if (endpoint->receive_cq->page)
		atomic_fetch_or(&endpoint->receive_cq->page->waits, WAIT_IN_AGENT);
	endpoint->publish_limit = 0;
	for (uint32_t i = 0; is_published && i != atomic_load(&endpoint->posted); i++)
		is_published = loopback_publish(endpoint, i);
	endpoint->rx_stopped = !is_published; /* there may be no memory for messages either */
	endpoint_unlock(endpoint);

	pthread_mutex_lock(&endpoint->device->lock);
	atomic_store(&endpoint->is_closing, false);
	endpoint->access = (struct peer_access){0};
	LIST_INSERT_HEAD(&endpoint->device->linked, endpoint, in_linked);
	pthread_mutex_unlock(&endpoint->device->lock);
	loopback_progress_link(endpoint);
	return is_published;
}

/* The descriptors: the region table; if the receive queue has one, its CQ's page; from the accepting end also the link. */
void loopback_describe(struct device_endpoint *base, struct description *own)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	const struct nonce_page *page = endpoint->device->nonce_page;
	struct path_description path = {
		.domain = endpoint->domain->number,
		.queue = endpoint->receive_cq->page ? endpoint->queue + 1 : 0,
	};

	if (page) {
		path.nonce_address = (uintptr_t)page->nonce;
		memcpy(path.nonce, page->nonce, sizeof(path.nonce));
	}
	memcpy(own->bytes, &path, sizeof(path));
	own->fds[own->fd_count++] = endpoint->device->regions_file.fd;
	if (path.queue)
		own->fds[own->fd_count++] = endpoint->receive_cq->page_file.fd;
	if (endpoint->link_fd >= 0) {
		own->fds[own->fd_count++] = own->sent_fd = endpoint->link_fd;
		endpoint->link_fd = -1;
	}
}

/* Takes all that the peer says, except for the link. 0 or errno. */
static int adopt_peer(struct loopback_endpoint *endpoint, const struct path_description *path,
		      const struct description *peer)
{
	struct peer_files *files = &endpoint->device->peer_files;

	if (path->queue > PAGE_QUEUES || peer->fd_count < (path->queue ? 2 : 1))
		return EPROTO;
	endpoint->peer_regions = peer_file_map(files, peer->fds[0], sizeof(struct region_entries), PROT_READ);
	if (!endpoint->peer_regions)
		return errno;
	endpoint->peer_queue = path->queue - 1;
	if (path->queue)
		endpoint->peer_page = peer_file_map(files, peer->fds[1], sizeof(struct cq_page), PROT_READ | PROT_WRITE);
	if (path->queue && !endpoint->peer_page)
		return errno;
	endpoint->peer_domain = path->domain;
	if (config()->lo_copy == LO_COPY_DIRECT)
		endpoint->peer_memory = peer_memory_open(endpoint->device, peer->process,
							 path->nonce_address, path->nonce);
	return 0;
}

int loopback_raise(struct device_endpoint *base, bool accepts, const struct connect_info *own,
		   const struct connect_info *peer, struct description *description)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	struct path_description path;
	struct link *link;
	int error;

	memcpy(&path, description->bytes, sizeof(path));
	endpoint->own = *own;
	endpoint->peer = *peer;
	endpoint->socket = description->socket;
	error = adopt_peer(endpoint, &path, description);
	if (error)
		return error;
	if (accepts)
		link = link_create(&endpoint->link_fd);
	else if (description->fd_count == (path.queue ? 3u : 2u))
		link = link_map(description->fds[path.queue ? 2 : 1]);
	else
		return EPROTO;
	if (!link)
		return errno;
	return endpoint_attach(endpoint, link, accepts) ? 0 : ENOMEM;
}

/* ---- the end ---- */

/* The peer may have said why it ends the connection, or may have just ended it. */
static void tell_cause(struct loopback_endpoint *endpoint)
{
	static const VIP_ERROR_CODE causes[] = {
		[END_NO_RECEIVE] = VIP_ERROR_RECVQ_EMPTY,
		[END_WRITE_REFUSED] = VIP_ERROR_RDMAW_PROT,
		[END_READ_REFUSED] = VIP_ERROR_RDMAR_PROT,
	};
	uint32_t end = atomic_load_explicit(&endpoint->in->end, memory_order_acquire);

	if (end && end < sizeof(causes) / sizeof(causes[0]))
		vi_ends_for(endpoint->vi, causes[end]);
	else if (atomic_load(&endpoint->out->closed))
		vi_closed(endpoint->vi);
}

void loopback_endpoint_stop(struct device_endpoint *base)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	struct loopback_cq *send_cq = endpoint->send_cq, *receive_cq = endpoint->receive_cq;

	/* Flushed descriptors get a stamp after those that are done. No poll completes anything in between. */
	endpoint_lock(endpoint);
	if (send_cq->page)
		atomic_store(&endpoint->sending.end, cq_page_stamp(send_cq->page));
	if (receive_cq->page)
		atomic_store(&endpoint->receiving.end, cq_page_stamp(receive_cq->page));
	atomic_store(&endpoint->stopped, true);
	endpoint_unlock(endpoint);
	order_call(send_cq, &endpoint->sending);
	order_call(receive_cq, &endpoint->receiving);
	if (endpoint->in)
		tell_cause(endpoint);
}

/* No thread posts, and only the caller has the link. */
static void forget_link(struct loopback_endpoint *endpoint)
{
	const size_t first = offsetof(struct loopback_endpoint, stopped), end = offsetof(struct loopback_endpoint, arrays);

	if (endpoint->link)
		loopback_cq_rouse(endpoint->receive_cq); /* the word goes, or the peer has cleared its bit, and has woken nobody */
	if (endpoint->is_listed)
		LIST_REMOVE(endpoint, in_pending);
	memset((char *)endpoint + first, 0, end - first);
	endpoint->socket = -1;
}

void loopback_endpoint_reset(struct device_endpoint *base)
{
	struct loopback_endpoint *endpoint = (struct loopback_endpoint *)base;
	struct loopback_device *device = endpoint->device;
	const struct region_entries *regions = endpoint->peer_regions;
	struct peer_memory *memory = endpoint->peer_memory;
	struct cq_page *page = endpoint->peer_page;
	struct link *link = endpoint->link;

	if (link)
		loopback_progress_unlink(endpoint);
	pthread_mutex_lock(&device->lock);
	/* These wait for plain copies at most, because after loopback_endpoint_is_still() no thread is in another one. */
	while (endpoint->holders) {
		pthread_mutex_unlock(&device->lock);
		futex_rest(HOLDERS_NSEC); /* they may have a lower priority, and wait for this processor */
		pthread_mutex_lock(&device->lock);
	}
	/* A deregistration waits for the copies of endpoints in the list, so one that leaves it must have ended its copies. */
	if (link)
		LIST_REMOVE(endpoint, in_linked);
	endpoint_lock(endpoint);
	forget_link(endpoint);
	endpoint_unlock(endpoint);
	pthread_mutex_unlock(&device->lock);
	endpoint_forget_news(endpoint);
	if (endpoint->link_fd >= 0)
		close(endpoint->link_fd);
	endpoint->link_fd = -1;
	if (link)
		link_unmap(link);
	peer_memory_close(memory);
	peer_file_unmap(&device->peer_files, regions);
	peer_file_unmap(&device->peer_files, page);
}
