/* SPDX-License-Identifier: BSD-2-Clause */
/* programs.h - the programs, what they share, and what they are told. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "mp.h"

struct plan {
	const char *program; /* or "all" */
	double seconds;      /* for each program */
	unsigned int seed;
	long rounds; /* of each program at most; 0: as many as there is time for */
};

/* What a process holds: KiB that are resident, those which it shares with nobody, descriptors. */
struct health {
	long memory, own_memory, files;
};

/* Numbers that are the same on every machine. */
unsigned int next_random(unsigned int *state);
unsigned int random_below(unsigned int *state, unsigned int bound);

void collectives_round(unsigned int seed, long round);
void traffic_round(unsigned int seed, long round);
void halo_round(unsigned int seed, long round);

/*
 * Shared by the processes of a host, a place for each rank: how many barriers it has come to. Of
 * those on another host that is not known, and said to be many.
 */
extern volatile unsigned int *arrivals;

void health_take(struct health *health);
/* Fails if the process holds more now than it did then. Returns the KiB that it may hold more. */
long health_compare(const struct health *early, int peers);

#endif
