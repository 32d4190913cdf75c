/* The command line of vip_loopback. */
#include "loopback.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_USAGE = 2 };

const char *const contender_names[CONTENDERS] = {"vipl", "bare", "unix", "tcp"};

/* DISCONNECT comes with CONNECT. */
static const char *const measure_names[] = {"latency", "bandwidth", "ring", "connect"};

static void usage(void)
{
	puts("Usage: vip_loopback [OPTION]...\n"
	     "Measures VIPL between two processes of this machine against what else there is\n"
	     "between two processes. It forks; the client runs on one CPU, the server on\n"
	     "another one, with all threads of the library they use. Blocks of all\n"
	     "contenders take turns within the same two processes, a block of each is a\n"
	     "round, and the first contender changes from round to round. Only figures of\n"
	     "one run can be compared: other runs find other frequencies and neighbours.\n"
	     "\n"
	     "Contenders:\n"
	     "  vipl  VIPL on the NIC\n"
	     "  bare  a word in shared memory each way; process_vm_writev for streams\n"
	     "  unix  a Unix stream socket, non-blocking, spinning on read\n"
	     "  tcp   TCP over 127.0.0.1 with TCP_NODELAY, likewise\n");
	puts("Measures:\n"
	     "  latency    microseconds one way (half a round trip, the mean of the block) of\n"
	     "             8 byte messages, polling. VIPL: receives posted ahead in a window,\n"
	     "             each posted again while the answer is under way, as\n"
	     "             ucx_perftest does; VipPostSend, VipRecvDone, VipSendDone. Every\n"
	     "             message is checked.\n"
	     "  bandwidth  MiB (1048576 bytes) per second of messages in one direction, from\n"
	     "             the first send until the client knows that all have arrived; vipl\n"
	     "             and bare. All messages leave from one buffer and go to one buffer,\n"
	     "             as those of ucx_perftest. Before each block a window of messages is\n"
	     "             sent one by one and checked in every byte; timed ones only in length.\n"
	     "  ring       the same with as many buffers as the window, at each end: these do\n"
	     "             not stay in the nearest cache.\n"
	     "  connect    microseconds of VipConnectRequest, to a server that sleeps in\n"
	     "             VipConnectWait and then calls VipConnectAccept, and microseconds of\n"
	     "             VipDisconnect by the client; of each the median in a round. A checked\n"
	     "             message, not timed, goes over each connection.\n"
	     "\n"
	     "Prints medians over the rounds, the lowest and the highest round, the median of\n"
	     "the rounds' ratios VIPL / contender (in the measure's unit: below 1 is good for\n"
	     "times, above 1 for rates), how often the scheduler took a CPU away (with many,\n"
	     "other programs are in the figures: then look at the lowest), and which bars are\n"
	     "met. A missed bar is no failure.\n");
	puts("  -n, --nic=NAME       VI NIC (default via_lo)\n"
	     "  -c, --cpus=A,B       of client and server (default the first two allowed)\n"
	     "  -o, --only=LIST      contenders, with commas (default all)\n"
	     "  -m, --measure=LIST   measures, with commas (default all)\n"
	     "  -r, --rounds=N       1 to 1000, after one that does not count (default 15)\n"
	     "  -i, --iterations=N   round trips in a block of latency (default 10000)\n"
	     "  -M, --messages=N     messages in a block of a stream (default 500)\n"
	     "  -b, --bytes=N        of a streamed message, a multiple of 8 (default 1048576)\n"
	     "  -w, --window=N       streamed messages under way, 1 to 128 (default 8)\n"
	     "  -C, --connects=N     connections in a round (default 20)\n"
	     "  -t, --time-limit=S   give up after so many seconds (default 300)\n"
	     "  -j, --json           print JSON\n"
	     "  -h, --help           print this and end\n"
	     "\n"
	     "Exit status: 0 ok, 1 failed, 2 wrong usage.");
}

static int parse_number(const char *text, unsigned long min, unsigned long max,
			unsigned long *number)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < min || value > max) {
		fprintf(stderr, "vip_loopback: \"%s\" is not a number from %lu to %lu\n", text, min,
			max);
		return -1;
	}
	*number = value;
	return 0;
}

/* The bits of the names in the list. */
static int parse_names(const char *list, const char *const *names, size_t count, unsigned int *bits)
{
	char *copy = strdup(list), *rest = copy, *item;
	int result = copy ? 0 : -1;

	*bits = 0;
	while (!result && (item = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < count && strcmp(item, names[i]) != 0)
			++i;
		if (i == count) {
			fprintf(stderr, "vip_loopback: \"%s\" is not known here\n", item);
			result = -1;
		} else {
			*bits |= 1u << i;
		}
	}
	free(copy);
	return result;
}

