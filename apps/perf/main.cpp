// SPDX-License-Identifier: BSD-2-Clause
/* vip_perf - the benchmarks by which VIA was measured around 2000. */
#include <cstdio>
#include <iostream>

#include <CLI/CLI.hpp>

#include "failure.h"
#include "run.h"

extern "C" {
#include "../common/common.h"

const char *program_name = "vip_perf";
}

namespace
{
bool is_output_written()
{
	return std::cout.flush() && !fflush(stdout) && !ferror(stdout);
}

int run_command(int argc, char **argv)
{
	CLI::App app("Measures VIPL between two processes, on one host or on two.", "vip_perf");

	app.set_version_flag("--version", VIPL_VERSION);
	app.require_subcommand(1);
	app.footer("vip_perf SUBCOMMAND --help tells the options of each.");
	add_server(app);
	add_sweeps(app);
	add_echo(app);
	add_connect(app);
	add_crowd(app);
	add_logp(app);
	add_overhead(app);
	add_scale(app);
	add_waking(app);
	try {
		app.parse(argc, argv);
	} catch (const CLI::RuntimeError &e) { /* the usage was printed */
		return e.get_exit_code();
	} catch (const CLI::ParseError &e) {
		const int rc = app.exit(e);

		return rc ? EXIT_USAGE : EXIT_OK;
	} catch (const std::exception &e) {
		progress("");
		std::cerr << "vip_perf: " + reason(e) + '\n';
		return EXIT_FAILED;
	}
	return EXIT_OK;
}
} // namespace

int main(int argc, char **argv)
{
	hold_standard_files();

	const int rc = run_command(argc, argv);

	if (is_output_written())
		return rc;
	std::cerr << "vip_perf: cannot write to the standard output\n";
	return rc ? rc : EXIT_FAILED;
}
