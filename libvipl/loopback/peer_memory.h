/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a peer's process, for copies by the kernel. The number of a process that has died is given to another process.
 * So a copy goes to the process that was connected, or it fails.
 */
#ifndef VIPL_LOOPBACK_PEER_MEMORY_H
#define VIPL_LOOPBACK_PEER_MEMORY_H

#include <sys/queue.h>
#include <sys/types.h>

#include "device.h"
#include "link.h"

/* A page of our own, by which peers recognise this process. It holds the nonce. A child of fork() does not get it. */
struct nonce_page {
	uint8_t nonce[NONCE_BYTES];
	uint8_t written; /* peers write here, and nobody reads it */
};

/* NULL when there is no memory or no randomness: there are no direct copies then. */
struct nonce_page *nonce_page_create(void);
void nonce_page_destroy(struct nonce_page *page);

/* The peers of a device whose memory is open; guarded by the NIC's lock. */
LIST_HEAD(peer_memories, peer_memory);

struct loopback_device;

/*
 * [nic] Opens the memory of a process that is said to have the nonce at this address. Connections with the same process share it,
 * and end with the process. NULL when there is no such address, or no memory here.
 */
struct peer_memory *peer_memory_open(struct loopback_device *device, pid_t process, uint64_t nonce_address,
				     const uint8_t nonce[NONCE_BYTES]);
/* [nic] `memory` may be NULL. */
void peer_memory_close(struct peer_memory *memory);

/*
 * Copies between the send's local segments and remote ones, LANE_SEGMENTS at most. 0 or errno: EFAULT if memory of
 * either side is not there; ESRCH if the process has ended or has executed another program; EPERM if it has never had the nonce,
 * or the kernel gives no access. It may take any time: the peer's page faults may be served by a program.
 */
int peer_memory_copy(struct peer_memory *memory, const struct device_send *send,
		     const struct segment *remote, unsigned remote_count, bool is_write);

#endif
