// SPDX-License-Identifier: BSD-2-Clause
// vip_faults: one side of a connection for tests with faults. It sends and checks numbered
// messages, or stays in a given state, and prints the errors that it gets, with times. A test
// starts two of them, on one host or on two, makes the fault and reads their output.
//
// It uses the public API alone, and so can be linked with any VIPL library.
#include "traffic.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <unistd.h>

using namespace faults;

namespace
{

enum Exit { kWell = 0, kUsage = 2, kBroke = 3 }; // and 1 after an error

// Returns what turns these words into values.
template <typename Value> CLI::Transformer words(std::map<std::string, Value> values)
{
	return CLI::Transformer(values);
}

Options parsed(CLI::App &app, int argc, char **argv)
{
	Options options;
	const char *nic = getenv("VIPL_TEST_NIC");
	options.nic = nic && *nic ? nic : "nic0";
	std::string timeout;
	app.add_option("role", options.role, "serve, call, or equal: how it is connected")
		->required()
		->transform(words<Role>({{"serve", Role::Serve}, {"call", Role::Call}, {"equal", Role::Equal}}));
	app.add_option("--act", options.act, "traffic, idle, sleep, or hold: what it does then")
		->transform(words<Act>(
			{{"traffic", Act::Traffic}, {"idle", Act::Idle}, {"sleep", Act::Sleep}, {"hold", Act::Hold}}));
	app.add_option("--nic", options.nic, "the NIC (default: $VIPL_TEST_NIC, or nic0)");
	app.add_option("--host", options.host, "the peer's host (default: this one)");
	app.add_option("--name", options.name, "the discriminator of who is asked");
	app.add_option("--own", options.own, "the discriminator of who asks");
	app.add_option("--level", options.level, "unreliable, delivery, or reception")
		->transform(words<VIP_RELIABILITY_LEVEL>({{"unreliable", VIP_SERVICE_UNRELIABLE},
							  {"delivery", VIP_SERVICE_RELIABLE_DELIVERY},
							  {"reception", VIP_SERVICE_RELIABLE_RECEPTION}}));
	app.add_option("--operation", options.operation, "send, write, or read")
		->transform(words<VIP_UINT16>({{"send", VIP_CONTROL_OP_SENDRECV},
					       {"write", VIP_CONTROL_OP_RDMAWRITE},
					       {"read", VIP_CONTROL_OP_RDMAREAD}}));
	app.add_option("--seconds", options.seconds, "from the first connection to the end");
	app.add_option("--messages", options.messages, "so many of its own are the end, too");
	app.add_option("--rate", options.rate, "messages a second, at most");
	app.add_option("--largest", options.largest, "bytes of a message");
	app.add_option("--timeout", timeout, "ms, or infinite: of the calls that connect");
	app.add_flag("--unordered", options.unordered, "data may come twice and out of order");
	app.add_flag("--reconnect", options.reconnect, "connects anew after a break");
	app.add_option("--times", options.times, "connects anew after a good end, until so many");
	app.add_option("--limit", options.limit, "seconds, after which it ends itself");
	app.add_option("--spoil", options.spoil, "byte, missing, or twice: sends one message so")
		->transform(words<Spoil>(
			{{"byte", Spoil::Byte}, {"missing", Spoil::Missing}, {"twice", Spoil::Twice}}));
	app.parse(argc, argv);
	if (!timeout.empty())
		options.timeout = timeout == "infinite" ? VIP_INFINITE : strtoul(timeout.c_str(), nullptr, 10);
	return options;
}

// Makes no call until the connection ends, by the peer or by the signal.
bool idle(Side &side, double endsAt)
{
	event("idle");
	while (!side.lost.wait(20) && !side.signal.rung() && now() < endsAt)
		;
	return !side.lost.rung();
}

bool sleepInVipl(Side &side)
{
	side.tellFlushed("receive", side.awaitReceive());
	side.awaitLoss();
	return false;
}

// Returns whether the connection ended in good order.
bool act(Side &side, double endsAt)
{
	if (side.options.act == Act::Traffic)
		return Traffic(side, std::random_device()() | 1, endsAt).run();
	return side.options.act == Act::Sleep ? sleepInVipl(side) : idle(side, endsAt);
}

int run(const Options &options)
{
	static Bell signal; // static, because the thread that rings it remains
	ringOnSignal(signal);
	alarm(options.limit);
	Side side(options, signal);
	event("ready", "pid=%d", getpid());
	bool isWell = false;
	unsigned connections = 0, ends = 0;
	double endsAt = 0;
	do {
		if (!side.connect())
			break;
		if (connections++ == 0)
			endsAt = now() + options.seconds * 1e3;
		isWell = act(side, endsAt);
		side.disconnect();
	} while ((isWell ? ++ends < options.times : options.reconnect) && !side.deviceGone.rung());
	side.release();
	event("over", "connections=%u well=%d", connections, isWell);
	return isWell ? kWell : kBroke;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("One side of a connection on which something goes wrong.", "vip_faults");
	app.footer(
		"exit status: 0 if all was well, 1 if something was wrong, 2 for a wrong option,\n"
		"3 if the connection broke or did not come about, and nothing was wrong");
	try {
		return run(parsed(app, argc, argv));
	} catch (const CLI::ParseError &error) {
		return app.exit(error) ? kUsage : kWell;
	}
}
