// SPDX-License-Identifier: BSD-2-Clause
// vip_stress: many processes, all connected to all, exchange random messages over Reliable Delivery
// VIs while some of them are killed and replaced. These rules must hold:
//
// - Every message whose send was completed arrives at a receiver that lives on: intact, in order,
//   once, with its immediate data. That holds even if the sender was killed right afterwards.
// - A process that is connected to a killed one gets CONN_LOST within a bound. Its VI is then in
//   ERROR, and its queues are flushed. It gets connected to the replacement.
// - Nothing hangs, and nothing is left behind: no descriptors, mappings, processes, files, sockets.
//
// It uses the public API alone, and so can judge any VIPL library on any NIC.
#include "coordinator.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <getopt.h>
#include <random>
#include <unistd.h>

using namespace stress;

namespace
{

const char kUsage[] = R"(usage: vip_stress [OPTION]...
  --nic=NAME             the NIC (default: $VIPL_TEST_NIC, or nic0)
  --processes=N          so many processes, 2 to 64 (default 16)
  --seconds=N            with messages and kills (default 10)
  --kills-per-second=X   on average, at random moments (default 2)
  --bound=MS             from the end of a killed process until CONN_LOST (default 1000)
  --seed=N               of all random choices (default: another one each time)
  --verbose              say who is started and killed
exit status: 0 if all was well, 1 if not, 2 for a wrong option
)";

double number(const char *text, double least, double most)
{
	char *end;
	double value = strtod(text, &end);
	if (end != text && *end == '\0' && value >= least && value <= most)
		return value;
	fprintf(stderr, "vip_stress: \"%s\" is not a number from %g to %g\n", text, least, most);
	exit(2);
}

uint64_t seedFrom(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);
	if (end != text && *end == '\0')
		return value;
	fprintf(stderr, "vip_stress: \"%s\" is no seed\n", text);
	exit(2);
}

Options parse(int argc, char **argv)
{
	enum : int { kNic = 1, kProcesses, kSeconds, kKills, kBound, kSeed, kVerbose, kHelp };
	const option known[] = {{"nic", required_argument, nullptr, kNic},
				{"processes", required_argument, nullptr, kProcesses},
				{"seconds", required_argument, nullptr, kSeconds},
				{"kills-per-second", required_argument, nullptr, kKills},
				{"bound", required_argument, nullptr, kBound},
				{"seed", required_argument, nullptr, kSeed},
				{"verbose", no_argument, nullptr, kVerbose},
				{"help", no_argument, nullptr, kHelp},
				{}};
	Options options;
	const char *nic = getenv("VIPL_TEST_NIC");
	options.nic = nic && *nic ? nic : "nic0";
	options.seed = std::random_device()();
	for (int which; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
		if (which == kNic)
			options.nic = optarg;
		else if (which == kProcesses)
			options.processes = static_cast<unsigned>(number(optarg, 2, kRanks));
		else if (which == kSeconds)
			options.seconds = static_cast<unsigned>(number(optarg, 0, 1e6));
		else if (which == kKills)
			options.killsPerSecond = number(optarg, 0, 1000);
		else if (which == kBound)
			options.bound = static_cast<unsigned>(number(optarg, 1, 1e6));
		else if (which == kSeed)
			options.seed = seedFrom(optarg);
		else if (which == kVerbose)
			options.verbose = true;
		else
			fputs(kUsage, which == kHelp ? stdout : stderr),
				exit(which == kHelp ? 0 : 2);
	}
	if (optind < argc)
		fputs(kUsage, stderr), exit(2);
	return options;
}

} // namespace

int main(int argc, char **argv)
{
	Options options = parse(argc, argv);
	printf("vip_stress --nic=%s --processes=%u --seconds=%u --kills-per-second=%g --bound=%u "
	       "--seed=%llu\n",
	       options.nic.c_str(), options.processes, options.seconds, options.killsPerSecond,
	       options.bound, static_cast<unsigned long long>(options.seed));
	fflush(stdout);
	// libvipl repeats a request for a while before VIP_NO_MATCH. Here the program repeats it.
	setenv("VIPL_GRACE_MSEC", "200", 0);
	alarm(options.seconds + 300); // ends the program even if the other watchdogs fail
	Coordinator coordinator(options);
	bool well = coordinator.run();
	puts(well ? "vip_stress: all was well" : "vip_stress: FAILED");
	return well ? 0 : 1;
}
