/* SPDX-License-Identifier: BSD-2-Clause */
/* programs.h - the programs, their options, and functions that they share. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "mp.h"

struct plan {
	const char *program; /* or "all" */
	double seconds;      /* for each program */
	unsigned int seed;
	long rounds; /* of each program at most; 0: no limit */
};

/*
 * The resources of a process: KiB of resident memory, KiB that it shares with no other process,
 * open files.
 */
struct health {
	long memory, own_memory, files;
};

/* Returns numbers that are the same on every machine. */
unsigned int next_random(unsigned int *state);
unsigned int random_below(unsigned int *state, unsigned int bound);

void collectives_round(unsigned int seed, long round);
void traffic_round(unsigned int seed, long round);

/*
 * The processes of a host share it. For each rank it has the number of barriers that the rank has
 * come to. For ranks on another host it has a large number, because the real number is not known.
 */
extern volatile unsigned int *arrivals;

void health_take(struct health *health);
/*
 * Fails if the process has more resources now than it had then. Returns the KiB by which it may
 * have grown.
 */
long health_compare(const struct health *early, int peers);

#endif
