/* SPDX-License-Identifier: BSD-2-Clause */
#include "local_peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loopback/loopback.h"

bool local_describe(struct description *own, bool accepts)
{
	const struct path_description path = {.domain = 1};
	struct region_entries *regions;
	struct link *link;

	memset(own, 0, sizeof(*own));
	memcpy(own->bytes, &path, sizeof(path));
	regions = region_entries_create(&own->fds[0]);
	if (!regions)
		return false;
	munmap(regions, sizeof(*regions));
	own->fd_count = 1;
	if (!accepts)
		return true;
	link = link_create(&own->fds[1]);
	if (!link)
		return false;
	link_unmap(link);
	own->fd_count = 2;
	return true;
}

struct hostile_peer {
	struct peer_files files;
	struct link *link;
	struct cq_page *page;
	uint32_t queue;
	uint32_t written;
};

struct hostile_peer *hostile_peer_open(const void *description, int page_fd, int link_fd)
{
	struct hostile_peer *peer = calloc(1, sizeof(*peer));
	struct path_description path;

	memcpy(&path, description, sizeof(path));
	peer->page = peer_file_map(&peer->files, page_fd, sizeof(struct cq_page), PROT_READ | PROT_WRITE);
	peer->link = link_map(link_fd);
	peer->queue = path.queue - 1;
	if (peer->link && peer->page)
		return peer;
	hostile_peer_close(peer);
	return NULL;
}

void hostile_peer_close(struct hostile_peer *peer)
{
	if (peer->link)
		link_unmap(peer->link);
	peer_file_unmap(&peer->files, peer->page);
	free(peer);
}

void hostile_peer_publish(struct hostile_peer *peer, uint32_t stamp, bool in_ring)
{
	struct lane *out = &peer->link->lanes[0];
	struct lane_message *message = &out->messages[peer->written & (LANE_MESSAGES - 1)];

	message->kind = in_ring ? MESSAGE_IN_RING : MESSAGE_INLINED;
	message->length = 0;
	message->stamp = stamp;
	atomic_store(&message->number, ++peer->written);
}

void hostile_peer_copies(struct hostile_peer *peer, bool is_in_copy)
{
	if ((atomic_load(&peer->link->lanes[0].busy) & 1) != is_in_copy)
		atomic_fetch_add(&peer->link->lanes[0].busy, 1);
}

bool hostile_peer_sees_closed(const struct hostile_peer *peer)
{
	return atomic_load(&peer->link->lanes[0].closed);
}

void hostile_peer_violate(struct hostile_peer *peer)
{
	struct lane_message *message = &peer->link->lanes[0].messages[peer->written & (LANE_MESSAGES - 1)];

	message->kind = UINT8_MAX;
	atomic_store(&message->number, ++peer->written);
	hostile_peer_announce(peer);
}

uint32_t hostile_peer_published(const struct hostile_peer *peer)
{
	return peer->written;
}

uint32_t hostile_peer_consumed(const struct hostile_peer *peer)
{
	return atomic_load(&peer->link->lanes[0].consumed);
}

void hostile_peer_announce(struct hostile_peer *peer)
{
	cq_page_arrived(peer->page, peer->queue);
}

uint32_t hostile_peer_stamp(struct hostile_peer *peer)
{
	return cq_page_stamp(peer->page);
}

uint32_t hostile_peer_counter(const struct hostile_peer *peer)
{
	return atomic_load(&peer->page->stamp);
}

void hostile_peer_set_counter(struct hostile_peer *peer, uint32_t value)
{
	atomic_store(&peer->page->stamp, value);
}

void hostile_peer_set_bits(struct hostile_peer *peer, uint32_t bits)
{
	for (unsigned i = 0; i < PAGE_WORDS; i++)
		atomic_store(&peer->page->arrived[i], bits);
	atomic_store(&peer->page->summary, bits);
}

void hostile_peer_clear_waits(struct hostile_peer *peer)
{
	atomic_store(&peer->page->waits, 0);
}

bool hostile_peer_is_to_wake(const struct hostile_peer *peer)
{
	return atomic_load(&peer->page->waits) & WAIT_IN_AGENT;
}
