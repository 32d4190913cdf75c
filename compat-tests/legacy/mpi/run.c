/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.c - the work of each process: it runs the programs in rounds, while there is time, and prints
 * a line about each.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "layer.h"
#include "programs.h"

#define EARLY       0.25 /* after this part of a course a process must not grow any more */
#define LEAST_EARLY 3    /* rounds */

static const struct {
	const char *name;
	void (*round)(unsigned int seed, long round);
} programs[] = {
	{"collectives", collectives_round},
	{"traffic", traffic_round},
};

#define PROGRAMS (int)(sizeof(programs) / sizeof(programs[0]))

/* All rounds of one program. */
struct course {
	const struct plan *plan;
	const char *name;
	double start;
	long round;
	struct health early; /* memory is 0 before the measurement */
	long growth;         /* KiB since the measurement */
};

/* Rank 0 looks at the clock and sends its verdict: 0 ends the course, 2 measures now. */
static int goes_on(struct course *course)
{
	const struct plan *plan = course->plan;
	double used = mp_now() - course->start;
	char verdict = 1;

	if (mp_rank() == 0) {
		if (used >= plan->seconds || (plan->rounds && course->round >= plan->rounds))
			verdict = 0;
		else if (!course->early.memory && course->round >= LEAST_EARLY &&
			 (plan->rounds ? course->round >= plan->rounds * EARLY :
					 used >= plan->seconds * EARLY))
			verdict = 2;
	}
	mp_bcast(&verdict, 1, 0);
	if (verdict == 2)
		health_take(&course->early);
	++course->round;
	return verdict;
}

static void add(void *into, const void *from, long bytes)
{
	double *sum = into;
	const double *other = from;
	long i;

	for (i = 0; i < bytes / (long)sizeof(double); ++i)
		sum[i] += other[i];
}

static void summary(const struct course *course, const struct counters *before)
{
	double mine[8], all[8];
	double seconds = mp_now() - course->start;

	mine[0] = counters.messages - before->messages;
	mine[1] = counters.bytes - before->bytes;
	mine[2] = counters.rendezvous - before->rendezvous;
	mine[3] = counters.unexpected - before->unexpected;
	mine[4] = counters.packets - before->packets;
	mine[5] = counters.credit_packets - before->credit_packets;
	mine[6] = counters.registrations - before->registrations;
	mine[7] = counters.registration_hits - before->registration_hits;
	mp_reduce(mine, all, sizeof(mine), add, 0);
	if (mp_rank())
		return;
	printf("%s: %d processes, %ld rounds, %.0f messages, %.0f bytes, %.1f s, seed %u; "
	       "%.0f rendezvous, %.0f unexpected, %.0f packets, %.0f only for credits, "
	       "%.0f registrations used %.0f times more; %s",
	       course->name, mp_size(), course->round - 1, all[0], all[1], seconds,
	       course->plan->seed, all[2], all[3], all[4], all[5], all[6], all[7],
	       course->early.memory ? "" : "memory not measured: ok\n");
	if (course->early.memory)
		printf("memory flat, %+ld KiB on rank 0: ok\n", course->growth);
	fflush(stdout);
}

int run(const struct plan *plan, int to_launcher, int from_launcher)
{
	struct settings with = settings;
	int done = 0;
	int i;

	/*
	 * Long blocks go back to the system when they are freed, no matter what was freed before.
	 */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	layer_open(&with, to_launcher, from_launcher);
	for (i = 0; i < PROGRAMS; ++i) {
		struct course course;
		struct counters before = counters;

		if (strcmp(plan->program, "all") != 0 &&
		    strcmp(plan->program, programs[i].name) != 0)
			continue;
		memset(&course, 0, sizeof(course));
		course.plan = plan;
		course.name = programs[i].name;
		mp_barrier();
		course.start = mp_now();
		while (goes_on(&course))
			programs[i].round(plan->seed, course.round);
		mp_barrier();
		if (course.early.memory)
			course.growth = health_compare(&course.early, mp_size() - 1);
		summary(&course, &before);
		++done;
	}
	layer_close();
	return done ? 0 : 1;
}
