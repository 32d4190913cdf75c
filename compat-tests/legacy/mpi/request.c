/* SPDX-License-Identifier: BSD-2-Clause */
/* request.c - sends and receives as requests. Each has a number, by which packets name it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"

#define MOST_REQUESTS 4096
#define NOT_IN_USE    (-2) /* the peer of an unused request */

static struct mp_request *requests[MOST_REQUESTS];
static int request_count;
static struct mp_request *unused;
static int in_use;

static mp_request make(enum role role, const void *data, long length, int peer, int tag)
{
	struct mp_request *request = unused;
	int id;

	if (request) {
		unused = request->next;
	} else {
		if (request_count == MOST_REQUESTS)
			mp_fail("more than %d requests at once", MOST_REQUESTS);
		request = malloc(sizeof(*request));
		if (!request)
			mp_fail("no memory for a request");
		request->id = request_count;
		requests[request_count++] = request;
	}
	id = request->id;
	memset(request, 0, sizeof(*request));
	request->id = id;
	request->role = role;
	request->data = (char *)data;
	request->length = length;
	request->peer = peer;
	request->tag = tag;
	++in_use;
	return request;
}

static void drop(struct mp_request *request)
{
	request->peer = NOT_IN_USE;
	request->next = unused;
	unused = request;
	--in_use;
}

struct mp_request *request_by_id(int id, enum role role)
{
	if (id < 0 || id >= request_count || requests[id]->role != role || requests[id]->done ||
	    requests[id]->peer == NOT_IN_USE)
		mp_fail("a packet names request %d, which is none", id);
	return requests[id];
}

void request_done(struct mp_request *request)
{
	request->done = 1;
}

mp_request send_start(const void *data, long length, int to, int tag, enum context context)
{
	struct mp_request *send;

	if (to < 0 || to >= settings.size || length < 0 || tag < 0)
		mp_fail("a send to rank %d, tag %d, of %ld bytes", to, tag, length);
	send = make(SEND, data, length, to, tag);
	send->context = context;
	++counters.messages;
	counters.bytes += length;
	if (to == settings.rank) {
		match_self(send);
	} else if (length <= settings.eager) {
		packets_queue(&channels[to], send, EAGER);
	} else {
		++counters.rendezvous;
		packets_queue(&channels[to], send, REQUEST);
	}
	return send;
}

mp_request receive_start(void *data, long room, int from, int tag, enum context context)
{
	struct mp_request *receive = make(RECEIVE, data, room, from, tag);

	receive->context = context;
	match_receive(receive);
	return receive;
}

mp_request mp_isend(const void *data, long length, int to, int tag)
{
	return send_start(data, length, to, tag, POINT_TO_POINT);
}

mp_request mp_irecv(void *data, long room, int from, int tag)
{
	return receive_start(data, room, from, tag, POINT_TO_POINT);
}

static void finish(struct mp_request *request, struct mp_status *status)
{
	if (status)
		*status = request->status;
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
	char text[120];

	if (!request->done) {
		request_describe(request, text, sizeof(text));
		progress_until(&request->done, text);
	}
	finish(request, status);
}

void request_describe(const struct mp_request *request, char *text, unsigned long room)
{
	static const char *const out[] = {"nothing", "the message", "a request", "a reply",
					  "the data and a last word"};

	snprintf(text, room, "%s %d %s %d, tag %d%s, %ld bytes, last queued: %s",
		 request->role == SEND ? "send" : "receive", request->id,
		 request->role == SEND ? "to" : "from", request->peer, request->tag,
		 request->context == COLLECTIVE ? " of a collective" : "", request->length,
		 out[request->out]);
}

/* Prints the open requests, for finding the reason of a deadlock. */
void requests_describe(int file)
{
	char text[160], line[200];
	int shown = 0;
	int i;

	for (i = 0; i < request_count && shown < 40; ++i) {
		if (requests[i]->done || requests[i]->peer == NOT_IN_USE)
			continue;
		request_describe(requests[i], text, sizeof(text));
		snprintf(line, sizeof(line), "rank %d:   open: %s\n", settings.rank, text);
		if (write(file, line, strlen(line)) < 0)
			return;
		++shown;
	}
}

void requests_close(void)
{
	if (in_use)
		mp_fail("%d requests were never waited for", in_use);
	while (request_count)
		free(requests[--request_count]);
	unused = NULL;
}
