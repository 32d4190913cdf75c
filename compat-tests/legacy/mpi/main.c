/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - the options of vip_mpi. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layer.h"

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
