/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * match.c - requests, and the receive for each message. Posted receives are in the order of
 * posting. Messages without a receive are in the order of arrival, so that none overtakes another.
 * Collective operations consist of sends and receives with tags of their own, which are negative.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define TAGS 1024 /* of collective operations */

static struct queue posted, unexpected;
static int open_requests;
static int used; /* tags; the same in all processes */

static struct mp_request *make(int peer, int tag, char *data, long length)
{
	struct mp_request *request = calloc(1, sizeof(*request));

	if (!request)
		mp_fail("no memory for a request");
	request->peer = peer;
	request->tag = tag;
	request->data = data;
	request->length = length;
	++open_requests;
	return request;
}

static void drop(struct mp_request *request)
{
	--open_requests;
	free(request);
}

void queue_add(struct queue *queue, struct mp_request *request)
{
	request->next = NULL;
	if (queue->first)
		queue->last->next = request;
	else
		queue->first = request;
	queue->last = request;
}

/* Takes the first that fits. Either side may leave the source open. */
static struct mp_request *take(struct queue *queue, int peer, int tag)
{
	struct mp_request **place, *before = NULL, *found;

	for (place = &queue->first; (found = *place) != NULL; place = &found->next) {
		if (found->tag == tag && (found->peer == peer || found->peer == MP_ANY_SOURCE ||
					  peer == MP_ANY_SOURCE)) {
			*place = found->next;
			if (queue->last == found)
				queue->last = before;
			return found;
		}
		before = found;
	}
	return NULL;
}

/* A long message is still with its sender. */
static void deliver(struct mp_request *receive, const struct mp_request *message)
{
	if (message->length > receive->length)
		mp_fail("a message of %ld bytes from rank %d, tag %d, does not fit into %ld",
			message->length, message->peer, message->tag, receive->length);
	receive->peer = message->peer;
	receive->length = message->length;
	if (!message->data) {
		packets_fetch(receive, message->partner);
		return;
	}
	memcpy(receive->data, message->data, message->length);
	receive->done = 1;
}

/* A message that came before its receive is copied. */
static void keep(const struct mp_request *message)
{
	struct mp_request *kept = make(message->peer, message->tag, NULL, message->length);

	kept->partner = message->partner;
	if (message->data) {
		kept->data = malloc(message->length + 1);
		if (!kept->data)
			mp_fail("no memory for an unexpected message");
		memcpy(kept->data, message->data, message->length);
	}
	queue_add(&unexpected, kept);
}

void match_arrived(int source, const struct head *head, char *data)
{
	struct mp_request *receive = take(&posted, source, head->tag);
	struct mp_request message;

	memset(&message, 0, sizeof(message));
	message.peer = source;
	message.tag = head->tag;
	message.data = data;
	message.length = head->length;
	message.partner = head->from;
	if (receive)
		deliver(receive, &message);
	else
		keep(&message);
}

mp_request mp_isend(const void *data, long length, int to, int tag)
{
	struct mp_request *send = make(to, tag, (char *)data, length);

	packets_queue(send, length > settings.eager ? REQUEST : EAGER);
	return send;
}

/* Gives the receive a message that has already come, or posts it. */
mp_request mp_irecv(void *data, long room, int from, int tag)
{
	struct mp_request *receive = make(from, tag, data, room);
	struct mp_request *message = take(&unexpected, from, tag);

	if (!message) {
		queue_add(&posted, receive);
		return receive;
	}
	deliver(receive, message);
	free(message->data);
	drop(message);
	return receive;
}

static void finish(struct mp_request *request, struct mp_status *status)
{
	if (status) {
		status->source = request->peer;
		status->tag = request->tag;
		status->length = request->length;
	}
	drop(request);
}

int mp_test(mp_request request, struct mp_status *status)
{
	if (!request->done)
		progress_poll();
	if (!request->done)
		return 0;
	finish(request, status);
	return 1;
}

void mp_wait(mp_request request, struct mp_status *status)
{
	progress_until(&request->done, "a message");
	finish(request, status);
}

/* Checks at the end that no message and no receive is left. */
void match_close(void)
{
	if (open_requests)
		mp_fail("%d messages were never received, or requests never waited for",
			open_requests);
}

/* ---- collective operations ---- */

static int next_tag(void)
{
	used = (used + 1) % TAGS;
	return -2 - used;
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
