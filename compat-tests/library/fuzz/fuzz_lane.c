/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the data path of the loopback device. An input is a program of steps. Each step is one of the program's, here, or the
 * peer's, at one of two VIs. README.md says how to run it.
 *
 * The process to which the device copies directly only sleeps. So a copy to a wrong address spoils memory that no code uses.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "lane.h"

/* ---- connecting VIs with peers ---- */

uint8_t *child_memory;

static struct peer_files peer_files; /* what the peers have mapped */

/* Another process, whose memory this process may access. It only sleeps. */
static pid_t child_process(void)
{
	static pid_t child;

	if (child && !waitpid(child, NULL, WNOHANG))
		return child;
	if (!child_memory)
		child_memory = mmap(NULL, PEER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(child_memory != MAP_FAILED);
	child = fork();
	check(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(0, ~0u, 0);
		for (;;)
			pause();
	}
	return child;
}

static void peer_forget(struct peer *peer)
{
	if (peer->link)
		link_unmap(peer->link);
	peer_file_unmap(&peer_files, peer->page);
	if (peer->own_page)
		fuzz_munmap(peer->own_page, sizeof(*peer->own_page));
	peer->link = NULL;
	peer->page = peer->own_page = NULL;
}

static void peer_create(struct peer *peer)
{
	*peer = (struct peer){0};
	peer->table = region_entries_create(&peer->table_fd);
	check(peer->table);
}

static void peer_destroy(struct peer *peer)
{
	if (!peer->table)
		return;
	peer_forget(peer);
	fuzz_munmap(peer->table, sizeof(*peer->table));
	close(peer->table_fd);
	peer->table = NULL;
}

/* Makes the memory of a link. The peer and the device each have a mapping of it. */
static struct link *make_link(struct vi *vi, bool device_makes_it)
{
	struct link *made, *mapped;
	int fd;

	peer_forget(&vi->peer);
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
		vi->peer.page = peer_file_map(&peer_files, cq->page_file.fd, sizeof(struct cq_page), PROT_READ | PROT_WRITE);
		check(vi->peer.page);
	}
	if (peers_is_shared) {
		vi->peer.own_page = cq_page_create(&fd);
		check(vi->peer.own_page);
		endpoint->peer_page = peer_file_map(&endpoint->device->peer_files, fd, sizeof(struct cq_page),
						    PROT_READ | PROT_WRITE);
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

/* Sets all that a description could say. */
static void introduce(struct loopback_endpoint *endpoint, const struct peer *peer, struct input *input)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION,
						       VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY};
	uint8_t levels_and_rights = take8(input), rest = take8(input);

	endpoint->own = (struct connect_info){
		.reliability = levels[levels_and_rights & 3],
		.max_transfer = levels_and_rights & 4 ? take_length(input) % TRANSFER_MOST + 1 : TRANSFER_MOST,
		.rights = {levels_and_rights & 8, levels_and_rights & 16},
	};
	endpoint->peer.rights = (struct region_rights){levels_and_rights & 32, levels_and_rights & 64};
	endpoint->peer_regions = peer_file_map(&endpoint->device->peer_files, peer->table_fd, sizeof(struct region_entries),
					       PROT_READ);
	check(endpoint->peer_regions);
	endpoint->peer_domain = PEER_DOMAIN;
	if (!(rest & 4)) {
		pid_t process = (rest >> 3 & 3) == 3 ? INT32_MAX : child_process(); /* no process has the greatest number */

		endpoint->peer_memory = peer_memory_open(endpoint->device, process, (uintptr_t)nonce, nonce);
	}
	endpoint->socket = rest & 32 ? dead_socket() : -1;
}

/* Makes the connection look old: lanes and rings are nearly full, or their counts are about to wrap around. */
static void age(struct loopback_endpoint *endpoint, struct peer *peer, struct input *input)
{
	static const uint32_t ages[] = {LANE_MESSAGES - 3, UINT32_MAX - 3, UINT32_MAX - LANE_MESSAGES};
	uint8_t flags = take8(input);
	uint32_t messages = ages[(flags & 3) % 3];
	uint64_t bytes = (uint64_t)messages * LANE_RING + take8(input) * (LANE_RING / 256);

	atomic_store(&endpoint->read, messages);
	endpoint->written = peer->seen = peer->written = messages;
	endpoint->limit = messages;
	atomic_store(&peer->out->consumed, messages - (flags & 4 ? LANE_MESSAGES - 2 : 0));
	check(lane_bring(endpoint->in, &endpoint->in_known, endpoint->in->messages, sizeof(endpoint->in->messages)));
	for (uint32_t i = 0; i < LANE_MESSAGES; i++)
		atomic_store(&peer->in->messages[(messages - 1 - i) & (LANE_MESSAGES - 1)].number, messages - i);
	endpoint->ring_written = endpoint->ring_read = peer->ring_written = bytes;
	endpoint->ring_limit = 0;
	atomic_store(&peer->out->ring_consumed, bytes - (flags & 8 ? LANE_RING - 0x400 : 0));
	if (atomic_load(&endpoint->posted)) /* receives that are published keep their numbers */
		return;
	endpoint->taken = peer->published = messages;
	endpoint->completed = endpoint->publish_limit = messages;
	atomic_store(&endpoint->posted, messages);
}

static void vi_connect(struct vi *vi, struct input *input)
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
	check(endpoint_attach(endpoint, link, out_lane));
	/* The sanitizer handles faults, and the program of an input need not. */
	endpoint_set_careful(endpoint, flags & 8);
	if (flags & 2)
		age(endpoint, peer, input);
	vi->state = VI_LINKED;
}

