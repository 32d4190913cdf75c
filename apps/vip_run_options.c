/* The command line of vip_run. */
#include "vip_run.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

static void usage(void)
{
	puts("Usage: vip_run [OPTION]... PROGRAM [ARGUMENT]...\n"
	     "Runs a program that was linked with another VIPL library, or that loads one, with\n"
	     "libvipl in its place. PROGRAM may have 32 or 64 bits, or be a script.\n"
	     "\n"
	     "  -n, --nic=NAME=DEVICE  the NIC which the program calls NAME is DEVICE: an RDMA device\n"
	     "                         (mlx5_0, rxe0) or the loopback device, via_lo. May be repeated.\n"
	     "  -p, --preload          put libvipl in front of any other VIPL library, also where the\n"
	     "                         program does not seem to need it: because it is a script whose\n"
	     "                         programs do, or it uses VIPL by way of other libraries\n"
	     "  -c, --check            print how the program would be run, and what is missing, and\n"
	     "                         do not run it\n"
	     "  -h, --help             print this and end\n"
	     "\n"
	     "Exit status: the program's; 125 wrong usage or no libvipl, 126 the program cannot be\n"
	     "run, 127 it is not found.");
}

/* Adds to the map, in front of what VIPL_NIC_MAP says already: the first entry counts. */
static int add_nic(struct settings *s, const char *entry)
{
	const char *device = strchr(entry, '=');
	size_t used = strlen(s->nic_map);

	if (!device || device == entry || !device[1] || strchr(entry, ',')) {
		complain("--nic wants NAME=DEVICE, not \"%s\"", entry);
		return EXIT_OURS;
	}
	if ((size_t)snprintf(s->nic_map + used, sizeof(s->nic_map) - used, "%s%s", used ? "," : "",
			     entry) >= sizeof(s->nic_map) - used) {
		complain("this is more than VIPL_NIC_MAP can hold (%zu bytes)",
			 sizeof(s->nic_map) - 1);
		return EXIT_OURS;
	}
	return -1;
}

int parse_arguments(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{"nic", required_argument, NULL, 'n'},
		{"preload", no_argument, NULL, 'p'},
		{"check", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option, result = -1;

	/* "+": what follows PROGRAM is the program's. */
	while (result < 0 && (option = getopt_long(argc, argv, "+n:pch", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			result = add_nic(s, optarg);
			break;
		case 'p':
			s->preload = true;
			break;
		case 'c':
			s->check = true;
			break;
		case 'h':
			usage();
			return EXIT_OK;
		default:
			fputs("Try --help.\n", stderr);
			return EXIT_OURS;
		}
	}
	if (result < 0 && optind == argc) {
		complain("which program? Try --help");
		return EXIT_OURS;
	}
	s->arguments = argv + optind;
	return result;
}
