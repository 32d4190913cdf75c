/* SPDX-License-Identifier: BSD-2-Clause */
/* The description of a data path over via_lo: docs/LOOPBACK.md. */
#ifndef VIPL_LOOPBACK_DESCRIBE_H
#define VIPL_LOOPBACK_DESCRIBE_H

#include <stdint.h>

#include "peer_memory.h"

#define LOOPBACK_VERSION 10 /* of the messages, and of what this, link.h and cq_page.h describe */

/* In the byte order of the machine, since it does not leave it. */
struct path_description {
	uint32_t domain;
	uint32_t queue; /* the number of the receive queue in its CQ's page, plus 1; 0: no page */
	uint64_t nonce_address; /* where the sender has the nonce in its memory */
	uint8_t nonce[NONCE_BYTES];
};

#endif
