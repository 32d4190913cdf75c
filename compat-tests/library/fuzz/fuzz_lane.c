/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the data path of the loopback device. An input is a program of steps. Each step is one of
 * the program's or the peer's, at one of two VIs. README.md says how to run it.
 */
#include "lane.h"

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
