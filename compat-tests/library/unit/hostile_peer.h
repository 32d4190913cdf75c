/* SPDX-License-Identifier: BSD-2-Clause */
// A peer of the loopback device that is not of this library: it asks for a connection as it should, and then writes
// into the shared memory what a test likes. For C++, which cannot read the headers of that memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hostile_peer;

// Asks who waits under this name, for some seconds; as a VI of Reliable Delivery with this MaxTransferSize. NULL when
// there is no connection.
struct hostile_peer *hostile_peer_connect(const char *wanted, uint32_t max_transfer);
// The two steps of that, at any level: until the second the one who has accepted waits.
struct hostile_peer *hostile_peer_ask(const char *wanted, uint16_t reliability, uint32_t max_transfer);
bool hostile_peer_confirm(struct hostile_peer *peer);
// Its end, as of a process that is killed.
void hostile_peer_end(struct hostile_peer *peer);

// A message of no bytes, with any stamp; the bits that announce it, or not. Nobody is woken.
void hostile_peer_publish(struct hostile_peer *peer, uint32_t stamp);
void hostile_peer_announce(struct hostile_peer *peer);
// The same message through the ring.
void hostile_peer_publish_in_ring(struct hostile_peer *peer, uint32_t stamp);
uint32_t hostile_peer_published(const struct hostile_peer *peer);
// How many of its messages are said to be consumed.
uint32_t hostile_peer_consumed(const struct hostile_peer *peer);

// What follows is about the page of the CQ, which all peers of its queues share.
// The next stamp, as an honest peer takes it.
uint32_t hostile_peer_stamp(struct hostile_peer *peer);
uint32_t hostile_peer_counter(const struct hostile_peer *peer);
void hostile_peer_set_counter(struct hostile_peer *peer, uint32_t value);
// The bits of all; of queues that do not exist, too.
void hostile_peer_set_all_bits(struct hostile_peer *peer);
void hostile_peer_clear_bits(struct hostile_peer *peer);

#ifdef __cplusplus
}
#endif
