/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages that two libraries exchange over the socket of a connection: docs/WIRE.md has them in prose. */
#ifndef VIPL_MESSAGE_H
#define VIPL_MESSAGE_H

#include "device.h"

enum message_code {
	MESSAGE_HERE = 1,
	MESSAGE_REQUEST,
	MESSAGE_PEER_REQUEST,
	MESSAGE_ACCEPT,
	MESSAGE_CONFIRM,
	MESSAGE_REJECT,
	MESSAGE_NO_MATCH,
	MESSAGE_BUSY,
	MESSAGE_BAD_VERSION,
	MESSAGE_DISCONNECT,
};

/* Bytes only, so that it is the same on all machines. */
struct message {
	uint8_t magic[4]; /* these three are the same in all versions */
	uint8_t version;
	uint8_t code;
	/* The rest counts in requests and an accept. */
	uint8_t flags; /* level and rights */
	uint8_t own_length, wanted_length;
	uint8_t unused[3];
	uint8_t max_transfer[4];
	uint8_t own[MAX_DISCRIMINATOR_LEN], wanted[MAX_DISCRIMINATOR_LEN];
	uint8_t description[DESCRIPTION_BYTES];
};

/* `own`, `wanted` and `description` may be NULL. */
void message_write(struct message *message, uint8_t version, enum message_code code, const struct connect_info *own,
		   const struct discriminator *wanted, const struct description *description);

enum { MESSAGE_NONE = 0, MESSAGE_OF_OTHER_VERSION = -1, MESSAGE_NONSENSE = -2 };
/* The code of a message of which so many bytes have come, or one of these: MESSAGE_NONE is that more has to come. */
int message_look(const struct message *message, size_t length, uint8_t version);

/* Of a message with a code. `own` keeps its host. */
void message_read(const struct message *message, struct connect_info *own, struct discriminator *wanted,
		  struct description *description);

#endif
