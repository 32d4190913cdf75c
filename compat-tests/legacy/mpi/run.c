/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.c - the work of each process: rounds of traffic, as long as there is time. From a quarter of
 * the time on it must not take more memory, nor leave files open.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "layer.h"

#define EARLY        0.25 /* after this part of the time a process must not grow any more */
#define EARLY_ROUNDS 3
/*
 * KiB by which a process may grow later: memory that malloc keeps, and memory that a NIC may share
 * with each peer and touches only gradually.
 */
#define MORE_OWN    4096
#define MORE_SHARED 1536

/* A sanitizer keeps memory that a program frees. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MEMORY 0
#else
#define COUNTS_MEMORY 1
#endif

struct settings settings;
struct table table;
struct counters counters;

/* KiB of resident memory, and of that what no other process shares; open files. */
struct health {
	long memory, own_memory, files;
};

static void health_take(struct health *health)
{
	FILE *file = fopen("/proc/self/statm", "r");
	DIR *directory = opendir("/proc/self/fd");
	long page = sysconf(_SC_PAGESIZE) / 1024, resident, shared;

	if (!file || !directory || fscanf(file, "%*d %ld %ld", &resident, &shared) != 2)
		mp_fail("no /proc");
	health->memory = resident * page;
	health->own_memory = (resident - shared) * page;
	health->files = 0;
	while (readdir(directory))
		++health->files;
	closedir(directory);
	fclose(file);
}

static void compare(const char *what, long early, long late, long more)
{
	if (late > early + more)
		mp_fail("%s: %ld after a quarter of the time, %ld at the end", what, early, late);
}

static void health_compare(const struct health *early)
{
	struct health late;

	health_take(&late);
	/* On via_lo the first long message to each of the others opens its memory. */
	compare("files are left open", early->files, late.files, settings.size - 1);
	if (!COUNTS_MEMORY)
		return;
	compare("memory grows, KiB of its own", early->own_memory, late.own_memory, MORE_OWN);
	compare("memory grows, KiB", early->memory, late.memory,
		MORE_OWN + (settings.size - 1) * MORE_SHARED);
}

enum verdict { ENDS, GOES_ON, MEASURES };

/* Rank 0 looks at the clock and sends its verdict. */
static enum verdict decide(double start, long round, int measured)
{
	double used = (mp_now() - start) / settings.seconds;
	char verdict = GOES_ON;

	if (used >= 1)
		verdict = ENDS;
	else if (!measured && round >= EARLY_ROUNDS && used >= EARLY)
		verdict = MEASURES;
	mp_bcast(&verdict, 1);
	return (enum verdict)verdict;
}

static void summary(long rounds, int measured)
{
	printf("%d processes, %ld rounds, seed %d; rank 0: %.0f messages, %.0f bytes, "
	       "%.0f rendezvous, %.0f unexpected, %.0f packets, %.0f only for credits, "
	       "%.0f registrations used %.0f times more; memory %s: ok\n",
	       settings.size, rounds, table.seed, counters.messages, counters.bytes,
	       counters.rendezvous, counters.unexpected, counters.packets,
	       counters.credit_packets, counters.registrations, counters.registration_hits,
	       measured ? "flat" : "not measured");
}

static void layer_open(void)
{
	struct host own = {0};

	doing = "VipOpenNic";
	nic_open(&own);
	packets_open();
	launcher_tell(&own);
	channels_open();
	doing = NULL;
}

/* Ends the parts in the reverse order. */
static void layer_close(void)
{
	mp_barrier();
	if (settings.connecting == CONNECT_ON_DEMAND)
		demand_stop(); /* nobody asks after a barrier */
	packets_goodbye();
	match_close();
	doing = "VipDisconnect";
	regcache_close();
	channels_close();
	packets_close();
	nic_close();
}

int run(void)
{
	enum verdict verdict;
	struct health early;
	int measured = 0;
	long round = 0;
	double start;

	/* Long blocks go back to the system when they are freed, no matter what was freed before. */
	mallopt(M_MMAP_THRESHOLD, 64 * 1024);
	layer_open();
	mp_barrier();
	start = mp_now();
	while ((verdict = decide(start, round, measured)) != ENDS) {
		if (verdict == MEASURES) {
			health_take(&early);
			measured = 1;
		}
		traffic_round((unsigned int)table.seed, ++round);
	}
	mp_barrier();
	if (measured)
		health_compare(&early);
	if (settings.rank == 0)
		summary(round, measured);
	layer_close();
	return 0;
}
