/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of two processes over the socket when they connect: docs/LOOPBACK.md. */
#ifndef VIPL_LOOPBACK_HELLO_H
#define VIPL_LOOPBACK_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "vipl.h"

#define HELLO_MAGIC   0x4c504956u /* "VIPL" */
#define HELLO_VERSION 5 /* of these messages, and of what link.h and cq_page.h describe */

enum hello_kind {
	HELLO_REQUEST = 1,
	HELLO_ACCEPT,
	HELLO_REJECT,
	HELLO_NO_MATCH,
	HELLO_BAD_VERSION,
	HELLO_CONFIRM,
	HELLO_PEER_REQUEST,
	HELLO_BUSY,
};

enum hello_rights { HELLO_RDMA_WRITE = 1, HELLO_RDMA_READ = 2 };

/* In the byte order of the machine, since it does not leave it. */
struct hello {
	uint32_t magic; /* these three are the same in all versions */
	uint16_t version;
	uint16_t kind;
	/* The rest counts in requests and an accept. */
	uint16_t reliability;
	uint16_t rights;
	uint32_t max_transfer;
	uint32_t domain; /* the number of the VI's protection tag */
	uint32_t queue; /* the number of the receive queue in its CQ's page, plus 1; 0: no page */
	uint64_t agent_bell, channel_bell; /* of the agent; of threads that sleep on the receive queue */
	uint64_t nonce_address; /* where the sender has the nonce in its memory */
	uint8_t nonce[16];
	uint8_t own_length, wanted_length;
	uint8_t own[MAX_DISCRIMINATOR_LEN], wanted[MAX_DISCRIMINATOR_LEN];
	uint8_t filler[6];
};

/* The region table; in an accept also the link; and if the sender's receive queue has one, its CQ's page. */
#define HELLO_FDS 3

#define HELLO_CUT (-2)

/* False when the other end is gone. Does not block. */
bool hello_send(int fd, const struct hello *hello, const int *fds, unsigned count);
/*
 * The kind; 0 when the other end is gone or makes no sense; HELLO_BAD_VERSION when it is of a
 * version that we do not know; HELLO_CUT when it came without its descriptors, as we may have no more;
 * -1 when there is nothing yet. `fds` are the caller's, -1 for none: memory that may be mapped. After 0 or HELLO_CUT
 * the socket has to be closed.
 */
int hello_receive(int fd, struct hello *hello, int fds[HELLO_FDS]);
void hello_close_fds(int fds[HELLO_FDS]);

#endif
