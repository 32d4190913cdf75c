/* SPDX-License-Identifier: BSD-2-Clause */
/* The device under test, and the steps of a connection as libvipl/core takes them. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "lane.h"

#define MOST_POLLS 64

struct world world;

bool world_poll(struct cq *cq)
{
	int reported;

	cq_lock(cq);
	cq->told = 0;
	reported = world.device->ops->cq_poll(cq->device);
	check(reported == cq->told);
	cq_unlock(cq);
	memory_check();
	for (unsigned i = 0; i < VIS; i++)
		peer_check(&world.vis[i]);
	return reported;
}

/* Polls until no completion is left, since one poll reports a limited number. */
static void poll_both(struct vi *vi)
{
	for (unsigned i = 0; i < MOST_POLLS && world_poll(vi->send_cq); i++)
		;
	for (unsigned i = 0; i < MOST_POLLS && world_poll(vi->receive_cq); i++)
		;
}

static void check_told(struct vi *vi)
{
	struct loopback_endpoint *endpoint = endpoint_of(vi);

	if (vi->state != VI_LINKED || endpoint->rx_stopped || vi->stopped)
		return;
	poll_both(vi);
	check(endpoint->rx_stopped || !next_message(endpoint));
}

void world_check_told(void)
{
	struct cq_page *page;

	for (unsigned i = 0; i < VIS; i++) {
		page = world.vis[i].peer.page;
		if (page)
			atomic_store(&page->waits, 0); /* no peer rings the bell any more */
	}
	/* By the first round the device learns that the program polls. */
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned v = 0; v < VIS; v++)
			if (world.vis[v].state == VI_LINKED)
				poll_both(&world.vis[v]);
		fuzz_tick();
		watch_serve(world.device->event_fd);
	}
	for (unsigned i = 0; i < VIS; i++)
		check_told(&world.vis[i]);
}

static struct cq *cq_for(enum sharing sharing, unsigned vi, bool is_receive)
{
	if (sharing == ONE_CQ)
		return &world.cqs[0];
	/*
	 * With two CQs, the second VI has them the other way round. The device must still lock them
	 * in one order.
	 */
	return &world.cqs[sharing == TWO_CQS ? vi ^ is_receive : 2 * vi + is_receive];
}

void world_create(enum sharing sharing)
{
	unsigned capacity;
	int fd;

	memset(world.regions, 0, sizeof(world.regions));
	check(!loopback_device_ops.open(NULL, 0, (struct nic *)&world, &world.device));
	for (unsigned i = 0; i < DOMAINS; i++) {
		world.domains[i] = world.device->ops->domain_create(world.device);
		check(world.domains[i]);
	}
	world.channel = world.device->ops->channel_create(world.device, &fd);
	check(world.channel);
	world.cq_count = sharing == OWN_CQS ? CQS : 2;
	for (unsigned i = 0; i < CQS; i++)
		world.cqs[i] = (struct cq){0};
	for (unsigned i = 0; i < world.cq_count; i++) {
		world.cqs[i].device = world.device->ops->cq_create(world.device, &world.cqs[i],
								   world.channel,
								   sharing != OWN_CQS, 64,
								   &capacity);
		check(world.cqs[i].device);
		check(capacity >= 64);
	}
	for (unsigned i = 0; i < VIS; i++) {
		world.vis[i].send_cq = cq_for(sharing, i, false);
		world.vis[i].receive_cq = cq_for(sharing, i, true);
	}
	memory_reset();
}

static void forget_peer(struct peer *peer)
{
	if (peer->link)
		link_unmap(peer->link);
	if (peer->page)
		cq_page_unmap(peer->page);
	if (peer->own_page)
		cq_page_unmap(peer->own_page);
	peer->link = NULL;
	peer->page = peer->own_page = NULL;
}

static void vi_destroy(struct vi *vi)
{
	if (vi->state == VI_NONE)
		return;
	if (vi->state == VI_LINKED)
		vi_tear_down(vi);
	world.device->ops->endpoint_destroy(vi->endpoint);
	vi->endpoint = NULL;
	vi->state = VI_NONE;
	forget_peer(&vi->peer);
	region_entries_unmap(vi->peer.table);
	close(vi->peer.table_fd);
}

