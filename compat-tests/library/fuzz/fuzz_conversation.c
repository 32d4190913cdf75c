/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the conversation of two ends: the beginning and the end of connections. An input is a program of
 * steps, which the user of a device and a peer take. README.md says how to run it.
 */
#include "conversation.h"

static void (*const steps[])(struct input *input) = {
	program_serve,  peer_say,        peer_call,       peer_listen,      program_answer,
	program_listen, program_connect, peer_wait,       peer_take_call,   program_use,
	peer_hang_up,   program_give_up, peer_call_often, program_unlisten, descriptor_shrink,
	peer_say,       program_serve,
};

/*
 * Two flags start a request each: the peer's to the program, and the program's to the peer. So
 * short inputs reach much of the device, too.
 */
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
