/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the conversation of two ends: the beginning and the end of connections. An input is a program of steps, which the user
 * of a device, here, and a peer take. README.md says how to run it.
 */
#include <stdlib.h>

#include "base/deadline.h"
#include "conversation.h"

static const struct connect_info info = {
	.host = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
	.discriminator = {.length = 3, .bytes = "who"},
	.reliability = VIP_SERVICE_RELIABLE_DELIVERY,
	.max_transfer = 0x10000,
	.rights = {true, true},
};

static struct vi *choose(struct input *input)
{
	return &world.vis[take_below(input, VIS)];
}

static void program_listen(struct input *input)
{
	struct discriminator own = discriminator_of(OWN);
	uint8_t how = take8(input);
	struct acceptor *acceptor;

	talk.takes_requests = !(how & 1);
	trouble_begin(how & ~1u);
	acceptor = acceptor_open(talk.connector, &own);
	if (acceptor) {
		talk.acceptor = acceptor;
		talk.listening++;
	}
	trouble_end();
}

static void program_unlisten(struct input *input)
{
	(void)input;
	if (!talk.listening)
		return;
	acceptor_close(talk.acceptor);
	talk.listening--;
}

/* Whoever asks for us, without a name, is the one. */
static void await_peer(struct vi *vi)
{
	struct target *target = &vi->connection->target;

	target->own.discriminator = discriminator_of(OWN);
	target->wanted = (struct discriminator){0};
	target->host = info.host;
	connection_listen(vi->connection);
}

static void program_connect(struct input *input)
{
	struct vi *vi = choose(input);
	uint8_t how = take8(input);
	struct target *target = &vi->connection->target;

	if (vi->state != VI_IDLE)
		return;
	*target = (struct target){.own = info,
				  .host = info.host,
				  .wanted = how & 1 ? discriminator_of(OWN) : discriminator_of(OTHER)};
	vi->connection->endpoint = vi->endpoint;
	target->host.s6_addr[15] = how & 2 ? 2 : 1;
	target->own.peer_to_peer = vi == &world.vis[VIS - 1];
	target->deadline = clock_nsec() + (target->own.peer_to_peer ? 1 : 60) * NSEC_PER_SEC;
	trouble_begin(how & ~3u);
	if (world.device->ops->find_host(world.device, &target->host, &target->own.host) == VIP_SUCCESS) {
		vi_prepare(vi);
		if (target->own.peer_to_peer && how & 1)
			await_peer(vi);
		else
			connection_ask(vi->connection);
	}
	trouble_end();
}

static void accept_by(struct vi *vi, struct request *request)
{
	vi_prepare(vi);
	vi->connection->endpoint = vi->endpoint;
	vi->connection->target = (struct target){.own = info, .deadline = DEADLINE_NEVER};
	connection_accept(vi->connection, &request->conversation);
	free(request);
}

static void program_answer(struct input *input)
{
	static const enum message_code refusals[] = {MESSAGE_REJECT, MESSAGE_NO_MATCH, MESSAGE_BUSY};
	struct vi *vi = choose(input);
	uint8_t how = take8(input);
	struct request *request;

	if (!talk.request_count)
		return;
	request = talk.requests[--talk.request_count];
	trouble_begin(how & ~7u);
	if (how & 1)
		request_refuse(request, refusals[(how >> 1 & 3) % 3]);
	else if (how & 2 && !socket_is_quiet(&request->conversation.watched))
		request_refuse(request, MESSAGE_NO_MATCH);
	else if (vi->state == VI_IDLE)
		accept_by(vi, request);
	else
		talk.requests[talk.request_count++] = request;
	trouble_end();
}

static void program_give_up(struct input *input)
{
	struct vi *vi = choose(input);

	switch (vi->state) {
	case VI_PREPARED:
		connection_expire(vi->connection);
		break;
	case VI_LINKED:
		vi_tear_down(vi);
		break;
	default:
		break;
	}
}

/* All the memory that the peer has given must be there, whatever the peer has done to it. */
static void touch(const struct vi *vi)
{
	const struct loopback_endpoint *endpoint = endpoint_of(vi);
	const volatile uint8_t *link = (const volatile uint8_t *)endpoint->link;
	const volatile uint8_t *regions = (const volatile uint8_t *)endpoint->peer_regions;
	uint8_t sum = 0;

	for (size_t i = 0; i < sizeof(struct link); i += 0x8000)
		sum += link[i];
	for (size_t i = 0; i < sizeof(struct region_entries); i += 0x8000)
		sum += regions[i];
	(void)(sum + link[sizeof(struct link) - 1] + regions[sizeof(struct region_entries) - 1]);
}

static void program_use(struct input *input)
{
	/* A descriptor with one segment, a part of region 0, for post_receive() and post_send(). */
	static const uint8_t small[] = {0, 1, 64, 0, 0, 40}, large[] = {0, 1, 64, 0, 0, 64, 0, 0x30};
	struct vi *vi = choose(input);
	struct input what = {small, sizeof(small)}, again;

	if (take8(input) & 1)
		what = (struct input){large, sizeof(large)};
	again = what;
	vi_poll(vi);
	if (talk.is_remote)
		return;
	post_receive(vi, &what);
	if (vi->state != VI_LINKED)
		return;
	touch(vi);
	post_send(vi, &again);
	vi_poll(vi);
}

static void program_serve(struct input *input)
{
	uint8_t how = take8(input);

	if (how & 1)
		fuzz_tick();
	trouble_begin(how & ~5u);
	watch_serve(world.device->event_fd);
	if (how & 4)
		connector_serve(talk.connector);
	trouble_end();
}

static void (*const steps[])(struct input *input) = {
	program_serve,  peer_say,        peer_call,       peer_listen,      program_answer,
	program_listen, program_connect, peer_wait,       peer_take_call,   program_use,
	peer_hang_up,   program_give_up, peer_call_often, program_unlisten, descriptor_shrink,
	peer_say,       program_serve,
};

/* Two flags start a request each, of the peer and of the program. So short inputs reach much of the device, too. */
static void begin(struct input *input)
{
	static const char *const users[] = {"", "0", "0,1,4294967295", "12,nobody"};
	struct input nothing = {NULL, 0};
	uint8_t flags = take8(input);

	fuzz_configure(!(flags & 4), users[flags >> 3 & 3]);
	peer_open();
	talk.is_remote = flags & 32;
	talk_create(input);
	talk.takes_requests = true;
	if (flags & 1) {
		program_listen(&nothing);
		peer_call(&nothing);
	}
	if (flags & 2) {
		peer_wait(&nothing);
		program_connect(&nothing);
		peer_take_call(&nothing);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	unsigned mappings = fuzz_mappings, descriptors = fuzz_descriptors(false);
	unsigned inheritable = fuzz_descriptors(true);

	begin(&input);
	for (unsigned i = 0; i < STEPS_MOST && input.size; i++)
		steps[take8(&input) % (sizeof(steps) / sizeof(*steps))](&input);
	check(fuzz_descriptors(true) == inheritable);
	peer_close();
	if (size & 1) /* else the device closes before it sees that the peer has gone */
		program_serve(&input);
	talk_destroy();
	check(fuzz_mappings == mappings);
	check(fuzz_descriptors(false) == descriptors);
	return 0;
}
