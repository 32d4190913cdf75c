/*
 * One connected VI with what a ping-pong needs around it: the NIC, a region
 * of registered memory, and two descriptors with a buffer each way, so that
 * one receive is always posted while the other one is looked at.
 */
#ifndef VIP_APPS_ENDPOINT_H
#define VIP_APPS_ENDPOINT_H

#include "common.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { SLOTS = 2 };

struct endpoint_options {
	const char *nic;
	const char *discriminator;
	VIP_RELIABILITY_LEVEL reliability;
	size_t room;           /* bytes of the longest message */
	unsigned long timeout; /* milliseconds that the peer may be silent */
	bool use_cq;
	bool wait;  /* block instead of polling */
	bool watch; /* look at the status in memory, and call only when it is done */
};

struct endpoint {
	struct endpoint_options options;
	VIP_NIC_HANDLE nic;
	VIP_NIC_ATTRIBUTES attributes;
	union address local;
	union address remote;

	VIP_PROTECTION_HANDLE ptag;
	VIP_CQ_HANDLE cq;
	VIP_VI_HANDLE vi;
	uint8_t *memory;
	VIP_MEM_HANDLE memory_handle;

	VIP_DESCRIPTOR *send[SLOTS];
	VIP_DESCRIPTOR *receive[SLOTS];
	uint8_t *send_buffer[SLOTS];
	uint8_t *receive_buffer[SLOTS];

	/*
	 * How many messages have come to each step. Work queues are first in
	 * first out, so a count also says which slot is meant.
	 */
	unsigned long sends_posted;
	unsigned long sends_done;
	unsigned long receives_posted;
	unsigned long receives_done;
	unsigned long receives_taken;

	uint64_t empty_polls;
	struct timespec deadline;

	/* 1 + the VIP_ERROR_CODE that the error handler heard of last. */
	atomic_uint async_error;
};

/* Opens the NIC. All of these return -1 after a message of their own. */
int endpoint_open(struct endpoint *ep, const struct endpoint_options *options);

/* Makes the VI, posts the receives, and connects it to the server. */
int endpoint_connect(struct endpoint *ep, const char *server);

/*
 * Waits for one client and accepts it. The client decides about the size of
 * messages, the reliability level and the use of a completion queue.
 * limit: milliseconds, or VIP_INFINITE.
 */
int endpoint_accept(struct endpoint *ep, unsigned long limit);

/* The buffer whose contents the next endpoint_send sends. */
uint8_t *endpoint_next_buffer(struct endpoint *ep);

/*
 * Posts one message. What is not urgent is done after that, while the
 * message travels: posting the receive that was taken last again, and
 * collecting the send before this one.
 */
int endpoint_send(struct endpoint *ep, size_t length);

/* Waits for one message; its bytes stay valid until the next endpoint_send. */
int endpoint_receive(struct endpoint *ep, const uint8_t **data, size_t *length);

/* Posts receives until all slots are. */
int endpoint_post_receives(struct endpoint *ep);

/* Waits until all sends are done. */
int endpoint_drain(struct endpoint *ep);

/* Waits, for a moment only, until the peer has disconnected. */
void endpoint_await_hangup(struct endpoint *ep);

/* Gives everything back that the endpoint has got, however far it came. */
int endpoint_close(struct endpoint *ep);

#endif
