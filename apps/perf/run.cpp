// SPDX-License-Identifier: BSD-2-Clause
/* vip_perf - the benchmarks by which VIA was measured around 2000. */
#include "run.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "match.h"
#include "processes.h"

#include "../common/common.h"

extern "C" {
const char *program_name = "vip_perf";
}

namespace
{
struct Options {
	std::string nic = "nic0";
	std::string host;
	bool is_self = false;
	uint16_t port = 18516;
	bool json = false;
};

/* What the server does at the client's orders, but for those of a match. */
const std::map<std::string, void (*)(const Side &side, const Json &request)> works = {
	{"connections", serve_connections}, {"logp", serve_logp},   {"storm", serve_storm},
	{"threads", serve_threads},	    {"waking", serve_waking}, {"usage", serve_usage}};

void carry_out(const Side &side, const Json &request)
{
	const std::string what = request.at("do").get<std::string>();
	const auto found = works.find(what);

	if (found == works.end())
		throw Failure("the client asks for " + text_of(what) + ", which is unknown here");
	found->second(side, request);
}

/* Serves one client until it hangs up. Sends a failure to the client, and returns it. */
std::string serve(Control &control, const std::string &nic_name)
{
	std::string failed;

	try {
		const Nic nic(nic_name);
		const Side side(control, nic, true);
		Opponents opponents(side);
		Json request;

		while (control.read_next(request))
			try {
				if (request.contains("match"))
					opponents.obey(request);
				else
					carry_out(side, request);
			} catch (const std::exception &e) {
				failed = reason(e);
				control.write_failure(e);
				opponents.dismiss();
				if (!control.await_recovery())
					return failed;
				failed.clear();
			}
	} catch (const std::exception &e) {
		control.write_failure(e);
		return failed.empty() ? reason(e) : failed;
	}
	return "";
}

/*
 * The library's waiting calls poll before they sleep. In the measurements "block" means to sleep at
 * once, as sockets do, and "spin" means to poll first. A connection may need several files.
 */
void prepare_process()
{
	rlimit limit;

	setenv("VIPL_SPIN_USEC", "0", true);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Binds this process to the n-th of the CPUs that it may use. Does nothing if there is but one. */
void pin(int n)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
		if (CPU_ISSET(cpu, &allowed) && n-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

std::string command_line()
{
	std::ifstream file("/proc/self/cmdline");
	std::string line = "vip_perf", word;

	std::getline(file, word, '\0'); /* skips the program's path */
	while (std::getline(file, word, '\0'))
		line += ' ' + word;
	return line;
}

void run(const Options &options, const Measurement &measurement, Placing placing)
{
	std::unique_ptr<Child> server; /* ends after the NIC of this side */
	std::optional<Control> elsewhere;
	const bool pins = placing == Placing::one_cpu_each;
	bool is_stopped = false;
	Reports reports;

	if (options.is_self == !options.host.empty())
		throw CLI::ValidationError("give either a HOST or --self");
	prepare_process();
	if (options.is_self) {
		server = std::make_unique<Child>([&](Control &client) {
			if (pins)
				pin(1);
			serve(client, options.nic);
		});
		if (pins)
			pin(0);
	}
	const Nic nic(options.nic);
	Control &control = server ? server->control() : elsewhere.emplace(Control::connect(options.host, options.port));

	try {
		measurement(Side(control, nic, false), reports);
	} catch (const Stopped &) {
		is_stopped = true;
	}
	for (Report &report : reports) {
		report.note("nic", nic.attributes().Name);
		report.note("peer", options.is_self ? "self" : options.host);
		report.note("command", command_line());
		if (is_stopped)
			report.remark("stopped by the user");
	}
	reports.print(options.json);
	if (is_stopped)
		throw CLI::RuntimeError(128 + SIGINT);
}

/* Takes the next client. `child` serves the former one, and then this one, whose end, however bad, ends only it. */
void serve_next(Socket &listener, const std::string &nic, std::unique_ptr<Child> &child)
{
	Socket client = accept_from(listener, no_limit);

	/* A client that hangs up and comes again may be faster than the child. */
	if (child && !child->control().is_over_within(Child::parting_limit_ms))
		return Control(std::move(client)).write_failure(Failure("the server has another client now"));
	child = std::make_unique<Child>([&](Control &) {
		Control control(std::move(client));

		listener = Socket();
		const std::string failure = serve(control, nic);
		if (!failure.empty())
			throw Failure(failure);
	});
}

/*
 * Serves one client after the other. A second client at a time would change the first one's
 * figures. A child tries the NIC before a client comes: this process forks, so it opens none.
 */
void run_server(const Options &options, bool once)
{
	std::unique_ptr<Child> child;

	prepare_process();
	if (!Child([&](Control &) { const Nic nic(options.nic); }).succeeds())
		throw CLI::RuntimeError(EXIT_FAILED);
	Socket listener = listen_on(options.port);
	complain("waits for clients on port %u, NIC %s", port_of(listener), options.nic.c_str());
	do
		try {
			serve_next(listener, options.nic, child);
		} catch (const Failure &e) { /* no file or process is free, for example, or the client has gone already */
			complain("%s", e.what());
			sleep(1);
		}
	while (!once || !child);
	listener = Socket();
	if (!child->succeeds())
		throw CLI::RuntimeError(EXIT_FAILED);
}

void add_common(CLI::App *command, Options &options)
{
	command->add_option("-n,--nic", options.nic, "VI NIC to use")->capture_default_str();
	command->add_option("-p,--port", options.port, "TCP port of the server's control connection")
		->capture_default_str();
}

void add_server(CLI::App &app)
{
	CLI::App *command = app.add_subcommand("server", "The other side, for clients of other hosts");
	auto options = std::make_shared<Options>();
	auto once = std::make_shared<bool>(false);

	add_common(command, *options);
	command->add_flag("--once", *once, "end after one client");
	command->callback([=] { run_server(*options, *once); });
}

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

CLI::App *add_measurement(CLI::App &app, const std::string &name, const std::string &about,
			  Measurement measurement, Placing placing)
{
	CLI::App *command = app.add_subcommand(name, about);
	auto options = std::make_shared<Options>();

	add_common(command, *options);
	command->add_option("HOST", options->host, "where \"vip_perf server\" runs");
	command->add_flag("--self", options->is_self, "be the server, too, as a second process");
	command->add_flag("--json", options->json, "print JSON");
	command->callback([=] { run(*options, measurement, placing); });
	return command;
}

int main(int argc, char **argv)
{
	hold_standard_files();
	return status_with_output(run_command(argc, argv));
}
