/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the data path of the loopback device. An input is a program of steps. Each step is one of
 * the program's or the peer's, at one of two VIs. README.md says how to run it. lane.h says what is
 * checked.
 */
#include "lane.h"

#define STEPS_MOST 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

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
	world.device->ops->channel_read(world.channel, true);
}

static void serve(struct vi *vi, struct input *input)
{
	(void)vi;
	(void)input;
	watch_serve(world.device->event_fd);
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

static void connect_again(struct vi *vi, struct input *input)
{
	vi_create(vi);
	vi_prepare(vi);
	vi_connect(vi, input);
}

static void prepare_only(struct vi *vi, struct input *input)
{
	(void)input;
	vi_create(vi);
	vi_prepare(vi);
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
	post_receive,
	post_send,
	peer_message,
	peer_publish,
	poll_one,
	peer_answer,
	peer_consume,
	peer_field,
	peer_scribble,
	peer_race,
	register_memory,
	peer_region,
	deregister_memory,
	wait_for,
	serve,
	connect_again,
	disconnect,
	attend,
	prepare_only,
	peer_message,
	peer_message,
	peer_publish,
	peer_page,
	poll_one,
	tick,
};

/* Registers memory and connects a VI, unless a flag forbids it. So short inputs can move data. */
static void begin(struct input *input)
{
	static const uint8_t mine[] = {1 | 2, 0, 0, 0x71, 0, 0x20};
	static const uint8_t peers[] = {1 | 0xE0, 0, 0, 0x71, 0, 0x80};
	struct input own = {mine, sizeof(mine)}, other = {peers, sizeof(peers)};
	uint8_t flags = take8(input);

	world_create(flags & 1 ? ONE_CQ : flags & 4 ? OWN_CQS : TWO_CQS);
	if (flags & 2)
		return;
	memory_register(&world.regions[0], &own);
	vi_create(&world.vis[0]);
	vi_prepare(&world.vis[0]);
	vi_connect(&world.vis[0], input);
	peer_region(&world.vis[0], &other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	unsigned mappings = fuzz_mappings(), descriptors = fuzz_descriptors(false);

	begin(&input);
	for (unsigned i = 0; i < STEPS_MOST && input.size; i++) {
		uint8_t step = take8(&input);

		steps[(step & 127) % (sizeof(steps) / sizeof(*steps))](&world.vis[step >> 7],
								       &input);
	}
	race_stop();
	memory_check();
	world_check_told();
	world_destroy();
	check(fuzz_mappings() == mappings);
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
