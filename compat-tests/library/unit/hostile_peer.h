/* SPDX-License-Identifier: BSD-2-Clause */
// A peer of the loopback device that is not of this library. It asks for a connection as it should, and then writes
// into the shared memory as a test likes. These functions are for C++, which cannot read the headers of that memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hostile_peer;

// Connects with the server that waits under this name, for some seconds. The peer's VI has Reliable Delivery and this
// MaxTransferSize. NULL when there is no connection.
struct hostile_peer *hostile_peer_connect(const char *wanted, uint32_t max_transfer);
// The two steps of that, at any reliability level. The server's accept waits until the second one.
struct hostile_peer *hostile_peer_ask(const char *wanted, uint16_t reliability, uint32_t max_transfer);
bool hostile_peer_confirm(struct hostile_peer *peer);
// Ends as a process that is killed.
void hostile_peer_end(struct hostile_peer *peer);

// Publishes a message of no bytes, with any stamp, and announces it by its bits. The server is not woken.
void hostile_peer_publish(struct hostile_peer *peer, uint32_t stamp);
void hostile_peer_announce(struct hostile_peer *peer);
// Publishes the same message through the ring.
void hostile_peer_publish_in_ring(struct hostile_peer *peer, uint32_t stamp);
uint32_t hostile_peer_published(const struct hostile_peer *peer);
// The number of its messages that are marked as consumed.
uint32_t hostile_peer_consumed(const struct hostile_peer *peer);

// The next functions are about the page of the CQ, which all peers of its queues share.
// Takes the next stamp, as an honest peer does.
uint32_t hostile_peer_stamp(struct hostile_peer *peer);
uint32_t hostile_peer_counter(const struct hostile_peer *peer);
void hostile_peer_set_counter(struct hostile_peer *peer, uint32_t value);
// Sets the bits of all queues, and of queues that do not exist.
void hostile_peer_set_all_bits(struct hostile_peer *peer);
void hostile_peer_clear_bits(struct hostile_peer *peer);
// Says that no thread waits.
void hostile_peer_clear_waits(struct hostile_peer *peer);

#ifdef __cplusplus
}
#endif
