// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf connect - measures how long it takes to make a connection and to end it.
 *
 * The method is that of Jacobson, MacDonald and Du (University of Minnesota, TR 00-023, 4.3). It
 * does this N times:
 *
 *	connection	VipCreateVi and VipConnectRequest
 *	disconnection	VipDisconnect and VipDestroyVi
 *
 * It reports the average, its standard error, minimum, median and maximum of both, and of each of
 * the four calls. The time of a request includes the server's work to accept it: the server has a
 * VI ready and waits in VipConnectWait, then calls VipConnectAccept. It does not include the time
 * until the server waits. The server says that it is about to wait, and the client begins then,
 * which may be a moment too early. So VIPL_GRACE_MSEC=0 makes the library answer VIP_NO_MATCH at
 * once where no server waits. Such a try does not count: the client destroys the VI, and begins and
 * times the connection again. The head of the JSON has the number of these tries ("too_early"). The
 * server disconnects after the client, outside of the measured time.
 *
 * TCP is measured for comparison: socket and connect, then close. These calls do less: connect
 * returns when the server's kernel, not the server, has accepted the connection, and close waits
 * for nothing. On an RDMA device bare queue pairs are measured, too: the two ends tell each other of
 * them over TCP, and bring them up. That is the least that a connection can take.
 *
 * A machine's speed changes within a run, so they take turns, ten each. A turn is a tenth
 * of the connections, one after the other. The later turns have as many connections as the first
 * turn had time for; otherwise slow moments would have fewer samples than fast ones. The first
 * three connections of each turn do not count.
 */
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "connect_bare.h"
#include "options.h"
#include "arithmetic.h"

