// SPDX-License-Identifier: BSD-2-Clause
// vip_stress: many processes, all connected to all, exchange random messages over Reliable Delivery
// VIs while some of them are killed and replaced. These rules must hold:
//
// - Every message whose send was completed arrives at a receiver that lives on: intact, in order,
//   once, with its immediate data. That holds even if the sender was killed right afterwards.
// - A process that is connected to a killed one gets CONN_LOST within a bound. Its VI is then in
//   ERROR, and its queues are flushed. It gets connected to the replacement.
// - Nothing hangs, and nothing is left behind: no descriptors, mappings, processes.
//
// It uses the public API alone, and so can judge any VIPL library on any NIC.
#include "board.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <unistd.h>

using namespace stress;

namespace
{

Options parsed(CLI::App &app, int argc, char **argv)
{
	Options options;
	const char *nic = getenv("VIPL_TEST_NIC");
	options.nic = nic && *nic ? nic : "nic0";
	options.seed = std::random_device()();
	app.add_option("--nic", options.nic, "the NIC (default: $VIPL_TEST_NIC, or nic0)");
	app.add_option("--seed", options.seed, "of all random choices (default: another one each time)");
	app.option_defaults()->always_capture_default();
	app.add_option("--processes", options.processes, "so many processes")->check(CLI::Range(2U, kRanks));
	app.add_option("--seconds", options.seconds, "with messages and kills");
	app.add_option("--kills-per-second", options.killsPerSecond, "on average, at random moments")
		->check(CLI::Range(0.0, 1000.0));
	app.add_option("--bound", options.bound, "ms, from the end of a killed process until CONN_LOST")
		->check(CLI::Range(1U, 1000000U));
	app.parse(argc, argv);
	return options;
}

bool run(const Options &options)
{
	printf("vip_stress --nic=%s --processes=%u --seconds=%u --kills-per-second=%g --bound=%u --seed=%llu\n",
	       options.nic.c_str(), options.processes, options.seconds, options.killsPerSecond, options.bound,
	       static_cast<unsigned long long>(options.seed));
	fflush(stdout);
	// libvipl repeats a request for a while before VIP_NO_MATCH. Here the program repeats it.
	setenv("VIPL_GRACE_MSEC", "200", 0);
	alarm(options.seconds + 300); // ends the program even if the other watchdogs fail
	bool well = coordinate(options);
	puts(well ? "vip_stress: all was well" : "vip_stress: FAILED");
	return well;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Processes that exchange messages, while some of them are killed.", "vip_stress");
	app.footer("exit status: 0 if all was well, 1 if not, 2 for a wrong option");
	try {
		return run(parsed(app, argc, argv)) ? 0 : 1;
	} catch (const CLI::ParseError &error) {
		return app.exit(error) ? 2 : 0;
	}
}
