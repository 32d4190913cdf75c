/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of two libraries to each other, in the private data of a connection and over control
 * connections: docs/WIRE.md describes them in prose.
 */
#ifndef VIPL_RDMA_WIRE_H
#define VIPL_RDMA_WIRE_H

#include <stddef.h>

#include "device.h"

#define WIRE_VERSION 2

enum wire_code {
	WIRE_REQUEST = 1,
	WIRE_ACCEPT = 2,
	WIRE_REJECT = 3,
	WIRE_NO_MATCH = 4,
	WIRE_BAD_VERSION = 5,
	WIRE_PEER_REQUEST = 6,
	WIRE_BUSY = 7,
	/* On control connections. */
	WIRE_HELLO = 16,
	WIRE_GONE = 17,
	WIRE_ASK = 18,
	WIRE_CONNECTED = 19,
	WIRE_UNHEARD = 20,
};

struct wire_message {
	uint8_t magic[4];
	uint8_t version;
	uint8_t code;
	uint8_t flags;		 /* level, rights, and which discriminators are of full length */
	uint8_t max_transfer[3]; /* big endian, like the port and the rkey */
	uint8_t port[2];
	uint8_t own[MAX_DISCRIMINATOR_LEN];
	uint8_t wanted[MAX_DISCRIMINATOR_LEN];
	uint8_t flush_rkey[4];
};

/* `own` and `wanted` may be NULL. */
void wire_write(struct wire_message *message, enum wire_code code, const struct connect_info *own,
		const struct discriminator *wanted);

/*
 * The code, or 0 when this is no message of ours, or WIRE_BAD_VERSION when it is of a version that
 * we do not know. `own` (but its host) and `wanted` are set for requests and an accept.
 */
enum wire_code wire_read(const void *data, size_t length, struct connect_info *own,
			 struct discriminator *wanted);

/* Members of a request and an accept that only this device uses; else zeros. */
struct wire_extra {
	uint32_t flush_rkey; /* the rkey of the sender's flush_mr: flush.c */
	uint16_t port; /* where the sender takes control connections: control.c */
	uint8_t mtu;   /* of an accept: the most that the sender's port takes, an enum ibv_mtu */
};

void wire_write_extra(struct wire_message *message, struct wire_extra extra);
/* For data in which wire_read() has found a message. */
struct wire_extra wire_read_extra(const void *data);

/* A message of a control connection. */
struct wire_control {
	uint8_t magic[4];
	uint8_t version;
	uint8_t code;
	uint8_t port[2]; /* big endian, like the rest */
	uint8_t from[4];
	uint8_t to[4];
	uint8_t number[4];
};

struct wire_control_fields {
	uint16_t port;	 /* where the sender takes control connections */
	uint32_t from;	 /* the sender's queue pair, */
	uint32_t to;	 /* and the receiver's */
	uint32_t number; /* of the connection: see WIRE.md */
};

void wire_write_control(struct wire_control *message, enum wire_code code,
			const struct wire_control_fields *fields);
/* The code; 0 when this is no message of ours. */
enum wire_code wire_read_control(const struct wire_control *message,
				 struct wire_control_fields *fields);

#endif
