/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.c - the options of vip_mpi, and the work of each process: rounds of traffic, as long as there is time. From a
 * quarter of the time on it must not take more memory, nor leave files open.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
	printf("%d processes, %ld rounds, seed %d; memory %s: ok\n", settings.size, rounds, table.seed,
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

/* ---- the options ---- */

static const char usage[] =
	"usage: vip_mpi [OPTION VALUE]...\n"
	"Random traffic of a message-passing layer on VIPL, which checks what it receives.\n"
	"\n"
	"  -n N                processes on this host, 1 to 32 (default 2)\n"
	"  --first PORT        there are two hosts with N processes each, of which this is the\n"
	"                      first: all processes call it by TCP, at this port\n"
	"  --second HOST:PORT  this is the second one, with the other options the same\n"
	"  --nic NAME          their NIC (default via_lo)\n"
	"  --seconds S         how long it runs (default 2)\n"
	"  --seed N            makes a run like an earlier one (default: the time)\n"
	"  --connect HOW       all: each asks those of lower rank, at the start (default)\n"
	"                      peers: as equals, at the start\n"
	"                      demand: when there is something to send\n"
	"  --poll 1            never sleep in VipCQWait\n"
	"  --eager BYTES       longer messages take rendezvous (default 4096)\n"
	"  --credits N         receives posted for each peer, 4 to 256 (default 16)\n"
	"  --stall S           no progress for so long is a failure (default 10)\n";

static const struct {
	const char *name;
	int *value;
	int least, most;
} numbers[] = {
	{"-n", &settings.here, 1, MAX_PROCESSES},
	{"--seconds", &settings.seconds, 1, 1000000},
	{"--seed", &settings.seed, 0, 0x7FFFFFFF},
	{"--poll", &settings.only_poll, 0, 1},
	{"--eager", &settings.eager, 64, 65536},
	{"--credits", &settings.credits, 4, 256},
	{"--stall", &settings.stall, 1, 1000000},
};

static const char *const ways[] = {"all", "peers", "demand"}; /* enum connecting */

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

/* Returns whether there is such an option, which takes such a value. */
static int take(const char *name, char *value)
{
	int i;

	for (i = 0; i < COUNT(numbers); ++i)
		if (!strcmp(name, numbers[i].name)) {
			*numbers[i].value = atoi(value);
			return *numbers[i].value >= numbers[i].least &&
			       *numbers[i].value <= numbers[i].most;
		}
	if (!strcmp(name, "--connect")) {
		while (settings.connecting < COUNT(ways) &&
		       strcmp(value, ways[settings.connecting]) != 0)
			++settings.connecting;
		return settings.connecting < COUNT(ways);
	}
	if (!strcmp(name, "--second")) {
		settings.launcher = strtok(value, ":");
		settings.port = strtok(NULL, ":");
		return settings.port != NULL;
	}
	if (!strcmp(name, "--first"))
		settings.port = value;
	else if (!strcmp(name, "--nic"))
		settings.nic = value;
	else
		return 0;
	return 1;
}

int main(int argc, char **argv)
{
	int good = 1;
	int i;

	settings.nic = "via_lo";
	settings.here = settings.seconds = 2;
	settings.seed = (int)time(NULL);
	settings.eager = 4096;
	settings.credits = 16;
	settings.stall = 10;
	for (i = 1; i < argc && good; i += 2)
		good = i + 1 < argc && take(argv[i], argv[i + 1]);
	settings.size = settings.here * (settings.port ? 2 : 1);
	if (!good || settings.size < 2 || settings.size > MAX_PROCESSES) {
		fputs(usage, stderr);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (settings.launcher) {
		settings.first = settings.here;
		return launch(0);
	}
	settings.launcher = "127.0.0.1";
	return launch(1);
}
