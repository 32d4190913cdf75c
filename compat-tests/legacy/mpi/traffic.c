/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traffic.c - the program: random traffic. In each round all processes make the same plan of messages from
 * the seed: sender, receiver, tag, length, and the key of the content. Each process keeps a window
 * of its sends and a window of its receives open, in the order of the plan. So the first message
 * that is not done is always in both windows, and there is no deadlock. Messages of one tag are
 * taken from any source; a receive for these is always open.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define MESSAGES    30 /* of a round, for each process */
#define MOST        (MAX_PROCESSES * MESSAGES)
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
	const struct message *message; /* NULL: it may be any of the wild ones */
	char *data;
	long room;
	char *own;    /* made for this message only */
	char *always; /* used for many messages; it may still be registered */
	unsigned long own_bytes;
};

struct side {
	int window;
	struct flight flights[WINDOW];
	int next; /* the next message in the plan */
	int left;
	int pause;
};

static struct message plan[MOST];
static int planned;
static struct side sends = {WINDOW}, receives = {WINDOW}, wild = {1};
static struct side *const sides[] = {&sends, &receives, &wild};
static int wild_next[MAX_PROCESSES];
static int wild_tag; /* changes in each round, because some processes are ahead of others */

#define SIDES 3

/* Returns numbers that are the same on every machine. */
static word next_random(word *state)
{
	word x = *state += 0x9e3779b9u;

	x = (x ^ (x >> 16)) * 0x21f0aaadu;
	x = (x ^ (x >> 15)) * 0x735a2d97u;
	return x ^ (x >> 15);
}

static word random_below(word *state, word bound)
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

static int is_of(const struct side *side, const struct message *message)
{
	if (side == &sends)
		return message->from == settings.rank;
	return message->to == settings.rank && (message->tag == wild_tag) == (side == &wild);
}

static void make_plan(word state)
{
	int size = settings.size;
	int i, s;

	memset(wild_next, 0, sizeof(wild_next));
	for (s = 0; s < SIDES; ++s)
		sides[s]->next = sides[s]->left = 0;
	planned = MESSAGES * size;
	for (i = 0; i < planned; ++i) {
		struct message *message = &plan[i];

		message->from = (int)random_below(&state, (word)size);
		message->to = (message->from + 1 + (int)random_below(&state, (word)size - 1)) % size;
		message->tag = (int)random_below(&state, TAGS);
		message->length = random_length(&state);
		message->key = next_random(&state);
		if (random_below(&state, 6) == 0) {
			message->tag = wild_tag;
			message->length %= WILD_LONGEST + 1;
		}
		for (s = 0; s < SIDES; ++s)
			sides[s]->left += is_of(sides[s], message);
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

static void guard(const struct flight *flight)
{
	memset(flight->data - GUARD, GUARD_BYTE, GUARD);
	memset(flight->data + flight->room, GUARD_BYTE, GUARD);
}

static void check_guard(const struct flight *flight)
{
	int i;

	for (i = 0; i < GUARD; ++i)
		if ((unsigned char)flight->data[i - GUARD] != GUARD_BYTE ||
		    (unsigned char)flight->data[flight->room + i] != GUARD_BYTE)
			mp_fail("memory around room for %ld bytes was written to", flight->room);
}

/* Finds a place at any alignment: in a new buffer, or in the flight's own. */
static void make_room(struct flight *flight, long room, word key)
{
	unsigned long offset = GUARD + key % OFFSETS;

	if (!flight->always) {
		flight->always = mp_alloc(BUFFER);
		memset(flight->always, 0, BUFFER);
	}
	flight->own = NULL;
	flight->own_bytes = room + GUARD + offset;
	if (key / OFFSETS % 3 == 0)
		flight->own = mp_alloc(flight->own_bytes);
	flight->data = (flight->own ? flight->own : flight->always) + offset;
	flight->room = room;
	guard(flight);
}

static void start(struct side *side, struct flight *flight, word *state)
{
	const struct message *message = NULL;

	if (side != &wild)
		do
			message = &plan[side->next++];
		while (!is_of(side, message));
	flight->message = message;
	make_room(flight, message ? message->length : WILD_LONGEST, next_random(state));
	if (side == &sends) {
		fill(flight->data, message->length, message->key);
		flight->request =
			mp_isend(flight->data, message->length, message->to, message->tag);
	} else {
		flight->request = mp_irecv(flight->data, flight->room,
					   message ? message->from : MP_ANY_SOURCE,
					   message ? message->tag : wild_tag);
	}
	--side->left;
}

/* The source determines the message, because messages do not overtake each other. */
static const struct message *next_wild(int source)
{
	int *next = &wild_next[source];

	while (*next < planned) {
		const struct message *message = &plan[(*next)++];

		if (message->from == source && is_of(&wild, message))
			return message;
	}
	mp_fail("rank %d sent a message that is not in the plan", source);
}

static void check_received(const struct flight *flight, const struct mp_status *status)
{
	const struct message *message =
		flight->message ? flight->message : next_wild(status->source);

	if (status->source != message->from || status->tag != message->tag ||
	    status->length != message->length)
		mp_fail("got %ld bytes from rank %d, tag %d, where %ld from rank %d, tag %d, were "
			"to come", status->length, status->source, status->tag, message->length,
			message->from, message->tag);
	check(message, flight->data);
	check_guard(flight);
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

	for (i = 0; i < side->window; ++i) {
		struct flight *flight = &side->flights[i];

		if (flight->request && mp_test(flight->request, &status)) {
			if (side != &sends)
				check_received(flight, &status);
			if (flight->own)
				mp_free(flight->own, flight->own_bytes);
			flight->request = NULL;
			++events;
		}
		if (flight->request || !side->left)
			continue;
		++events;
		if (side->pause)
			--side->pause; /* waits, so that messages come before their receives */
		else
			start(side, flight, state);
		if (side == &receives && random_below(state, 4) == 0)
			side->pause = (int)random_below(state, 40);
	}
	return events;
}

static int is_open(const struct side *side)
{
	int open = side->left;
	int i;

	for (i = 0; i < side->window; ++i)
		open += side->flights[i].request != NULL;
	return open;
}

void traffic_round(unsigned int seed, long round)
{
	word state = seed * 31u + (word)round * 1000003u;

	wild_tag = FIRST_WILD_TAG + (int)(round % 100000);
	make_plan(state);
	state += (word)settings.rank; /* from here on each process has its own random numbers */
	while (is_open(&sends) || is_open(&receives) || is_open(&wild))
		if (!(work(&sends, &state) + work(&receives, &state) + work(&wild, &state)))
			mp_progress();
}
