/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prog_traffic.c - random traffic. In each round all processes make the same plan of messages from
 * the seed: sender, receiver, tag, length, and the key of the content. Each process keeps a window
 * of its sends and a window of its receives open, in the order of the plan. So the first message
 * that is not done is always in both windows, and there is no deadlock. Messages of one tag are
 * taken from any source; a receive for these is always open.
 */
#include <stdlib.h>
#include <string.h>

#include "programs.h"

#define MESSAGES    30 /* of a round, for each process */
#define MOST        (32 * MESSAGES)
#define WINDOW      8
#define LONGEST     (1024 * 1024L)
#define TAGS        4
#define FIRST_WILD_TAG 100
#define WILD_LONGEST (64 * 1024L)
#define GUARD       32
#define GUARD_BYTE  0xC3
#define OFFSETS     64 /* alignments */
#define BUFFER      (unsigned long)(LONGEST + 2 * GUARD + OFFSETS)

typedef unsigned int word;

struct message {
	int from, to, tag;
	long length;
	word key;
};

/* A message under way: its request, and the buffer around it. */
struct flight {
	mp_request request; /* NULL: it is not in use */
	const struct message *message;
	char *data;
	char *own;    /* made for this message only */
	char *always; /* used for many messages; it may still be registered */
	unsigned long own_bytes;
};

struct side {
	struct flight flights[WINDOW];
	int next; /* the next message in the plan */
	int left;
	int pause;
};

static struct message plan[MOST];
static int planned;
static struct side sends, receives;
static struct flight wild;
static int wild_left, wild_next[32];
static int wild_tag; /* changes in each round, because some processes are ahead of others */

word next_random(word *state)
{
	word x = *state += 0x9e3779b9u;

	x = (x ^ (x >> 16)) * 0x21f0aaadu;
	x = (x ^ (x >> 15)) * 0x735a2d97u;
	return x ^ (x >> 15);
}

word random_below(word *state, word bound)
{
	return next_random(state) % bound;
}

static long random_length(word *state)
{
	switch (random_below(state, 8)) {
	case 0:
		return random_below(state, 17);
	case 1:
		/* Near the default limit between eager and rendezvous. */
		return 4096 - 2 + random_below(state, 5);
	case 2:
	case 3:
		return random_below(state, 65536);
	case 4:
		return random_below(state, LONGEST + 1);
	default:
		return random_below(state, 4097);
	}
}

static void make_plan(word state)
{
	int rank = mp_rank(), size = mp_size();
	int i;

	memset(wild_next, 0, sizeof(wild_next));
	sends.next = receives.next = sends.left = receives.left = wild_left = 0;
	planned = MESSAGES * size;
	for (i = 0; i < planned; ++i) {
		struct message *message = &plan[i];

		message->from = (int)random_below(&state, (word)size);
		message->to = (int)random_below(&state, (word)size);
		message->tag = (int)random_below(&state, TAGS);
		message->length = random_length(&state);
		message->key = next_random(&state);
		if (random_below(&state, 6) == 0) {
			message->tag = wild_tag;
			message->length %= WILD_LONGEST + 1;
		}
		sends.left += message->from == rank;
		receives.left += message->to == rank && message->tag != wild_tag;
		wild_left += message->to == rank && message->tag == wild_tag;
	}
}

static word content(word key, long i)
{
	return key + (word)(i / 4) * 0x9e3779b1u;
}

static void fill(char *data, long length, word key)
{
	word piece;
	long i;

	for (i = 0; i < length; i += 4) {
		piece = content(key, i);
		memcpy(data + i, &piece, length - i < 4 ? length - i : 4);
	}
}

static void check(const struct message *message, const char *data)
{
	word piece;
	long i;

	for (i = 0; i < message->length; i += 4) {
		piece = content(message->key, i);
		if (memcmp(data + i, &piece, message->length - i < 4 ? message->length - i : 4))
			mp_fail("message %d from rank %d to rank %d, tag %d, %ld bytes: wrong from "
				"byte %ld", (int)(message - plan), message->from, message->to,
				message->tag, message->length, i);
	}
}

static void guard(char *data, long length, int check_it)
{
	long i;

	if (!check_it) {
		memset(data - GUARD, GUARD_BYTE, GUARD);
		memset(data + length, GUARD_BYTE, GUARD);
		return;
	}
	for (i = 0; i < GUARD; ++i)
		if ((unsigned char)data[i - GUARD] != GUARD_BYTE ||
		    (unsigned char)data[length + i] != GUARD_BYTE)
			mp_fail("memory around a message of %ld bytes was written to", length);
}

