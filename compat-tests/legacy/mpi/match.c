/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * match.c - finds the receive for each message. Posted receives are in the order of posting.
 * Messages without a receive are in the order of arrival, so that none overtakes another.
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

/* A message that came before its receive. It is copied here, or still with its sender. */
struct unexpected {
	int source;
	int tag;
	enum context context;
	long length;
	char *data;                   /* NULL while it is with the sender */
	int sender_request;           /* if the sender is another process */
	struct mp_request *self_send; /* if the sender is this process */
	struct unexpected *next;
};

static struct mp_request *posted_first, *posted_last;
static struct unexpected *unexpected_first, *unexpected_last;

static int fits(const struct mp_request *receive, int source, int tag, enum context context)
{
	return receive->context == context && receive->tag == tag &&
	       (receive->peer == source || receive->peer == MP_ANY_SOURCE);
}

static struct mp_request *take_posted(int source, int tag, enum context context)
{
	struct mp_request **place, *before = NULL, *found;

	for (place = &posted_first; (found = *place) != NULL; place = &found->next) {
		if (fits(found, source, tag, context)) {
			*place = found->next;
			if (posted_last == found)
				posted_last = before;
			found->status.source = source;
			found->status.tag = tag;
			return found;
		}
		before = found;
	}
	return NULL;
}

static struct unexpected *keep(int source, int tag, enum context context, long length)
{
	struct unexpected *message = calloc(1, sizeof(*message));

	if (!message)
		mp_fail("no memory for an unexpected message");
	message->source = source;
	message->tag = tag;
	message->context = context;
	message->length = length;
	if (unexpected_first)
		unexpected_last->next = message;
	else
		unexpected_first = message;
	unexpected_last = message;
	++counters.unexpected;
	return message;
}

static void keep_copy(struct unexpected *message, const char *data)
{
	message->data = malloc(message->length + 1);
	if (!message->data)
		mp_fail("no memory for an unexpected message");
	memcpy(message->data, data, message->length);
}

static void deliver(struct mp_request *receive, const char *data, long length)
{
	if (length > receive->length)
		mp_fail("a message of %ld bytes from rank %d, tag %d, does not fit into %ld", length,
			receive->status.source, receive->status.tag, receive->length);
	memcpy(receive->data, data, length);
	receive->status.length = length;
	request_done(receive);
}

void match_eager(int source, const struct head *head, const char *data)
{
	enum context context = (enum context)head->context;
	struct mp_request *receive = take_posted(source, head->tag, context);

	if (receive)
		deliver(receive, data, head->length);
	else
		keep_copy(keep(source, head->tag, context, head->length), data);
}

void match_request(int source, const struct head *head)
{
	enum context context = (enum context)head->context;
	struct mp_request *receive = take_posted(source, head->tag, context);

	if (receive)
		rendezvous_accept(receive, source, head->sender_request, head->length);
	else
		keep(source, head->tag, context, head->length)->sender_request =
			head->sender_request;
}

/*
 * A short message to this process itself is done when it is copied, as any other. A long one is
 * done when it is received.
 */
void match_self(struct mp_request *send)
{
	struct mp_request *receive = take_posted(settings.rank, send->tag, send->context);
	struct unexpected *message;

	if (receive) {
		deliver(receive, send->data, send->length);
		request_done(send);
		return;
	}
	message = keep(settings.rank, send->tag, send->context, send->length);
	if (send->length <= settings.eager) {
		keep_copy(message, send->data);
		request_done(send);
	} else {
		message->self_send = send;
	}
}

static struct unexpected *take_unexpected(const struct mp_request *receive)
{
	struct unexpected **place, *before = NULL, *found;

	for (place = &unexpected_first; (found = *place) != NULL; place = &found->next) {
		if (fits(receive, found->source, found->tag, found->context)) {
			*place = found->next;
			if (unexpected_last == found)
				unexpected_last = before;
			return found;
		}
		before = found;
	}
	return NULL;
}

/* Gives the receive a message that has already come, or posts it. */
void match_receive(struct mp_request *receive)
{
	struct unexpected *message = take_unexpected(receive);

	if (!message) {
		receive->next = NULL;
		if (posted_first)
			posted_last->next = receive;
		else
			posted_first = receive;
		posted_last = receive;
		return;
	}
	receive->status.source = message->source;
	receive->status.tag = message->tag;
	if (message->data) {
		deliver(receive, message->data, message->length);
	} else if (message->self_send) {
		deliver(receive, message->self_send->data, message->length);
		request_done(message->self_send);
	} else {
		rendezvous_accept(receive, message->source, message->sender_request,
				  message->length);
	}
	free(message->data);
	free(message);
}

/* Checks at the end that no message and no receive is left. */
void match_close(void)
{
	if (posted_first)
		mp_fail("a receive from rank %d, tag %d, was never served", posted_first->peer,
			posted_first->tag);
	if (unexpected_first)
		mp_fail("a message from rank %d, tag %d, %ld bytes, was never received",
			unexpected_first->source, unexpected_first->tag, unexpected_first->length);
}
