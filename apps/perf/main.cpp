// SPDX-License-Identifier: BSD-2-Clause
/* vip_perf - the benchmarks by which VIA was measured around 2000. */
#include "../common/common.h"
#include "run.h"

extern "C" {
const char *program_name = "vip_perf";
}

namespace
{
int run_command(int argc, char **argv)
{
	CLI::App app("Measures VIPL between two processes, on one host or on two.", "vip_perf");

	app.set_version_flag("--version", VIPL_VERSION);
	app.require_subcommand(1);
	app.footer("vip_perf SUBCOMMAND --help tells the options of each.");
	for (const auto add : {add_server, add_sweeps, add_echo, add_connect, add_crowd, add_logp, add_overhead, add_scale,
			       add_waking})
		add(app);
	try {
		app.parse(argc, argv);
	} catch (const CLI::RuntimeError &e) { /* the usage was printed */
		return e.get_exit_code();
	} catch (const CLI::ParseError &e) {
		return app.exit(e) ? EXIT_USAGE : EXIT_OK;
	} catch (const std::exception &e) {
		end_progress();
		complain("%s", reason(e).c_str());
		return EXIT_FAILED;
	}
	return EXIT_OK;
}
} // namespace

int main(int argc, char **argv)
{
	hold_standard_files();
	return status_with_output(run_command(argc, argv));
}
