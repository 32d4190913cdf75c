/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collectives.c - collective operations. They consist of sends and receives with tags of their own,
 * which are negative.
 */
#include "layer.h"

#define TAGS 1024

static int used; /* tags; the same in all processes */

static int next_tag(void)
{
	used = (used + 1) % TAGS;
	return -2 - used;
}

int mp_rank(void)
{
	return settings.rank;
}

int mp_size(void)
{
	return settings.size;
}

/* After round k each process has heard, directly or through others, of the 2^k ranks before it. */
void mp_barrier(void)
{
	int rank = settings.rank, size = settings.size, tag = next_tag();
	int distance;

	for (distance = 1; distance < size; distance *= 2) {
		char in, out = 0;
		mp_request send = mp_isend(&out, 1, (rank + distance) % size, tag);

		mp_wait(mp_irecv(&in, 1, (rank + size - distance) % size, tag), NULL);
		mp_wait(send, NULL);
	}
}

/* Uses a binomial tree from rank 0. */
void mp_bcast(void *data, long length)
{
	int rank = settings.rank, size = settings.size, tag = next_tag();
	int mask = 1;

	while (mask < size && !(rank & mask))
		mask *= 2;
	if (rank)
		mp_wait(mp_irecv(data, length, rank - mask, tag), NULL);
	for (mask /= 2; mask; mask /= 2)
		if (rank + mask < size)
			mp_wait(mp_isend(data, length, rank + mask, tag), NULL);
}
