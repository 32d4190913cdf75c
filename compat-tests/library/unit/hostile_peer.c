/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile_peer.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "connect/message.h"
#include "local_socket.h"
#include "loopback/describe.h"
#include "loopback/loopback.h"

#define PATIENCE_MSEC 8000

struct hostile_peer {
	int fd;
	struct link *link;
	struct cq_page *page;
	uint32_t queue;
	uint32_t written;
};

/* The server may begin to wait later. */
static bool find(int fd, const struct discriminator *wanted)
{
	const int64_t end = deadline_after(PATIENCE_MSEC);

	do {
		struct place at[PLACE_ADDRESSES];

		loopback_place(NULL, NULL, wanted, 0, at);
		if (!connect(fd, (struct sockaddr *)&at->address, at->length))
			return true;
		poll(NULL, 0, 1);
	} while (clock_nsec() < end);
	return false;
}

static bool say(int fd, enum message_code code, const struct connect_info *own, const struct discriminator *wanted,
		const struct description *description)
{
	struct message message;

	message_write(&message, LOOPBACK_VERSION, code, own, wanted, description);
	return local_socket_send(fd, &message, sizeof(message), description ? description->fds : NULL,
				 description ? description->fd_count : 0);
}

/* The region table is empty: no other process copies to or from this peer. */
static bool ask(int fd, const struct discriminator *wanted, uint16_t reliability,
		uint32_t max_transfer)
{
	const struct connect_info own = {.reliability = reliability, .max_transfer = max_transfer};
	struct description description = {.fd_count = 1};
	struct region_entries *regions;
	bool is_sent;

	regions = region_entries_create(&description.fds[0]);
	if (!regions)
		return false;
	is_sent = say(fd, MESSAGE_REQUEST, &own, wanted, &description);
	region_entries_unmap(regions);
	close(description.fds[0]);
	return is_sent;
}

/* The code of the next message, or 0. */
static int hear(int fd, struct message *message, int fds[DESCRIPTION_FDS], unsigned *count)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	if (poll(&readable, 1, PATIENCE_MSEC) != 1 ||
	    local_socket_receive(fd, message, sizeof(*message), fds, DESCRIPTION_FDS, count) != sizeof(*message))
		return 0;
	return message_look(message, sizeof(*message), LOOPBACK_VERSION);
}

static bool take_answer(struct hostile_peer *peer)
{
	int fds[DESCRIPTION_FDS];
	struct path_description path;
	struct message message;
	unsigned count;

	if (hear(peer->fd, &message, fds, &count) != MESSAGE_HERE ||
	    hear(peer->fd, &message, fds, &count) != MESSAGE_ACCEPT || count != DESCRIPTION_FDS)
		return false; /* no other answer has descriptors with it */
	memcpy(&path, message.description, sizeof(path));
	peer->page = cq_page_map(fds[1]);
	peer->link = link_map(fds[2]);
	peer->queue = path.queue - 1;
	while (count)
		close(fds[--count]);
	return peer->link && peer->page;
}

struct hostile_peer *hostile_peer_ask(const char *name, uint16_t reliability, uint32_t max_transfer)
{
	struct discriminator wanted = {.length = (uint8_t)strlen(name)};
	struct hostile_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	memcpy(wanted.bytes, name, wanted.length);
	peer->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (find(peer->fd, &wanted) && ask(peer->fd, &wanted, reliability, max_transfer) &&
	    take_answer(peer))
		return peer;
	hostile_peer_end(peer);
	return NULL;
}

bool hostile_peer_confirm(struct hostile_peer *peer)
{
	return say(peer->fd, MESSAGE_CONFIRM, NULL, NULL, NULL);
}

struct hostile_peer *hostile_peer_connect(const char *name, uint32_t max_transfer)
{
	struct hostile_peer *peer =
		hostile_peer_ask(name, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer);

	if (!peer || hostile_peer_confirm(peer))
		return peer;
	hostile_peer_end(peer);
	return NULL;
}

void hostile_peer_end(struct hostile_peer *peer)
{
	close(peer->fd);
	if (peer->link)
		link_unmap(peer->link);
	if (peer->page)
		cq_page_unmap(peer->page);
	free(peer);
}

static void publish(struct hostile_peer *peer, enum message_kind kind, uint32_t stamp)
{
	struct lane *out = &peer->link->lanes[0];
	struct lane_message *message = &out->messages[peer->written & (LANE_MESSAGES - 1)];

	message->kind = (uint8_t)kind;
	message->length = 0;
	message->stamp = stamp;
	atomic_store(&message->number, ++peer->written);
}

void hostile_peer_publish(struct hostile_peer *peer, uint32_t stamp)
{
	publish(peer, MESSAGE_INLINED, stamp);
}

void hostile_peer_publish_in_ring(struct hostile_peer *peer, uint32_t stamp)
{
	publish(peer, MESSAGE_IN_RING, stamp);
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

static void write_bits(struct cq_page *page, uint32_t bits)
{
	for (unsigned i = 0; i < PAGE_WORDS; i++)
		atomic_store(&page->arrived[i], bits);
	atomic_store(&page->summary, bits);
}

void hostile_peer_set_all_bits(struct hostile_peer *peer)
{
	write_bits(peer->page, UINT32_MAX);
}

void hostile_peer_clear_bits(struct hostile_peer *peer)
{
	write_bits(peer->page, 0);
}

void hostile_peer_clear_waits(struct hostile_peer *peer)
{
	atomic_store(&peer->page->waits, 0);
}
