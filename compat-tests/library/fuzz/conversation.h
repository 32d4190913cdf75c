/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fuzz_conversation adds to the world: a connector, whose program listens, connects and accepts, and a peer. The peer
 * has sockets of its own, and sends anything in any phase. Over TCP there is a conversation and no data path.
 */
#ifndef FUZZ_CONVERSATION_H
#define FUZZ_CONVERSATION_H

#include "connect/connect.h"
#include "fuzz.h"
#include "link.h"

#define REQUESTS 8u
#define LINES    96u /* more than the device's limit of half-open clients */
#define HOSTAGES 32u

struct talk {
	struct request *requests[REQUESTS]; /* not answered by the program yet */
	unsigned request_count, listening;
	struct acceptor *acceptor; /* while it listens */
	struct connector *connector;
	bool is_remote; /* the sockets are of TCP */
	bool takes_requests;
};

extern struct talk talk;

/* conversation_world.c */
void talk_create(struct input *input);
void talk_destroy(void);
/* Where these are met, number from 0 on. False: there is no such place. */
bool world_place(const struct discriminator *wanted, unsigned number, struct place *place);
#define PLACES 4u /* of a discriminator */
/* The discriminators of the device's program and of the peer. No other process uses them. */
enum whose { OWN = 1, OTHER };
struct discriminator discriminator_of(enum whose whose);

/* conversation_peer.c: the peer's steps */
void peer_open(void);
void peer_close(void);
void peer_call(struct input *input);
void peer_call_often(struct input *input);
void peer_wait(struct input *input);
void peer_take_call(struct input *input);
void peer_say(struct input *input);
void peer_listen(struct input *input);
void peer_hang_up(struct input *input);
/* Tries to shrink the memory behind all descriptors that it has sent and kept. */
void descriptor_shrink(struct input *input);

#endif