static int parse_cpus(const char *text, int cpus[2])
{
	char rest;

	/* Two that spin on one CPU would wait for the scheduler and measure that. */
	if (sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &rest) == 2 && cpus[0] >= 0 &&
	    cpus[1] >= 0 && cpus[0] < CPU_SETSIZE && cpus[1] < CPU_SETSIZE && cpus[0] != cpus[1])
		return 0;
	fprintf(stderr, "vip_loopback: --cpus wants two different CPUs, not \"%s\"\n", text);
	return -1;
}

static int choose_cpus(int cpus[2])
{
	cpu_set_t allowed;
	int found = 0;

	if (cpus[0] >= 0)
		return 0;
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; ++cpu)
			if (CPU_ISSET((size_t)cpu, &allowed))
				cpus[found++] = cpu;
	if (found == 2)
		return 0;
	fprintf(stderr, "vip_loopback: two CPUs are needed\n");
	return -1;
}

static int parse_bytes(const char *text, unsigned long *bytes)
{
	if (parse_number(text, 8, MAX_BYTES, bytes))
		return -1;
	if (*bytes % 8 == 0)
		return 0;
	fprintf(stderr, "vip_loopback: --bytes wants a multiple of 8\n");
	return -1;
}

/* The options that are numbers and lists; returns -1 when the argument is wrong. */
static int take_value(int option, struct settings *s)
{
	switch (option) {
	case 'c':
		return parse_cpus(optarg, s->cpus);
	case 'o':
		return parse_names(optarg, contender_names, CONTENDERS, &s->contenders);
	case 'm':
		return parse_names(optarg, measure_names,
				   sizeof(measure_names) / sizeof(measure_names[0]), &s->measures);
	case 'r':
		return parse_number(optarg, 1, MAX_ROUNDS, &s->rounds);
	case 'i':
		return parse_number(optarg, 1, 1000000000, &s->iterations);
	case 'M':
		return parse_number(optarg, 1, 1000000000, &s->messages);
	case 'b':
		return parse_bytes(optarg, &s->bytes);
	case 'w':
		return parse_number(optarg, 1, MAX_WINDOW, &s->window);
	case 'C':
		return parse_number(optarg, 1, MAX_CONNECTS, &s->connects);
	case 't':
		return parse_number(optarg, 1, 86400, &s->time_limit);
	default:
		fputs("Try --help.\n", stderr);
		return -1;
	}
}

/* Returns -1 to go on, else the status to exit with. */
static int take_option(int option, struct settings *s)
{
	switch (option) {
	case 'n':
		s->nic = optarg;
		return -1;
	case 'j':
		s->json = true;
		return -1;
	case 'h':
		usage();
		return EXIT_OK;
	default:
		return take_value(option, s) ? EXIT_USAGE : -1;
	}
}

static void set_defaults(struct settings *s)
{
	*s = (struct settings){
		.nic = "via_lo",
		.cpus = {-1, -1},
		.contenders = (1u << CONTENDERS) - 1,
		.measures = (1u << MEASURES) - 1,
		.rounds = 15,
		.iterations = 10000,
		.messages = 500,
		.bytes = 1 << 20,
		.window = 8,
		.connects = 20,
		.time_limit = 300,
	};
}

int parse_arguments(int argc, char **argv, struct settings *settings)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},
		{"cpus", required_argument, NULL, 'c'},
		{"only", required_argument, NULL, 'o'},
		{"measure", required_argument, NULL, 'm'},
		{"rounds", required_argument, NULL, 'r'},
		{"iterations", required_argument, NULL, 'i'},
		{"messages", required_argument, NULL, 'M'},
		{"bytes", required_argument, NULL, 'b'},
		{"window", required_argument, NULL, 'w'},
		{"connects", required_argument, NULL, 'C'},
		{"time-limit", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option, result;

	set_defaults(settings);
	while ((option = getopt_long(argc, argv, "n:c:o:m:r:i:M:b:w:C:t:jh", options, NULL)) !=
	       -1) {
		result = take_option(option, settings);
		if (result >= 0)
			return result;
	}
	if (optind < argc) {
		fprintf(stderr, "vip_loopback: there are no arguments but options\n");
		return EXIT_USAGE;
	}
	return choose_cpus(settings->cpus) ? EXIT_USAGE : -1;
}
