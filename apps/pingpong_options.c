/* The command line of vip_pingpong. */
#include "pingpong.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SIZES         "1,8,64,512,1024,4096,16384,32768,65472"
#define DEFAULT_DISCRIMINATOR "vip_pingpong"

enum {
	DEFAULT_ITERATIONS = 1000,
	DEFAULT_TIMEOUT = 10, /* seconds */
	OPTION_NO_CHECK = 256,
	OPTION_WATCH,
};

const char *reliability_name(VIP_RELIABILITY_LEVEL level)
{
	switch (level) {
	case VIP_SERVICE_UNRELIABLE:
		return "unreliable";
	case VIP_SERVICE_RELIABLE_DELIVERY:
		return "delivery";
	default:
		return "reception";
	}
}

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: vip_pingpong [OPTION]...          serve one client, then end\n"
		"       vip_pingpong [OPTION]... SERVER   be the client of SERVER\n"
		"Sends messages to and fro between two VIs. SERVER is a host name, localhost,\n"
		"or an IP address (IPv6 with VIPL_ADDRESS_BYTES=16). The client prints for each\n"
		"size the time one way (half a round trip, the mean of all iterations, in\n"
		"microseconds) and the bandwidth of that (in MiB, 1048576 bytes, per second).\n"
		"\n"
		"Both sides:\n"
		"  -n, --nic=NAME            VI NIC to use (default nic0)\n"
		"  -d, --discriminator=TEXT  where server and client meet, for several pairs at\n"
		"                            once (default " DEFAULT_DISCRIMINATOR ")\n"
		"  -t, --timeout=SECONDS     give up when the peer is silent for so long (default\n"
		"                            %d; without this option a server waits for its\n"
		"                            client as long as it takes)\n"
		"  -j, --json                print JSON\n"
		"  -h, --help                print this and end\n"
		"Client only, the server follows:\n"
		"  -s, --sizes=LIST          bytes per message, with commas, 0 allowed, up to %d\n"
		"                            sizes (default " DEFAULT_SIZES ")\n"
		"  -i, --iterations=N        timed round trips per size (default %d)\n"
		"  -w, --wait                block in VipSendWait and VipRecvWait (with --cq in\n"
		"                            VipCQWait) instead of polling\n"
		"      --watch               look at the status of descriptors in memory, as some old\n"
		"                            programs do, and call the library only when it says\n"
		"                            done; needs VIPL_PROGRESS=on\n"
		"  -c, --cq                  take completions from one VipCQ\n"
		"  -r, --reliability=LEVEL   unreliable, delivery or reception (default delivery)\n"
		"      --no-check            do not check the contents of messages\n"
		"\n"
		"Checks: before the timed iterations of each size come a tenth as many (1 to %d)\n"
		"whose every byte is checked on both sides. In the timed ones only the length\n"
		"and the first and the last byte are, so that the check is not what is measured.\n"
		"A program that polls in vain for long gives its CPU away with sched_yield now\n"
		"and then, since the peer may need it.\n"
		"\n"
		"Exit status: 0 ok, 1 failed, 2 wrong usage.\n",
		DEFAULT_TIMEOUT, MAX_SIZES, DEFAULT_ITERATIONS, MAX_CHECKED);
}

static int parse_sizes(const char *list, struct settings *s)
{
	char *copy = strdup(list), *rest = copy, *item;
	unsigned long size;
	int result = copy ? 0 : -1;

	s->num_sizes = 0;
	while (!result && (item = strsep(&rest, ","))) {
		if (s->num_sizes == MAX_SIZES || parse_number(item, 0, UINT32_MAX, &size))
			result = -1;
		else
			s->sizes[s->num_sizes++] = size;
	}
	free(copy);
	if (result)
		complain("--sizes wants at most %d numbers with commas, not \"%s\"", MAX_SIZES,
			 list);
	return result;
}

static int parse_reliability(const char *text, VIP_RELIABILITY_LEVEL *level)
{
	static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_UNRELIABLE,
						       VIP_SERVICE_RELIABLE_DELIVERY,
						       VIP_SERVICE_RELIABLE_RECEPTION};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); ++i)
		if (!strcmp(text, reliability_name(levels[i]))) {
			*level = levels[i];
			return 0;
		}
	complain("--reliability wants unreliable, delivery or reception, not \"%s\"", text);
	return -1;
}

static int parse_count(const char *option, const char *text, unsigned long max,
		       unsigned long *number)
{
	if (!parse_number(text, 1, max, number))
		return 0;
	complain("%s wants a number from 1 to %lu, not \"%s\"", option, max, text);
	return -1;
}

/* -1: taken, go on; else the status to exit with. */
static int take_option(int option, struct settings *s)
{
	unsigned long number;

	switch (option) {
	case 'n':
		s->endpoint.nic = optarg;
		return -1;
	case 'd':
		s->endpoint.discriminator = optarg;
		return -1;
	case 't':
		if (parse_count("--timeout", optarg, 86400, &number))
			return EXIT_USAGE;
		s->endpoint.timeout = number * 1000;
		s->has_timeout = true;
		return -1;
	case 'j':
		s->json = true;
		return -1;
	case 's':
		return parse_sizes(optarg, s) ? EXIT_USAGE : -1;
	case 'i':
		return parse_count("--iterations", optarg, 1000000000, &s->iterations) ? EXIT_USAGE
										       : -1;
	case 'w':
		s->endpoint.wait = true;
		return -1;
	case 'c':
		s->endpoint.use_cq = true;
		return -1;
	case 'r':
		return parse_reliability(optarg, &s->endpoint.reliability) ? EXIT_USAGE : -1;
	case OPTION_WATCH:
		s->endpoint.watch = true;
		return -1;
	case OPTION_NO_CHECK:
		s->check = false;
		return -1;
	case 'h':
		usage(stdout);
		return EXIT_OK;
	default:
		fputs("Try --help.\n", stderr);
		return EXIT_USAGE;
	}
}

static void set_defaults(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	s->endpoint.nic = "nic0";
	s->endpoint.discriminator = DEFAULT_DISCRIMINATOR;
	s->endpoint.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
	s->endpoint.timeout = DEFAULT_TIMEOUT * 1000;
	s->iterations = DEFAULT_ITERATIONS;
	s->check = true;
	parse_sizes(DEFAULT_SIZES, s);
}

int parse_arguments(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},
		{"discriminator", required_argument, NULL, 'd'},
		{"timeout", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"sizes", required_argument, NULL, 's'},
		{"iterations", required_argument, NULL, 'i'},
		{"wait", no_argument, NULL, 'w'},
		{"cq", no_argument, NULL, 'c'},
		{"reliability", required_argument, NULL, 'r'},
		{"watch", no_argument, NULL, OPTION_WATCH},
		{"no-check", no_argument, NULL, OPTION_NO_CHECK},
		{NULL, 0, NULL, 0},
	};
	int option, result;

	set_defaults(s);
	while ((option = getopt_long(argc, argv, "n:d:t:jhs:i:wcr:", options, NULL)) != -1) {
		result = take_option(option, s);
		if (result >= 0)
			return result;
	}
	if (s->endpoint.watch && (s->endpoint.wait || s->endpoint.use_cq)) {
		complain("--watch goes with neither --wait nor --cq");
		return EXIT_USAGE;
	}
	if (argc - optind > 1) {
		complain("only one SERVER can be given");
		return EXIT_USAGE;
	}
	s->server = argv[optind]; /* NULL when there is none */
	return -1;
}
