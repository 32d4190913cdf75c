/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prog_collectives.c - collectives of random length and root. Each process computes the expected
 * results by itself: the contribution of every rank is a function of seed, rank and place.
 */
#include <stdlib.h>
#include <string.h>

#include "programs.h"

#define LONGEST 12000 /* elements: some messages are eager, some take rendezvous */

typedef unsigned int word;

/* A function x -> a x + b. Composition of such functions is associative, and its order matters. */
struct map {
	word a, b;
};

static word value(word seed, int rank, long place)
{
	word x = seed + 0x9e3779b9u * (word)(rank + 1) + 0x85ebca6bu * (word)place;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return x ^ (x >> 13);
}

static void fill(word *data, long count, word seed, int rank)
{
	long i;

	for (i = 0; i < count; ++i)
		data[i] = value(seed, rank, i);
}

static void check(const word *data, long count, word seed, int rank, const char *what)
{
	long i;

	for (i = 0; i < count; ++i)
		if (data[i] != value(seed, rank, i))
			mp_fail("%s of %ld elements: element %ld of rank %d is 0x%x", what, count,
				i, rank, data[i]);
}

/* into = from, then into */
static void compose(void *into, const void *from, long bytes)
{
	struct map *later = into;
	const struct map *earlier = from;
	long i;

	for (i = 0; i < bytes / (long)sizeof(*later); ++i) {
		later[i].b = later[i].a * earlier[i].b + later[i].b;
		later[i].a = later[i].a * earlier[i].a;
	}
}

/* Checks the composition of the maps of all ranks. */
static void check_maps(const word *out, long count, word seed, const char *what)
{
	long i;
	int rank;

	for (i = 0; i + 1 < count; i += 2) {
		word a = 1, b = 0;

		for (rank = 0; rank < mp_size(); ++rank) {
			word next = value(seed, rank, i);

			b = next * b + value(seed, rank, i + 1);
			a *= next;
		}
		if (out[i] != a || out[i + 1] != b)
			mp_fail("%s of %ld elements: element %ld is wrong", what, count, i);
	}
}

static void bcast_and_gather(word *in, word *out, long count, word seed, int root)
{
	int rank = mp_rank(), size = mp_size();
	long bytes = count * sizeof(word);
	int i;

	memset(out, 0, bytes);
	if (rank == root)
		fill(out, count, seed, root);
	mp_bcast(out, bytes, root);
	check(out, count, seed, root, "bcast");

	fill(in, count, seed, rank);
	memset(out, 0xAA, bytes * size);
	mp_gather(in, out, bytes, root);
	for (i = 0; i < size && rank == root; ++i)
		check(out + i * count, count, seed, i, "gather");

	memset(out, 0x55, bytes * size);
	mp_allgather(in, out, bytes);
	for (i = 0; i < size; ++i)
		check(out + i * count, count, seed, i, "allgather");
}

static void reductions(word *in, word *out, long count, word seed, int root)
{
	int rank = mp_rank();
	long bytes;

	count -= count % 2;
	bytes = count * sizeof(word);
	fill(in, count, seed + 1, rank);
	memset(out, 0, bytes);
	mp_reduce(in, out, bytes, compose, root);
	if (rank == root)
		check_maps(out, count, seed + 1, "reduce");
	memset(out, 0, bytes);
	mp_allreduce(in, out, bytes, compose);
	check_maps(out, count, seed + 1, "allreduce");
}

/* The block from i to j has the contents of a rank i * size + j. */
static void everybody(word *in, word *out, long count, word seed)
{
	int rank = mp_rank(), size = mp_size();
	int i;

	for (i = 0; i < size; ++i)
		fill(in + i * count, count, seed + 2, rank * size + i);
	memset(out, 0, count * sizeof(word) * size);
	mp_alltoall(in, out, count * sizeof(word));
	for (i = 0; i < size; ++i)
		check(out + i * count, count, seed + 2, i * size + rank, "alltoall");
}

/* No process leaves a barrier before all have come to it. One of them is late on purpose. */
static void barriers(word seed)
{
	static word visit;
	word late = seed % (word)mp_size();
	volatile word last = 0;
	int rank = mp_rank();
	int i;

	++visit;
	if (rank == (int)late)
		for (i = 0; i < 200000; ++i)
			last += value(last, rank, i);
	arrivals[rank] = visit;
	__sync_synchronize();
	mp_barrier();
	__sync_synchronize();
	for (i = 0; i < mp_size(); ++i)
		if (arrivals[i] < visit)
			mp_fail("a barrier let this process through before rank %d came", i);
}

void collectives_round(unsigned int seed, long round)
{
	word state = seed + 7919u * (word)round;
	word kind = random_below(&state, 4);
	long longest = kind == 0 ? 8 : kind == 1 ? 600 : kind == 2 ? 3000 : LONGEST;
	long count = 1 + (long)random_below(&state, (word)longest);
	int root = (int)random_below(&state, (word)mp_size());
	unsigned long bytes = (count + 2) * sizeof(word) * mp_size();
	word *in = mp_alloc(bytes), *out = mp_alloc(bytes);

	bcast_and_gather(in, out, count, state, root);
	reductions(in, out, count + 1, state, root);
	everybody(in, out, count, state);
	barriers(state);
	mp_free(in, bytes);
	mp_free(out, bytes);
}