namespace
{
constexpr unsigned usual_count = 1000, least_count = 20, most_count = 20000;
constexpr unsigned most_turns = 10, warm_up = 3;
/* A try keeps the server busy, so the client pauses between tries. */
constexpr auto early_pause = std::chrono::milliseconds(1);
/* Of the first turn: after that it stops at the least count. */
constexpr double turn_limit_us = 1.5e6;
constexpr double match_limit_us = 10e6; /* the server's VipConnectWait has the same limit */
constexpr VIP_ULONG request_limit_ms = 10000;
constexpr size_t max_transfer = 4096;

struct Times {
	Samples connection, disconnection, create, connect, disconnect, destroy;
};

struct Wanted {
	unsigned count = 0; /* 0: the usual count */
	std::string only;
};

/* At least `least` connections, and up to `most` while there is time. */
struct Turn {
	unsigned least, most;
};

std::vector<Turn> turns_of(const Wanted &wanted)
{
	const unsigned least = wanted.count ? wanted.count : least_count;
	const unsigned most = wanted.count ? wanted.count : usual_count;
	const unsigned turns = std::min(most_turns, least);
	const auto part = [=](unsigned count, unsigned i) {
		return count * (i + 1) / turns - count * i / turns;
	};
	std::vector<Turn> all;

	for (unsigned i = 0; i < turns; ++i)
		all.push_back({part(least, i), part(most, i)});
	return all;
}

/*
 * Unless the user gave a count, a later turn has as many connections as the first one had time for.
 */
Turn next_turn(const Turn &planned, size_t turns_done, const Times &times)
{
	const auto samples = static_cast<unsigned>(times.connection.size());
	const bool is_certain = planned.least == planned.most;

	if (is_certain || !turns_done)
		return planned;
	return {samples / unsigned(turns_done), samples / unsigned(turns_done)};
}

/* Each call of `once(times)` adds a sample to each of the times. */
template <class Once> void repeat(const Turn &turn, Times &times, const Once &once)
{
	const double start = now_us();
	Times none;

	for (unsigned i = 0; i < warm_up; ++i)
		once(none);
	for (unsigned done = 0; done < turn.most; ++done) {
		if (done >= turn.least && now_us() - start > turn_limit_us)
			break;
		progress("connection " + std::to_string(times.connection.size()));
		once(times);
	}
}

void add(Times &times, const double (&at)[6])
{
	times.create.push_back(at[1] - at[0]);
	times.connect.push_back(at[2] - at[1]);
	times.connection.push_back(at[2] - at[0]);
	times.disconnect.push_back(at[4] - at[3]);
	times.destroy.push_back(at[5] - at[4]);
	times.disconnection.push_back(at[5] - at[3]);
}

/* Makes and ends one connection and times both. Returns false when no server waited yet. */
bool connect_once(const Nic &nic, Address &local, Address &remote, Times &times)
{
	VIP_VI_ATTRIBUTES attributes = {}, theirs;
	VIP_VI_HANDLE vi;
	VIP_RETURN code;
	double at[6];

	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = max_transfer;
	attributes.Ptag = nic.ptag();
	at[0] = now_us();
	check(VipCreateVi(nic.handle(), &attributes, nullptr, nullptr, &vi), "create a VI");
	at[1] = now_us();
	code = VipConnectRequest(vi, local.net(), remote.net(), request_limit_ms, &theirs);
	at[2] = now_us();
	if (code == VIP_NO_MATCH) {
		check(VipDestroyVi(vi), "destroy a VI");
		return false;
	}
	check(code, "connect"); /* a failure ends the run, and the VI goes with the NIC */
	at[3] = now_us();
	check(VipDisconnect(vi), "disconnect");
	at[4] = now_us();
	check(VipDestroyVi(vi), "destroy a VI");
	at[5] = now_us();
	add(times, at);
	return true;
}

Json point(const char *what, const Samples &us)
{
	return {{"what", what},
		{"samples", us.size()},
		{"us", mean(us)},
		{"us_stderr", standard_error(us)},
		{"us_min", minimum(us)},
		{"us_median", median(us)},
		{"us_max", maximum(us)}};
}

/* Returns the number of tries that came too early. */
unsigned measure_vipl(const Side &side, const Turn &turn, Times &times)
{
	const std::string mark = "client" + std::to_string(getpid());
	Address local(side.nic.host_address(), {mark.begin(), mark.end()});
	unsigned too_early = 0;

	side.control.write({{"do", "connections"}, {"kind", "vipl"}});
	Address remote = share_server_address(side);

	const auto connect_to_it = [&](Times &to) {
		side.control.write({{"do", "wait"}});
		side.control.read(); /* the server is about to wait */
		const double begun = now_us();

		while (!connect_once(side.nic, local, remote, to)) {
			if (now_us() - begun > match_limit_us || side.control.has_given_up())
				check(VIP_NO_MATCH, "connect");
			++too_early;
			std::this_thread::sleep_for(early_pause);
		}
	};

	side.control.together([&] { repeat(turn, times, connect_to_it); });
	side.control.write({{"do", "end"}});
	side.control.meet();
	return too_early;
}

void serve_vipl(const Side &side)
{
	Address local = share_server_address(side);

	for (std::unique_ptr<Vi> vi; side.control.read().at("do") != "end";) {
		vi.reset(); /* disconnects the last connection */
		vi = std::make_unique<Vi>(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer,
					  false, nullptr);
		side.control.write({{"waits", true}});
		connect_vi(side, *vi, local);
	}
	side.control.meet();
}

void connect_tcp_once(const addrinfo *to, Times &times)
{
	double at[4];

	at[0] = now_us();
	Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	const int rc = socket.fd() < 0 ? -1 : connect(socket.fd(), to->ai_addr, to->ai_addrlen);

	at[1] = now_us();
	if (rc)
		fail_errno("connect by TCP"); /* ends the program */
	at[2] = now_us();
	socket = Socket();
	at[3] = now_us();
	times.connection.push_back(at[1] - at[0]);
	times.disconnection.push_back(at[3] - at[2]);
}

/* The server closes its end before the next connection begins. */
void measure_tcp(const Side &side, const Turn &turn, Times &times)
{
	side.control.write({{"do", "connections"}, {"kind", "tcp"}});
	const uint16_t port = side.control.read().at("port").get<uint16_t>();
	const FoundHost found = find_host(side.control.peer_host(), port);

	repeat(turn, times, [&](Times &to) {
		side.control.write({{"do", "wait"}});
		connect_tcp_once(found.get(), to);
		side.control.read(); /* the server has closed its end */
	});
	side.control.write({{"do", "end"}});
	side.control.meet();
}

void serve_tcp(const Side &side)
{
	const Socket listener = listen_on(0);

	side.control.write({{"port", port_of(listener)}});
	while (side.control.read().at("do") != "end") {
		char byte;

		{
			const Socket taken = accept_from(listener);

			if (!is_readable_within(taken, accept_limit_ms) ||
			    recv(taken.fd(), &byte, 1, 0) != 0)
				throw Failure("a TCP connection has not been closed as it should");
		}
		side.control.write({{"closed", true}});
	}
	side.control.meet();
}

void measure_bare(const Side &side, const Turn &turn, Times &times)
{
	side.control.write({{"do", "connections"}, {"kind", "bare"}});
	const uint16_t port = side.control.read().at("port").get<uint16_t>();
	BareEnd end(side.nic);

	repeat(turn, times, [&](Times &to) {
		double at[6];

		side.control.write({{"do", "wait"}});
		side.control.read(); /* the server has a queue pair, and waits */
		at[0] = now_us();
		end.create();
		at[1] = now_us();
		end.request(side.control.peer_host(), port);
		at[2] = at[3] = now_us();
		end.disconnect();
		at[4] = now_us();
		end.destroy();
		at[5] = now_us();
		add(to, at);
	});
	side.control.write({{"do", "end"}});
	side.control.meet();
}

void serve_bare(const Side &side)
{
	const Socket listener = listen_on(0);
	BareEnd end(side.nic);

	side.control.write({{"port", port_of(listener)}});
	while (side.control.read().at("do") != "end") {
		end.disconnect();
		end.destroy();
		end.create();
		side.control.write({{"waits", true}});
		end.accept(listener);
	}
	side.control.meet();
}

bool is_rdma(const Nic &nic)
{
	return std::string(nic.attributes().Name) != "via_lo";
}

void add_parts(Report &report, const std::string &series, const Times &times)
{
	report.add(series, point("connection", times.connection));
	report.add(series, point("disconnection", times.disconnection));
	report.add(series + ", parts", point("create", times.create));
	report.add(series + ", parts", point("connect", times.connect));
	report.add(series + ", parts", point("disconnect", times.disconnect));
	report.add(series + ", parts", point("destroy", times.destroy));
}

Report measure(const Side &side, const Wanted &wanted)
{
	Report report("connect", {{"what", "what", ""},
				  {"samples", "samples", ""},
				  {"us", "average", "us"},
				  {"us_stderr", "+-", "us"},
				  {"us_min", "least", "us"},
				  {"us_median", "median", "us"},
				  {"us_max", "most", "us"}});
	unsigned too_early = 0;
	const bool has_bare = wanted.only.empty() && is_rdma(side.nic);
	Times vipl, tcp, bare;

	const std::vector<Turn> turns = turns_of(wanted);
	for (size_t i = 0; i < turns.size(); ++i) {
		if (wanted.only != "tcp")
			too_early += measure_vipl(side, next_turn(turns[i], i, vipl), vipl);
		if (wanted.only != "vipl")
			measure_tcp(side, next_turn(turns[i], i, tcp), tcp);
		if (has_bare)
			measure_bare(side, next_turn(turns[i], i, bare), bare);
	}
	if (wanted.only != "tcp") {
		add_parts(report, "VIPL", vipl);
		report.note("too_early", too_early);
	}
	if (wanted.only != "vipl") {
		report.add("TCP", point("connection", tcp.connection));
		report.add("TCP", point("disconnection", tcp.disconnection));
	}
	if (has_bare)
		add_parts(report, "queue pairs", bare);
	return report;
}
} // namespace

void serve_connections(const Side &side, const Json &request)
{
	if (request.at("kind") == "tcp")
		serve_tcp(side);
	else if (request.at("kind") == "bare")
		serve_bare(side);
	else
		serve_vipl(side);
}

void add_connect(CLI::App &app)
{
	auto wanted = std::make_shared<Wanted>();
	CLI::App *command = add_measurement(
		app, "connect",
		"Time of connections (VI created and connected) and of their ends\n"
		"(disconnected and destroyed), and of TCP's, and over\n"
		"RDMA of bare queue pairs (University of Minnesota, TR 00-023, 4.3)",
		[=](const Side &side) { return measure(side, *wanted); });

	add_only_option(command, wanted->only);
	command->add_option("--count", wanted->count,
			    "connections (default: 1000, or as many as about 15 s are\n"
			    "enough for)")
		->check(CLI::Range(2u, most_count));
	/* The NIC reads the variable when it is opened. The head of this file gives the reason. */
	command->parse_complete_callback([] { setenv("VIPL_GRACE_MSEC", "0", 1); });
}
