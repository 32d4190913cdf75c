/*
 * What two libraries tell each other in the private data of a connection: docs/WIRE.md describes
 * it in prose.
 */
#ifndef VIPL_RDMA_WIRE_H
#define VIPL_RDMA_WIRE_H

#include <stddef.h>

#include "device.h"

#define WIRE_VERSION 1

enum wire_code {
	WIRE_REQUEST = 1,
	WIRE_ACCEPT = 2,
	WIRE_REJECT = 3,
	WIRE_NO_MATCH = 4,
	WIRE_BAD_VERSION = 5,
	WIRE_MUTUAL_REQUEST = 6,
};

struct wire_message {
	uint8_t magic[4];
	uint8_t version;
	uint8_t code;
	uint8_t level_and_rights;
	uint8_t max_transfer[3]; /* big endian, like the mark */
	uint8_t own_length;
	uint8_t wanted_length;
	uint8_t own[MAX_DISCRIMINATOR_LEN];
	uint8_t wanted[MAX_DISCRIMINATOR_LEN];
	uint8_t mark[4];
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

/* The key of the sender's mark (reception.c), in a request and an accept; else 0. */
void wire_write_mark(struct wire_message *message, uint32_t mark);
/* Of data in which wire_read() has found a message. */
uint32_t wire_read_mark(const void *data);

#endif