void world_destroy(void)
{
	for (unsigned i = 0; i < VIS; i++)
		vi_destroy(&world.vis[i]);
	for (unsigned i = 0; i < REGIONS; i++)
		memory_deregister(&world.regions[i]);
	for (unsigned i = 0; i < world.cq_count; i++)
		world.device->ops->cq_destroy(world.cqs[i].device);
	world.device->ops->channel_destroy(world.channel);
	for (unsigned i = 0; i < DOMAINS; i++)
		world.device->ops->domain_destroy(world.domains[i]);
	world.device->ops->close(world.device);
	fuzz_forget_timer();
}

void vi_create(struct vi *vi)
{
	struct endpoint_config config = {
		.vi = vi,
		.domain = world.domains[0],
		.send_queue = &vi->send,
		.receive_queue = &vi->receive,
		.send_cq = vi->send_cq->device,
		.receive_cq = vi->receive_cq->device,
		.send_depth = SENDS_MOST,
		.receive_depth = WORK_MOST,
	};

	if (vi->state != VI_NONE)
		return;
	vi->endpoint = world.device->ops->endpoint_create(world.device, &config);
	check(vi->endpoint);
	check(config.send_depth >= 1 && config.receive_depth == WORK_MOST);
	vi->domain = 0;
	vi->state = VI_IDLE;
	vi->stopped = vi->broken = false;
	vi->send.vi = vi->receive.vi = vi;
	vi->send.is_receive = vi->send.locked = vi->receive.locked = false;
	vi->receive.is_receive = true;
	vi->send.head = vi->send.tail = vi->send.checked = 0;
	vi->receive.head = vi->receive.tail = vi->receive.checked = 0;
	vi->peer = (struct peer){0};
	vi->peer.table = region_entries_create(&vi->peer.table_fd);
	check(vi->peer.table);
}

void vi_prepare(struct vi *vi)
{
	if (vi->state != VI_IDLE)
		return;
	check(!world.device->ops->endpoint_prepare(vi->endpoint));
	vi->state = VI_PREPARED;
	vi->stopped = vi->broken = false;
	vi->send.over = vi->receive.over = false;
}

/* Makes the memory of a link. The peer and the device each have a mapping of it. */
static struct link *make_link(struct vi *vi, bool device_makes_it)
{
	struct link *made, *mapped;
	int fd;

	forget_peer(&vi->peer);
	made = link_create(&fd);
	check(made);
	mapped = link_map(fd);
	check(mapped);
	close(fd);
	vi->peer.link = device_makes_it ? mapped : made;
	return device_makes_it ? made : mapped;
}

/* A CQ of several queues has a page. The device's CQ and the peer's may each have one. */
static void make_pages(struct vi *vi, bool peers_is_shared)
{
	struct loopback_cq *cq = (struct loopback_cq *)vi->receive_cq->device;
	struct loopback_endpoint *endpoint = endpoint_of(vi);
	int fd;

	vi->peer.queue = endpoint->queue;
	if (cq->page) {
		vi->peer.page = cq_page_map(cq->page_file.fd);
		check(vi->peer.page);
	}
	if (peers_is_shared) {
		vi->peer.own_page = cq_page_create(&fd);
		check(vi->peer.own_page);
		endpoint->peer_page = cq_page_map(fd);
		check(endpoint->peer_page);
		endpoint->peer_queue = PAGE_QUEUES - 1;
		close(fd);
	}
}

static int dead_socket(void)
{
	int ends[2];

	check(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	close(ends[1]);
	return ends[0];
}

/* A child of this process has it at the same address. */
static const uint8_t nonce[NONCE_BYTES] = "a child's nonce";

static pid_t choose_process(unsigned kind)
{
	return kind == 3 ? INT32_MAX : child_process(); /* no process has the greatest number */
}

/* Sets all that a description could say. */
static void introduce(struct loopback_endpoint *endpoint, const struct peer *peer,
		      struct input *input)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {
		VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION,
		VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY};
	uint8_t levels_and_rights = take8(input), rest = take8(input);

	endpoint->own = (struct connect_info){
		.reliability = levels[levels_and_rights & 3],
		.max_transfer = levels_and_rights & 4 ? take_length(input) % TRANSFER_MOST + 1
						      : TRANSFER_MOST,
		.rights = {levels_and_rights & 8, levels_and_rights & 16},
	};
	endpoint->peer.rights =
		(struct region_rights){levels_and_rights & 32, levels_and_rights & 64};
	endpoint->peer_regions = region_entries_map(peer->table_fd);
	check(endpoint->peer_regions);
	endpoint->peer_domain = PEER_DOMAIN;
	/* A peer may name any bell, also the device's own. */
	endpoint->peer_agent_bell = rest & 1 ? endpoint->device->bell_name : 1;
	endpoint->peer_channel_bell =
		rest & 2 ? ((struct loopback_channel *)world.channel)->bell_name : 1;
	if (!(rest & 4))
		endpoint->peer_memory = peer_memory_open(endpoint->device, choose_process(rest >> 3 & 3),
							 (uintptr_t)nonce, nonce);
	endpoint->socket = rest & 32 ? dead_socket() : -1;
}

