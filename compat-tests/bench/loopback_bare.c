/*
 * The bare contender: what the hardware and the kernel can do, with nothing
 * around it. A message of 8 bytes is one word in shared memory, one cache
 * line each way. A stream is process_vm_writev into the server's buffers,
 * and two counters in shared memory that keep the window.
 */
#include "loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct bare {
	struct pair *pair;
	uint64_t exchanges; /* so far: each message differs from the one before */
	unsigned long streamed;
	uint8_t *buffers; /* the client sends from them, the server receives in them */
	size_t room;
};

static void *bare_open(struct pair *pair)
{
	struct bare *bare = calloc(1, sizeof(*bare));

	if (!bare) {
		fail(pair, "no memory");
		return NULL;
	}
	bare->pair = pair;
	bare->room = pair->settings->window * pair->settings->bytes;
	return bare;
}

static int bare_start(void *state)
{
	struct bare *bare = state;

	bare->buffers = pages_new(bare->pair, bare->room);
	if (!bare->buffers)
		return -1;
	if (bare->pair->is_server)
		bare->pair->shared->sink = (uintptr_t)bare->buffers;
	return 0;
}

/* Waits until the word is another one than it was, and the one it has to be. */
static int take(struct bare *bare, atomic_ulong *word, unsigned long was, unsigned long right)
{
	struct patience patience = {0};
	unsigned long is;

	while (is = atomic_load_explicit(word, memory_order_acquire), is == was)
		if (keep_waiting(bare->pair, &patience, "a word in shared memory"))
			return -1;
	return is == right ? 0 : fail(bare->pair, "bare: %#lx came instead of %#lx", is, right);
}

static int bare_ping(void *state, unsigned long round_trips)
{
	struct bare *bare = state;
	atomic_ulong *out = &bare->pair->shared->ping[0].word;
	atomic_ulong *in = &bare->pair->shared->ping[1].word;
	unsigned long was = atomic_load(in);

	for (unsigned long i = 0; i < round_trips; ++i) {
		unsigned long right = pong_value(++bare->exchanges);

		atomic_store_explicit(out, ping_value(bare->exchanges), memory_order_release);
		if (take(bare, in, was, right))
			return -1;
		was = right;
	}
	return 0;
}

static int bare_echo(void *state, unsigned long round_trips)
{
	struct bare *bare = state;
	atomic_ulong *in = &bare->pair->shared->ping[0].word;
	atomic_ulong *out = &bare->pair->shared->ping[1].word;

	for (unsigned long i = 0; i < round_trips; ++i) {
		unsigned long was = ping_value(bare->exchanges);
		unsigned long right = ping_value(++bare->exchanges);

		if (take(bare, in, was, right))
			return -1;
		atomic_store_explicit(out, pong_value(bare->exchanges), memory_order_release);
	}
	return 0;
}

static int await_count(struct bare *bare, atomic_ulong *counter, unsigned long least)
{
	struct patience patience = {0};

	while (atomic_load_explicit(counter, memory_order_acquire) < least)
		if (keep_waiting(bare->pair, &patience, "a counter in shared memory"))
			return -1;
	return 0;
}

static int write_message(struct bare *bare, size_t slot)
{
	size_t bytes = bare->pair->settings->bytes;
	struct iovec from = {bare->buffers + slot * bytes, bytes};
	struct iovec to = {(uint8_t *)bare->pair->shared->sink + slot * bytes, bytes};
	ssize_t written = process_vm_writev(bare->pair->server, &from, 1, &to, 1, 0);

	if (written == (ssize_t)bytes)
		return 0;
	return fail(bare->pair, "bare: process_vm_writev: %s",
		    written < 0 ? strerror(errno) : "wrote only a part");
}

static int bare_stream(void *state, const struct stream *stream)
{
	struct bare *bare = state;
	struct shared *shared = bare->pair->shared;
	size_t bytes = bare->pair->settings->bytes;
	unsigned long end = bare->streamed + stream->messages;

	for (; bare->streamed < end; ++bare->streamed) {
		size_t slot = bare->streamed % stream->buffers;

		if (bare->streamed >= stream->window &&
		    await_count(bare, &shared->taken.word, bare->streamed - stream->window + 1))
			return -1;
		if (stream->check)
			pattern_fill(bare->buffers + slot * bytes, bytes, bare->streamed);
		if (write_message(bare, slot))
			return -1;
		atomic_store_explicit(&shared->written.word, bare->streamed + 1,
				      memory_order_release);
	}
	return await_count(bare, &shared->taken.word, end);
}

static int bare_sink(void *state, const struct stream *stream)
{
	struct bare *bare = state;
	struct shared *shared = bare->pair->shared;
	size_t bytes = bare->pair->settings->bytes;
	unsigned long end = bare->streamed + stream->messages;

	for (; bare->streamed < end; ++bare->streamed) {
		const uint8_t *data = bare->buffers + bare->streamed % stream->buffers * bytes;

		if (await_count(bare, &shared->written.word, bare->streamed + 1) ||
		    (stream->check && pattern_check(bare->pair, data, bytes, bare->streamed)))
			return -1;
		atomic_store_explicit(&shared->taken.word, bare->streamed + 1,
				      memory_order_release);
	}
	return 0;
}

static void bare_close(void *state)
{
	struct bare *bare = state;

	pages_free(bare->buffers, bare->room);
	free(bare);
}

const struct contender bare_contender = {
	.open = bare_open,
	.start = bare_start,
	.ping = bare_ping,
	.echo = bare_echo,
	.stream = bare_stream,
	.sink = bare_sink,
	.close = bare_close,
};