/* Finds a place for length bytes, at any alignment: in a new buffer, or in the flight's own. */
static void make_room(struct flight *flight, long length, word key)
{
	unsigned long offset = GUARD + key % OFFSETS;

	if (!flight->always) {
		flight->always = mp_alloc(BUFFER);
		memset(flight->always, 0, BUFFER);
	}
	flight->own = NULL;
	flight->own_bytes = length + GUARD + offset;
	if (key / OFFSETS % 3 == 0)
		flight->own = mp_alloc(flight->own_bytes);
	flight->data = (flight->own ? flight->own : flight->always) + offset;
	guard(flight->data, length, 0);
}

static void give_room_back(struct flight *flight)
{
	if (flight->own)
		mp_free(flight->own, flight->own_bytes);
	flight->request = NULL;
}

static void start(struct side *side, struct flight *flight)
{
	int rank = mp_rank();
	const struct message *message;

	do
		message = &plan[side->next++];
	while (side == &sends ? message->from != rank :
				message->to != rank || message->tag == wild_tag);
	flight->message = message;
	if (side == &sends) {
		make_room(flight, message->length, message->key);
		fill(flight->data, message->length, message->key);
		flight->request =
			mp_isend(flight->data, message->length, message->to, message->tag);
	} else {
		make_room(flight, message->length, message->key * 7);
		flight->request =
			mp_irecv(flight->data, message->length, message->from, message->tag);
	}
	--side->left;
}

static void finish(struct flight *flight, const struct mp_status *status)
{
	const struct message *message = flight->message;

	if (status) {
		if (status->source != message->from || status->tag != message->tag ||
		    status->length != message->length)
			mp_fail("got %ld bytes from rank %d, tag %d, where %ld from rank %d, tag "
				"%d, were to come", status->length, status->source, status->tag,
				message->length, message->from, message->tag);
		check(message, flight->data);
		if (message->tag != wild_tag)
			guard(flight->data, message->length, 1);
	}
	give_room_back(flight);
}

/*
 * Begins messages that there is room for, and ends those that are done. Returns 0 if there was
 * nothing to do.
 */
static int work(struct side *side, word *state)
{
	struct mp_status status;
	int events = 0;
	int i;

	for (i = 0; i < WINDOW; ++i) {
		struct flight *flight = &side->flights[i];

		if (flight->request && mp_test(flight->request, &status)) {
			finish(flight, side == &receives ? &status : NULL);
			++events;
		}
		if (flight->request || !side->left)
			continue;
		++events;
		if (side->pause)
			--side->pause; /* waits, so that messages come before their receives */
		else
			start(side, flight);
		if (side == &receives && random_below(state, 4) == 0)
			side->pause = (int)random_below(state, 40);
	}
	return events;
}

/* The source determines the message, because messages do not overtake each other. */
static const struct message *next_wild(int source)
{
	int *next = &wild_next[source];

	while (*next < planned) {
		const struct message *message = &plan[(*next)++];

		if (message->from == source && message->to == mp_rank() &&
		    message->tag == wild_tag)
			return message;
	}
	mp_fail("rank %d sent a message that is not in the plan", source);
}

static int work_wild(word *state)
{
	struct mp_status status;

	if (wild.request) {
		if (!mp_test(wild.request, &status))
			return 0;
		wild.message = next_wild(status.source);
		guard(wild.data, WILD_LONGEST, 1);
		finish(&wild, &status);
		return 1;
	}
	if (!wild_left)
		return 0;
	--wild_left;
	make_room(&wild, WILD_LONGEST, next_random(state));
	wild.request = mp_irecv(wild.data, WILD_LONGEST, MP_ANY_SOURCE, wild_tag);
	return 1;
}

static int is_open(const struct side *side)
{
	int open = side->left;
	int i;

	for (i = 0; i < WINDOW; ++i)
		open += side->flights[i].request != NULL;
	return open;
}

void traffic_round(unsigned int seed, long round)
{
	word state = seed * 31u + (word)round * 1000003u;

	wild_tag = FIRST_WILD_TAG + (int)(round % 100000);
	make_plan(state);
	state += (word)mp_rank(); /* from here on each process has its own random numbers */
	while (is_open(&sends) || is_open(&receives) || wild_left || wild.request)
		if (!(work(&sends, &state) + work(&receives, &state) + work_wild(&state)))
			mp_progress();
}