/*
 * Makes the connection look old: lanes and rings are nearly full, or their counts are about to wrap
 * around.
 */
static void age(struct loopback_endpoint *endpoint, struct peer *peer, struct input *input)
{
	static const uint32_t ages[] = {LANE_MESSAGES - 3, UINT32_MAX - 3,
					UINT32_MAX - LANE_MESSAGES};
	uint8_t flags = take8(input);
	uint32_t messages = ages[(flags & 3) % 3];
	uint64_t bytes = (uint64_t)messages * LANE_RING + take8(input) * (LANE_RING / 256);

	atomic_store(&endpoint->read, messages);
	endpoint->written = peer->seen = peer->written = messages;
	endpoint->seen_consumed = messages - (flags & 4 ? LANE_MESSAGES - 2 : 0);
	atomic_store(&peer->out->consumed, endpoint->seen_consumed);
	for (uint32_t i = 0; i < LANE_MESSAGES; i++)
		atomic_store(&peer->in->messages[(messages - 1 - i) & (LANE_MESSAGES - 1)].number,
			     messages - i);
	endpoint->ring_written = endpoint->ring_read = peer->ring_written = bytes;
	endpoint->seen_ring_consumed = bytes - (flags & 8 ? LANE_RING - 0x400 : 0);
	atomic_store(&peer->out->ring_consumed, endpoint->seen_ring_consumed);
	if (atomic_load(&endpoint->posted)) /* receives that are published keep their numbers */
		return;
	endpoint->taken = peer->published = messages;
	endpoint->completed = messages;
	atomic_store(&endpoint->posted, messages);
}

void vi_connect(struct vi *vi, struct input *input)
{
	struct loopback_endpoint *endpoint = endpoint_of(vi);
	unsigned flags = take8(input), out_lane = flags & 1;
	struct peer *peer = &vi->peer;
	struct link *link;

	if (vi->state != VI_PREPARED)
		return;
	introduce(endpoint, peer, input);
	link = make_link(vi, out_lane);
	make_pages(vi, flags & 4);
	peer->out = &peer->link->lanes[out_lane];
	peer->in = &peer->link->lanes[!out_lane];
	peer->written = peer->published = 0;
	peer->ring_written = 0;
	peer->seen = peer->parts = 0;
	peer->tracked = false;
	peer->is_honest = true;
	endpoint_attach(endpoint, link, out_lane);
	/* The sanitizer handles faults, and the program of an input need not. */
	endpoint_set_careful(endpoint, flags & 8);
	if (flags & 2)
		age(endpoint, peer, input);
	vi->state = VI_LINKED;
}

static void recall(struct workqueue *queue)
{
	queue->head = queue->checked = queue->tail;
}

void vi_tear_down(struct vi *vi)
{
	int *socket = &((struct loopback_endpoint *)vi->endpoint)->socket;
	const struct device_ops *ops = world.device->ops;

	poll_both(vi);
	ops->endpoint_stop(vi->endpoint);
	vi->stopped = true;
	poll_both(vi);
	/* All descriptors must be completed: none waits for the peer. */
	check(vi->state != VI_LINKED || !work_count(&vi->send));
	check(vi->state != VI_LINKED || !work_count(&vi->receive));
	ops->endpoint_reset(vi->endpoint);
	recall(&vi->send);
	recall(&vi->receive);
	vi->state = VI_IDLE;
	poll_both(vi); /* a completion would fail a check, since nothing is posted */
	if (*socket > 0)
		close(*socket);
	*socket = -1;
}
