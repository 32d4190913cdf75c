/* SPDX-License-Identifier: BSD-2-Clause */
// What a process says of its data path over via_lo, and one that writes into the shared memory as a test likes. These functions
// are for C++, which cannot read the headers of that memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct description;

// Describes an end whose receive queue is on no CQ of the program. The caller closes the descriptors: the region table,
// which is empty, so that nobody copies to or from this peer, and of an accepting end the link.
bool local_describe(struct description *own, bool accepts);

struct hostile_peer;

// The end of a connection with its memory, of which the accepting end has sent these descriptors and this description.
// NULL if it is none.
struct hostile_peer *hostile_peer_open(const void *description, int page_fd, int link_fd);
void hostile_peer_close(struct hostile_peer *peer);

// Publishes a message of no bytes, with any stamp, inlined or in the ring, and announces it by its bits. The server is not
// woken.
void hostile_peer_publish(struct hostile_peer *peer, uint32_t stamp, bool in_ring);
void hostile_peer_announce(struct hostile_peer *peer);
uint32_t hostile_peer_published(const struct hostile_peer *peer);
// The number of its messages that are marked as consumed.
uint32_t hostile_peer_consumed(const struct hostile_peer *peer);

// Says that the peer is in a copy, or not any more.
void hostile_peer_copies(struct hostile_peer *peer, bool is_in_copy);
// Whether the other end has said that it closes.
bool hostile_peer_sees_closed(const struct hostile_peer *peer);
// Publishes a message of a kind that does not exist.
void hostile_peer_violate(struct hostile_peer *peer);

// The next functions are about the page of the CQ, which all peers of its queues share.
// Takes the next stamp, as an honest peer does.
uint32_t hostile_peer_stamp(struct hostile_peer *peer);
uint32_t hostile_peer_counter(const struct hostile_peer *peer);
void hostile_peer_set_counter(struct hostile_peer *peer, uint32_t value);
// In each word of bits: those of all queues, and of queues that do not exist.
void hostile_peer_set_bits(struct hostile_peer *peer, uint32_t bits);
// Says that no thread waits, nor the agent.
void hostile_peer_clear_waits(struct hostile_peer *peer);
// Whether the agent asks for wake-ups.
bool hostile_peer_is_to_wake(const struct hostile_peer *peer);

#ifdef __cplusplus
}
#endif
