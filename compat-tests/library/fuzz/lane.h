/* SPDX-License-Identifier: BSD-2-Clause */
/* The peers of fuzz_lane, which write anything into the memory that they share with the device. */
#ifndef FUZZ_LANE_H
#define FUZZ_LANE_H

#include "fuzz.h"

#define PEER_SIZE   0x20000u
#define PEER_DOMAIN 7u

extern uint8_t *child_memory; /* PEER_SIZE bytes at this address in both processes */

/* lane_peer.c: the peers' steps */
void peer_message(struct vi *vi, struct input *input);
void peer_publish(struct vi *vi, struct input *input);
void peer_region(struct vi *vi, struct input *input);
void peer_answer(struct vi *vi, struct input *input);
void peer_consume(struct vi *vi, struct input *input);
void peer_field(struct vi *vi, struct input *input);
/* Changes a word in the page of a CQ. */
void peer_page(struct vi *vi, struct input *input);
void peer_scribble(struct vi *vi, struct input *input);
void peer_race(struct vi *vi, struct input *input);

#endif
