/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prog_halo.c - a grid in two dimensions, closed to a torus. Each process has a block of it with a
 * halo one cell wide. Each step exchanges the halo and computes every cell from nine cells. At the
 * end each process computes the whole grid by itself, and compares all bits of its block. Rows are
 * long enough for rendezvous and are sent in place. Columns are copied and go as eager messages.
 */
#include <stdlib.h>
#include <string.h>

#include "programs.h"

#define WIDTH  1500 /* of a block */
#define HEIGHT 20
#define STRIDE (WIDTH + 2)
#define STEPS  10 /* of a round */

enum tag { TO_LEFT, TO_RIGHT, UP, DOWN };

typedef unsigned int word;

static word *block, *next_block; /* (HEIGHT + 2) rows of STRIDE cells */
/* Four of HEIGHT cells: sent left, sent right, and both received ones. */
static word *columns;
static int across, down;         /* the number of blocks */

#define BLOCK_BYTES  (sizeof(word) * (HEIGHT + 2) * STRIDE)
#define COLUMN_BYTES (sizeof(word) * HEIGHT)

/* Returns the rank of the block at that distance. */
static int neighbour(int right, int below)
{
	int x = (mp_rank() % across + across + right) % across;
	int y = (mp_rank() / across + down + below) % down;

	return y * across + x;
}

/* Sends one edge to one side, and receives the same edge from the other side. */
static mp_request shift(const void *edge, void *halo, long bytes, int to, int from, enum tag tag,
			mp_request *receive)
{
	*receive = mp_irecv(halo, bytes, from, tag);
	return mp_isend(edge, bytes, to, tag);
}

static void finish(mp_request *requests, int count)
{
	struct mp_status status;
	int i;

	for (i = 0; i < count; ++i)
		mp_wait(requests[i], &status);
}

static void exchange_columns(void)
{
	word *left = columns, *right = columns + HEIGHT;
	word *from_right = columns + 2 * HEIGHT, *from_left = columns + 3 * HEIGHT;
	mp_request requests[4];
	int y;

	for (y = 0; y < HEIGHT; ++y) {
		left[y] = block[(y + 1) * STRIDE + 1];
		right[y] = block[(y + 1) * STRIDE + WIDTH];
	}
	requests[0] = shift(left, from_right, COLUMN_BYTES, neighbour(-1, 0), neighbour(1, 0),
			    TO_LEFT, &requests[1]);
	requests[2] = shift(right, from_left, COLUMN_BYTES, neighbour(1, 0), neighbour(-1, 0),
			    TO_RIGHT, &requests[3]);
	finish(requests, 4);
	for (y = 0; y < HEIGHT; ++y) {
		block[(y + 1) * STRIDE] = from_left[y];
		block[(y + 1) * STRIDE + WIDTH + 1] = from_right[y];
	}
}

/* Rows include the halo's columns, which brings the corners along. */
static void exchange_rows(void)
{
	long bytes = sizeof(word) * STRIDE;
	mp_request requests[4];

	requests[0] = shift(block + STRIDE, block + (HEIGHT + 1) * STRIDE, bytes,
			    neighbour(0, -1), neighbour(0, 1), UP, &requests[1]);
	requests[2] = shift(block + HEIGHT * STRIDE, block, bytes, neighbour(0, 1),
			    neighbour(0, -1), DOWN, &requests[3]);
	finish(requests, 4);
}

/* Each of the nine cells has another weight, so that none can replace another. */
static word cell(const word *above, const word *here, const word *below, long left, long x,
		 long right)
{
	return 3 * above[left] + 5 * above[x] + 7 * above[right] + 11 * here[left] + 13 * here[x] +
	       17 * here[right] + 19 * below[left] + 23 * below[x] + 29 * below[right] + 1;
}

static void step(void)
{
	word *swap;
	long x, y;

	exchange_columns();
	exchange_rows();
	for (y = 1; y <= HEIGHT; ++y) {
		const word *here = block + y * STRIDE;

		for (x = 1; x <= WIDTH; ++x)
			next_block[y * STRIDE + x] =
				cell(here - STRIDE, here, here + STRIDE, x - 1, x, x + 1);
	}
	swap = block;
	block = next_block;
	next_block = swap;
}

static word beginning(word seed, long x, long y)
{
	word state = seed + (word)x * 0x85ebca6bu + (word)y * 0xc2b2ae35u;

	return next_random(&state);
}

static void whole_step(const word *from, word *to, long width, long height)
{
	long x, y;

	for (y = 0; y < height; ++y) {
		const word *above = from + (y + height - 1) % height * width;
		const word *below = from + (y + 1) % height * width;

		for (x = 0; x < width; ++x)
			to[y * width + x] = cell(above, from + y * width, below,
						 x ? x - 1 : width - 1, x,
						 x + 1 < width ? x + 1 : 0);
	}
}

static void compare(const word *whole, long width)
{
	long left = (long)(mp_rank() % across) * WIDTH, top = (long)(mp_rank() / across) * HEIGHT;
	long x, y;

	for (y = 0; y < HEIGHT; ++y)
		for (x = 0; x < WIDTH; ++x)
			if (block[(y + 1) * STRIDE + x + 1] != whole[(top + y) * width + left + x])
				mp_fail("after %d steps the cell %ld, %ld of this block is wrong",
					STEPS, x, y);
}

/* Computes the same without messages. */
static void check(word seed)
{
	long width = (long)across * WIDTH, height = (long)down * HEIGHT;
	word *from = malloc(sizeof(word) * width * height);
	word *to = malloc(sizeof(word) * width * height);
	word *swap;
	long x, y;
	int i;

	if (!from || !to)
		mp_fail("no memory for the whole grid");
	for (y = 0; y < height; ++y)
		for (x = 0; x < width; ++x)
			from[y * width + x] = beginning(seed, x, y);
	for (i = 0; i < STEPS; ++i) {
		whole_step(from, to, width, height);
		swap = from;
		from = to;
		to = swap;
	}
	compare(from, width);
	free(from);
	free(to);
}

void halo_round(unsigned int seed, long round)
{
	word key = seed + 104729u * (word)round;
	long x, y;
	int i;

	for (across = 1, i = 1; i * i <= mp_size(); ++i)
		if (mp_size() % i == 0)
			across = i;
	down = mp_size() / across;
	block = mp_alloc(BLOCK_BYTES);
	next_block = mp_alloc(BLOCK_BYTES);
	columns = mp_alloc(4 * COLUMN_BYTES);
	for (y = 0; y < HEIGHT; ++y)
		for (x = 0; x < WIDTH; ++x)
			block[(y + 1) * STRIDE + x + 1] =
				beginning(key, mp_rank() % across * WIDTH + x,
					  mp_rank() / across * HEIGHT + y);
	for (i = 0; i < STEPS; ++i)
		step();
	check(key);
	mp_free(block, BLOCK_BYTES);
	mp_free(next_block, BLOCK_BYTES);
	mp_free(columns, 4 * COLUMN_BYTES);
}
