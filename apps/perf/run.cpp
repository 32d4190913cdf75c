#include "run.h"

#include <csignal>
#include <fstream>
#include <iostream>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connect.h"
#include "logp_link.h"
#include "match.h"

namespace
{
/* Serves one client, until it hangs up. What fails is told to it, and returned. */
std::string serve(Control &control, const std::string &nic_name)
{
	try {
		const Nic nic(nic_name);
		const Side side = {control, nic, true};
		Json request;

		control.meet();
		while (control.read_next(request)) {
			const std::string what = request.at("do").get<std::string>();

			if (what == "match")
				serve_match(side, request);
			else if (what == "connections")
				serve_connections(side, request);
			else if (what == "logp")
				serve_logp(side);
			else
				throw Failure("the client asks for \"" + what +
					      "\", which is unknown here");
		}
	} catch (const std::exception &e) {
		try {
			control.write({{"failed", e.what()}});
		} catch (const std::exception &) {
			/* it has gone */
		}
		return e.what();
	}
	return "";
}

/* On the n-th of the CPUs that this process may use; where there are too few, on any. */
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

/* The server as a child of this process, which ends with its parent. */
class OwnServer
{
public:
	explicit OwnServer(const std::string &nic)
	{
		const pid_t parent = getpid();
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			fail_errno("make a pair of sockets");
		child_ = fork();
		if (child_ < 0)
			fail_errno("start a process");
		if (child_ == 0) {
			close(ends[0]);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == parent) {
				Control control(ends[1]);

				pin(1);
				serve(control, nic);
			}
			_exit(0);
		}
		close(ends[1]);
		pin(0);
		socket_ = ends[0];
	}
	~OwnServer()
	{
		waitpid(child_, nullptr, 0); /* it goes when the client has hung up */
	}
	OwnServer(const OwnServer &) = delete;
	OwnServer &operator=(const OwnServer &) = delete;

	int take_socket()
	{
		return std::exchange(socket_, -1);
	}

private:
	pid_t child_;
	int socket_;
};

std::string command_line()
{
	std::ifstream file("/proc/self/cmdline");
	std::string line = "vip_perf", word;

	std::getline(file, word, '\0'); /* the program, wherever it is */
	while (std::getline(file, word, '\0'))
		line += ' ' + word;
	return line;
}

void run(const Options &options, const Measurement &measurement)
{
	std::unique_ptr<OwnServer> own;

	if (options.is_self == !options.host.empty())
		throw CLI::ValidationError("give either a HOST or --self");
	if (options.is_self)
		own = std::make_unique<OwnServer>(options.nic);
	Control control = own ? Control(own->take_socket())
			      : Control::connect(options.host, options.port);
	const Nic nic(options.nic);

	control.meet();
	Report report = measurement({control, nic, false});
	report.note("nic", nic.attributes().Name);
	report.note("peer", options.is_self ? "self" : options.host);
	report.note("command", command_line());
	report.print(options.format());
}

void run_server(const Options &options, bool once)
{
	const int listener = listen_on(options.port);

	do {
		const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);

		if (fd < 0)
			fail_errno("take a client");
		Control control(fd);

		const std::string failure = serve(control, options.nic);

		if (!failure.empty())
			std::cerr << "vip_perf: " << failure << '\n';
	} while (!once);
	close(listener);
}

void add_common(CLI::App *command, Options &options)
{
	command->add_option("-n,--nic", options.nic, "VI NIC to use")->capture_default_str();
	command->add_option("-p,--port", options.port, "TCP port of the server's control connection")
		->capture_default_str();
}
} // namespace

CLI::App *add_measurement(CLI::App &app, const std::string &name, const std::string &about,
			  Measurement measurement)
{
	CLI::App *command = app.add_subcommand(name, about);
	auto options = std::make_shared<Options>();

	add_common(command, *options);
	command->add_option("HOST", options->host, "where \"vip_perf server\" runs");
	command->add_flag("--self", options->is_self, "be the server, too, as a second process");
	CLI::Option *json = command->add_flag("--json", options->json, "print JSON");
	command->add_flag("--csv", options->csv, "print comma-separated values")->excludes(json);
	command->callback([=] { run(*options, measurement); });
	return command;
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

void add_waiting_option(CLI::App *command, Waiting &waiting)
{
	static const std::map<std::string, Waiting> words = {
		{"poll", Waiting::poll}, {"block", Waiting::block}, {"spin", Waiting::spin}};

	command->add_option("--wait", waiting, "poll, block, or spin (polls for a while, then blocks)")
		->transform(CLI::CheckedTransformer(words));
}

void add_only_option(CLI::App *command, std::string &only)
{
	command->add_option("--only", only, "vipl or tcp (default: both, to be compared)")
		->check(CLI::IsMember({"vipl", "tcp"}));
}