void vi_tear_down(struct vi *vi)
{
	const int socket = endpoint_of(vi)->socket;

	vi_stop(vi);
	if (socket >= 0)
		close(socket);
}

/* ---- the program's steps ---- */

static void poll_one(struct vi *vi, struct input *input)
{
	world_poll(take8(input) & 1 ? vi->send_cq : vi->receive_cq);
}

/* Makes the calls by which a thread goes to sleep and is woken, without sleeping. */
static void wait_for(struct vi *vi, struct input *input)
{
	struct cq *cq = take8(input) & 1 ? vi->send_cq : vi->receive_cq;

	check(!world.device->ops->cq_arm(cq->device));
	world_poll(cq);
}

/* A peer may send a wake-up whenever it likes. */
static void serve(struct vi *vi, struct input *input)
{
	(void)input;
	watch_serve(world.device->event_fd);
	if (vi->state == VI_LINKED)
		world.device->ops->woken_by_peer(vi->endpoint);
	world.device->ops->serve(world.device);
}

static void tick(struct vi *vi, struct input *input)
{
	fuzz_tick();
	serve(vi, input);
}

static void register_memory(struct vi *vi, struct input *input)
{
	(void)vi;
	memory_register(&world.regions[take_below(input, REGIONS)], input);
}

static void deregister_memory(struct vi *vi, struct input *input)
{
	(void)vi;
	memory_deregister(&world.regions[take_below(input, REGIONS)]);
}

static void prepare_only(struct vi *vi, struct input *input)
{
	(void)input;
	if (vi->state == VI_NONE) {
		vi_make(vi);
		peer_create(&vi->peer);
	}
	if (vi->state == VI_IDLE)
		vi_prepare(vi);
}

static void connect_again(struct vi *vi, struct input *input)
{
	prepare_only(vi, input);
	vi_connect(vi, input);
}

/* The program disconnects, with or without a connection. */
static void disconnect(struct vi *vi, struct input *input)
{
	(void)input;
	if (vi->state == VI_LINKED || vi->state == VI_PREPARED)
		vi_tear_down(vi);
}

/* The program disconnects if it has seen an error. */
static void attend(struct vi *vi, struct input *input)
{
	if (vi->broken)
		disconnect(vi, input);
}

static void (*const steps[])(struct vi *vi, struct input *input) = {
	post_receive, post_send, peer_message, peer_publish, poll_one, peer_answer, peer_consume, peer_field,
	peer_scribble, peer_race, register_memory, peer_region, deregister_memory, wait_for, serve, connect_again,
	disconnect, attend, prepare_only, peer_message, peer_message, peer_publish, peer_page, poll_one, tick,
};

static void check_told(struct vi *vi)
{
	struct loopback_endpoint *endpoint = endpoint_of(vi);

	if (vi->state != VI_LINKED || endpoint->rx_stopped || vi->stopped)
		return;
	vi_poll(vi);
	check(endpoint->rx_stopped || !next_message(endpoint));
}

/* Checks that few polls report every message, whatever was done to the pages of CQs. */
static void check_all_told(void)
{
	for (unsigned i = 0; i < VIS; i++)
		if (world.vis[i].peer.page)
			atomic_store(&world.vis[i].peer.page->waits, 0); /* no peer wakes the agent any more */
	/* By the first round the device learns that the program polls. */
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned v = 0; v < VIS; v++)
			if (world.vis[v].state == VI_LINKED)
				vi_poll(&world.vis[v]);
		fuzz_tick();
		watch_serve(world.device->event_fd);
		world.device->ops->serve(world.device);
	}
	for (unsigned i = 0; i < VIS; i++)
		check_told(&world.vis[i]);
}

void vi_failed(struct vi *vi, VIP_ERROR_CODE error)
{
	check(error == VIP_ERROR_CONN_LOST);
	check(vi->state == VI_LINKED);
	vi_tear_down(vi);
}

void vi_lose(struct vi *vi)
{
	(void)vi;
	check(!"there is no socket");
}

/* Registers memory and connects a VI, unless a flag forbids it. So short inputs can move data. */
static void begin(struct input *input)
{
	static const uint8_t mine[] = {1 | 2, 0, 0, 0x71, 0, 0x20};
	static const uint8_t peers[] = {1 | 0xE0, 0, 0, 0x71, 0, 0x80};
	struct input own = {mine, sizeof(mine)}, other = {peers, sizeof(peers)};
	uint8_t flags = take8(input);

	check(!loopback_device_ops.open(NULL, 0, (struct nic *)&world, &world.device));
	world_create(flags & 1 ? ONE_CQ : flags & 4 ? OWN_CQS : TWO_CQS);
	if (flags & 2)
		return;
	memory_register(&world.regions[0], &own);
	connect_again(&world.vis[0], input);
	peer_region(&world.vis[0], &other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	unsigned mappings = fuzz_mappings, descriptors = fuzz_descriptors(false);

	begin(&input);
	for (unsigned i = 0; i < STEPS_MOST && input.size; i++) {
		uint8_t step = take8(&input);

		steps[(step & 127) % (sizeof(steps) / sizeof(*steps))](&world.vis[step >> 7], &input);
	}
	race_stop();
	memory_check();
	check_all_told();
	world_destroy();
	for (unsigned i = 0; i < VIS; i++)
		peer_destroy(&world.vis[i].peer);
	check(fuzz_mappings == mappings);
	check(fuzz_descriptors(false) == descriptors);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_configure(true, "");
	child_process();
	return 0;
}
