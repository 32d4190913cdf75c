/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - the options of vip_mpi. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "layer.h"
#include "programs.h"

#define START_LIMIT 120 /* seconds for the work before and after the programs */

static const char usage_text[] =
	"usage: vip_mpi [OPTION]...\n"
	"Programs of a message-passing layer on VIPL; each checks what it receives.\n"
	"\n"
	"  -n N                processes on this host, 1 to 32 (default 2)\n"
	"  --first PORT        there are two hosts with N processes each, of which this is the\n"
	"                      first: the second is told of the rest by TCP, at this port\n"
	"  --second HOST:PORT  this is the second one, with the other options the same\n"
	"  --nic NAME          their NIC (default via_lo)\n"
	"  --program NAME      collectives, traffic or all (default all)\n"
	"  --seconds S         how long each program runs (default 2, with --rounds 600)\n"
	"  --rounds R          so many rounds of each, if there is time\n"
	"  --seed N            makes a run like an earlier one (default: the time)\n"
	"  --connect HOW       all: each asks those of lower rank, at the start (default)\n"
	"                      peers: as equals, at the start\n"
	"                      demand: when there is something to send\n"
	"  --poll              never sleep in VipCQWait\n"
	"  --eager BYTES       longer messages take rendezvous (default 4096)\n"
	"  --credits N         receives posted for each peer, 4 to 256 (default 16)\n"
	"  --stall S           no progress for so long is a failure (default 10)\n";

static int usage(int status)
{
	fputs(usage_text, status ? stderr : stdout);
	return status;
}

static const struct option options[] = {
	{"first", required_argument, NULL, '1'},   {"second", required_argument, NULL, '2'},
	{"nic", required_argument, NULL, 'N'},	   {"program", required_argument, NULL, 'p'},
	{"seconds", required_argument, NULL, 's'}, {"rounds", required_argument, NULL, 'r'},
	{"seed", required_argument, NULL, 'S'},	   {"connect", required_argument, NULL, 'c'},
	{"poll", no_argument, NULL, 'P'},	   {"eager", required_argument, NULL, 'e'},
	{"credits", required_argument, NULL, 'C'}, {"stall", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},	   {NULL, 0, NULL, 0},
};

static int connecting(const char *name)
{
	static const char *const names[] = {"all", "peers", "demand"};
	int i;

	for (i = 0; i < 3; ++i)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

static void take_second(char *place, struct settings *with)
{
	char *colon = strrchr(place, ':');

	with->other_host = place;
	with->port = "";
	if (colon) {
		*colon = 0;
		with->port = colon + 1;
	}
}

static void take(int option, struct settings *with, struct plan *plan)
{
	switch (option) {
	case 'n':
		with->here = with->size = atoi(optarg);
		break;
	case '1':
		with->port = optarg;
		break;
	case '2':
		take_second(optarg, with);
		break;
	case 'N':
		with->nic = optarg;
		break;
	case 'p':
		plan->program = optarg;
		break;
	case 's':
		plan->seconds = atof(optarg);
		break;
	case 'r':
		plan->rounds = atol(optarg);
		break;
	case 'S':
		plan->seed = (unsigned int)strtoul(optarg, NULL, 0);
		break;
	case 'c':
		with->connecting = (enum connecting)connecting(optarg);
		break;
	case 'P':
		with->only_poll = 1;
		break;
	case 'e':
		with->eager = atol(optarg);
		break;
	case 'C':
		with->credits = atoi(optarg);
		break;
	default:
		with->stall = atoi(optarg);
	}
}

static int is_sensible(const struct settings *with, const struct plan *plan)
{
	static const char *const programs[] = {"all", "collectives", "traffic"};
	int known = 0;
	int i;

	for (i = 0; i < 3; ++i)
		known |= !strcmp(plan->program, programs[i]);
	return known && with->here >= 1 &&
	       with->here <= (with->port ? MAX_PROCESSES / 2 : MAX_PROCESSES) &&
	       (!with->port || with->port[0]) &&
	       (int)with->connecting >= 0 && with->eager >= 64 && with->eager <= 65536 &&
	       with->credits >= 4 && with->credits <= 256 && with->stall > 0 &&
	       plan->seconds > 0 && plan->seconds < 1e6 && plan->rounds >= 0;
}

int main(int argc, char **argv)
{
	struct settings with;
	struct plan plan;
	double limit;
	int option;

	memset(&with, 0, sizeof(with));
	memset(&plan, 0, sizeof(plan));
	with.nic = "via_lo";
	with.here = with.size = 2;
	with.job = (int)getpid();
	with.eager = 4096;
	with.credits = 16;
	with.stall = 10;
	plan.program = "all";
	plan.seed = (unsigned int)time(NULL);
	while ((option = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		if (option == 'h' || option == '?')
			return usage(option == '?');
		take(option, &with, &plan);
	}
	if (plan.seconds == 0)
		plan.seconds = plan.rounds ? 600 : 2;
	if (optind != argc || !is_sensible(&with, &plan))
		return usage(1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (with.port && other_host_meet(&with, &plan))
		return 1;
	limit = START_LIMIT + with.stall + 2 * plan.seconds;
	return launch(&with, &plan, (int)limit);
}
