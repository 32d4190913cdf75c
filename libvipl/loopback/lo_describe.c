/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ends of a connection tell each other of their data path: docs/LOOPBACK.md. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "loopback.h"

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
	endpoint->peer_page = NULL;
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
