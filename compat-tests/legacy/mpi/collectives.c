/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * collectives.c - collective operations. They consist of sends and receives with a context of their
 * own.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define TAGS 1024

static int tag; /* of the present collective; the same in all processes */

static void next_tag(void)
{
	tag = (tag + 1) % TAGS;
}

static mp_request start_send(const void *data, long length, int to)
{
	return send_start(data, length, to, tag, COLLECTIVE);
}

static mp_request start_receive(void *data, long length, int from)
{
	return receive_start(data, length, from, tag, COLLECTIVE);
}

static void send(const void *data, long length, int to)
{
	mp_wait(start_send(data, length, to), NULL);
}

static void receive(void *data, long length, int from)
{
	struct mp_status status;

	mp_wait(start_receive(data, length, from), &status);
	if (status.length != length)
		mp_fail("a collective of %ld bytes got %ld from rank %d", length, status.length,
			from);
}

/* After round k each process has heard, directly or through others, of the 2^k ranks before it. */
void mp_barrier(void)
{
	int rank = settings.rank, size = settings.size;
	int distance;

	next_tag();
	for (distance = 1; distance < size; distance *= 2) {
		char in = 0, out = 0;
		mp_request request = start_send(&out, 1, (rank + distance) % size);

		receive(&in, 1, (rank + size - distance) % size);
		mp_wait(request, NULL);
	}
}

/* Uses a binomial tree, with the ranks counted from the root. */
void mp_bcast(void *data, long length, int root)
{
	int size = settings.size;
	int place = (settings.rank + size - root) % size;
	int mask = 1;

	next_tag();
	while (mask < size && !(place & mask))
		mask *= 2;
	if (place)
		receive(data, length, (place - mask + root) % size);
	for (mask /= 2; mask; mask /= 2)
		if (place + mask < size)
			send(data, length, (place + mask + root) % size);
}

/*
 * Uses a binomial tree towards rank 0, so that the operation is applied in the order of the ranks.
 */
void mp_reduce(const void *in, void *out, long length, mp_operation op, int root)
{
	int rank = settings.rank, size = settings.size;
	char *sum = mp_alloc(length), *other = mp_alloc(length), *swap;
	int mask;

	next_tag();
	memcpy(sum, in, length);
	for (mask = 1; mask < size && !(rank & mask); mask *= 2) {
		if (rank + mask >= size)
			continue;
		receive(other, length, rank + mask);
		op(other, sum, length);
		swap = sum;
		sum = other;
		other = swap;
	}
	if (rank)
		send(sum, length, rank - mask);
	else if (root)
		send(sum, length, root);
	if (rank == root && root)
		receive(out, length, 0);
	else if (rank == root)
		memcpy(out, sum, length);
	mp_free(sum, length);
	mp_free(other, length);
}

void mp_allreduce(const void *in, void *out, long length, mp_operation op)
{
	mp_reduce(in, out, length, op, 0);
	mp_bcast(out, length, 0);
}

void mp_gather(const void *in, void *out, long length, int root)
{
	mp_request requests[MAX_PROCESSES];
	mp_request own;
	int i;

	next_tag();
	own = start_send(in, length, root);
	if (settings.rank == root) {
		for (i = 0; i < settings.size; ++i)
			requests[i] = start_receive((char *)out + i * length, length, i);
		for (i = 0; i < settings.size; ++i)
			mp_wait(requests[i], NULL);
	}
	mp_wait(own, NULL);
}

/* Uses a ring: each step sends on what came in the step before. */
void mp_allgather(const void *in, void *out, long length)
{
	int rank = settings.rank, size = settings.size;
	char *blocks = out;
	int step;

	next_tag();
	memcpy(blocks + rank * length, in, length);
	for (step = 0; step < size - 1; ++step) {
		int sent = (rank + size - step) % size;
		int got = (sent + size - 1) % size;
		mp_request request =
			start_send(blocks + sent * length, length, (rank + 1) % size);

		receive(blocks + got * length, length, (rank + size - 1) % size);
		mp_wait(request, NULL);
	}
}

void mp_alltoall(const void *in, void *out, long length)
{
	mp_request sends[MAX_PROCESSES], receives[MAX_PROCESSES];
	int i;

	next_tag();
	for (i = 0; i < settings.size; ++i)
		receives[i] = start_receive((char *)out + i * length, length, i);
	for (i = 0; i < settings.size; ++i) {
		int to = (settings.rank + i) % settings.size;

		sends[i] = start_send((const char *)in + to * length, length, to);
	}
	for (i = 0; i < settings.size; ++i) {
		mp_wait(sends[i], NULL);
		mp_wait(receives[i], NULL);
	}
}
