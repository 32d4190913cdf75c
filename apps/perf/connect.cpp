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
 * The time of a request includes the server's work to accept it: the server has a VI ready and waits in
 * VipConnectWait, then calls VipConnectAccept. A request that comes a moment before is held until the server waits.
 * The server disconnects after the client, outside of the measured time.
 *
 * TCP does less: connect() returns when the server's kernel, not the server, has accepted the connection, and
 * close() waits for nothing. On an RDMA device bare queue pairs are measured, too.
 *
 * A machine's speed changes within a run, so they take turns, ten each. A turn is a tenth
 * of the connections, one after the other. The later turns have as many connections as the first
 * turn had time for; otherwise slow moments would have fewer samples than fast ones.
 */
#include <algorithm>
#include <array>
#include <cmath>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arithmetic.h"
#include "raw_device.h"
#include "run.h"

namespace
{
constexpr unsigned usual_count = 1000, most_count = 20000;
constexpr unsigned most_turns = 10, warm_up_count = 3;
/* Of the first turn, which has two connections at least. */
constexpr double turn_limit_us = 1.5e6;
constexpr VIP_ULONG request_limit_ms = 10000;
constexpr size_t max_transfer = 4096;

struct Wanted {
	unsigned count = 0; /* 0: the usual count */
	std::string only;
};

/* What is timed: it creates, connects, disconnects and destroys. */
using Client = std::array<std::function<void()>, 4>;

/* When the first of these began, and when each had ended. */
using Moments = std::array<double, std::tuple_size_v<Client> + 1>;

/* What the server does before a connection, and with it. */
struct Service {
	std::function<void()> prepare, take;
};

Client vipl_client(const Side &side)
{
	const auto vi = std::make_shared<VIP_VI_HANDLE>();

	return {[vi, &nic = side.nic] {
			VIP_VI_ATTRIBUTES attributes = {};

			attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
			attributes.MaxTransferSize = max_transfer;
			attributes.Ptag = nic.ptag();
			check(VipCreateVi(nic.handle(), &attributes, nullptr, nullptr, vi.get()), "create a VI");
		},
		[vi, &remote = side.server, local = own_address(side.nic, getpid())] {
			VIP_VI_ATTRIBUTES theirs;

			/* A failure ends the run, and the VI goes with the NIC. */
			check(VipConnectRequest(*vi, local.net(), remote.net(), request_limit_ms, &theirs), "connect");
		},
		[vi] { check(VipDisconnect(*vi), "disconnect"); },
		[vi] { check(VipDestroyVi(*vi), "destroy a VI"); }};
}

Service vipl_server(const Side &side)
{
	const auto vi = std::make_shared<std::unique_ptr<Vi>>();

	return {[&nic = side.nic, vi] {
			vi->reset(); /* disconnects the last connection */
			*vi = std::make_unique<Vi>(nic, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer, false, nullptr);
		},
		[&side, vi] { connect_vi(side, **vi); }};
}

Client tcp_client(const Side &side)
{
	const uint16_t port = side.control.await_port();
	const std::shared_ptr<addrinfo> to = find_host(side.control.peer_host(), port);
	const auto socket = std::make_shared<Socket>();

	return {[] {},
		[=] {
			*socket = Socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
			if (socket->fd() < 0 || connect(socket->fd(), to->ai_addr, to->ai_addrlen))
				fail_errno("connect by TCP");
		},
		[] {}, [=] { *socket = Socket(); }};
}

Service tcp_server(const Side &side)
{
	return {[] {}, [listener = side.control.offer_port()] {
			const Socket taken = accept_from(*listener);
			char byte;

			if (!has_come_within(taken, POLLIN, accept_limit_ms) || recv(taken.fd(), &byte, 1, 0) != 0)
				throw Failure("a TCP connection has not been closed as it should");
		}};
}

/*
 * An end of a connection of queue pairs without a library. Both have a queue pair as a VI has one. The client
 * connects by TCP and tells its queue pair; the server tells its own, when that can receive; the client confirms.
 */
class BareEnd
{
public:
	explicit BareEnd(const Nic &nic) : device_(nic)
	{
	}
	/* as VipCreateVi */
	void create()
	{
		unsigned inline_bytes = 128;

		sends_ = device_.make_cq(raw::usual.sends);
		receives_ = device_.make_cq(raw::usual.receives);
		qp_ = device_.make_qp(raw::usual, sends_.get(), receives_.get(), inline_bytes);
	}
	void destroy()
	{
		qp_.reset();
		sends_.reset();
		receives_.reset();
	}
	/* as VipConnectRequest */
	void request(const std::string &host, uint16_t port)
	{
		device_.initialise(qp_.get(), 0);
		meet(dial(host, port, "the server"));
		tell(device_.end_of(qp_.get()));
		device_.connect(qp_.get(), hear<raw::End>());
		tell(char{1});
	}
	void disconnect()
	{
		socket_ = Socket();
	}
	/* from VipConnectWait to VipConnectAccept */
	void accept(const Socket &listener)
	{
		meet(accept_from(listener));
		const auto peer = hear<raw::End>();
		device_.initialise(qp_.get(), 0);
		device_.connect(qp_.get(), peer);
		tell(device_.end_of(qp_.get()));
		hear<char>();
	}

private:
	void meet(Socket socket)
	{
		socket_ = std::move(socket);
		send_at_once(socket_);
		limit_calls(socket_, SO_RCVTIMEO, accept_limit_ms);
	}
	template <typename Object> void tell(const Object &object)
	{
		if (send(socket_.fd(), &object, sizeof(object), MSG_NOSIGNAL) != ssize_t(sizeof(object)))
			fail_errno("tell the peer's queue pair");
	}
	template <typename Object> Object hear()
	{
		Object object;

		if (recv(socket_.fd(), &object, sizeof(object), MSG_WAITALL) != ssize_t(sizeof(object)))
			fail_errno("hear of the peer's queue pair");
		return object;
	}

	raw::RawDevice device_;
	raw::Cq sends_, receives_;
	raw::Qp qp_;
	Socket socket_;
};

Client bare_client(const Side &side)
{
	const auto end = std::make_shared<BareEnd>(side.nic);

	return {[end] { end->create(); },
		[end, host = side.control.peer_host(), port = side.control.await_port()] { end->request(host, port); },
		[end] { end->disconnect(); }, [end] { end->destroy(); }};
}

Service bare_server(const Side &side)
{
	const auto end = std::make_shared<BareEnd>(side.nic);

	return {[end] {
			end->disconnect();
			end->destroy();
			end->create();
		},
		[end, listener = side.control.offer_port()] { end->accept(*listener); }};
}

/* What is connected, and the word of --only. Only RDMA devices have bare queue pairs. */
struct Way {
	std::string name, only;
	bool has_parts;
	Client (*client)(const Side &side);
	Service (*server)(const Side &side);
};

const Way ways[] = {{"VIPL", "vipl", true, vipl_client, vipl_server},
		      {"TCP", "tcp", false, tcp_client, tcp_server},
		      {"queue pairs", "none", true, bare_client, bare_server}};

class Contestant
{
public:
	Contestant(const Side &side, const Way &way) : side_(side), way_(way)
	{
	}
	/* Makes that many connections, or at least two if it has `limit_us`. */
	void take_turn(size_t wanted, double limit_us)
	{
		side_.control.write({{"do", "connections"}, {"kind", way_.name}});
		side_.control.together([&] {
			const Client client = way_.client(side_);
			const double start = now_us();

			for (unsigned i = 0; i < warm_up_count; ++i)
				connect(client);
			for (size_t done = 0; done < wanted && (done < 2 || now_us() - start <= limit_us); ++done) {
				progress("connection " + std::to_string(samples()));
				moments_.push_back(connect(client));
			}
		});
		side_.control.write({{"do", "end"}});
		side_.control.meet();
	}
	void report(Report &report) const
	{
		const std::string parts = way_.name + ", parts";

		add_point(report, way_.name, "connection", 0, 2);
		add_point(report, way_.name, "disconnection", 2, 4);
		if (!way_.has_parts)
			return;
		add_point(report, parts, "create", 0, 1);
		add_point(report, parts, "connect", 1, 2);
		add_point(report, parts, "disconnect", 2, 3);
		add_point(report, parts, "destroy", 3, 4);
	}
	size_t samples() const
	{
		return moments_.size();
	}

private:
	Moments connect(const Client &client)
	{
		Moments at;

		side_.control.write({{"do", "wait"}});
		side_.control.read(); /* the server is about to wait */
		at[0] = now_us();
		for (size_t i = 0; i < client.size(); ++i) {
			client[i]();
			at[i + 1] = now_us();
		}
		return at;
	}
	void add_point(Report &report, const std::string &series, const char *what, size_t from, size_t to) const
	{
		Samples us;

		for (const Moments &at : moments_)
			us.push_back(at[to] - at[from]);
		report.add(series, {{"what", what},
				    {"samples", us.size()},
				    {"us", mean(us)},
				    {"us_stderr", standard_error(us)},
				    {"us_min", minimum(us)},
				    {"us_median", median(us)},
				    {"us_max", maximum(us)}});
	}

	const Side &side_;
	const Way &way_;
	std::vector<Moments> moments_;
};

void measure(const Side &side, const Wanted &wanted, Reports &reports)
{
	const unsigned count = wanted.count ? wanted.count : usual_count, turns = std::min(most_turns, count);
	Report &report = reports.add("connect", {{"what", "what", ""},
						 {"samples", "samples", ""},
						 {"us", "average", "us"},
						 {"us_stderr", "+-", "us"},
						 {"us_min", "least", "us"},
						 {"us_median", "median", "us"},
						 {"us_max", "most", "us"}});
	std::vector<Contestant> contestants;

	for (const Way &way : ways)
		if (wanted.only == way.only || (wanted.only.empty() && (way.only != "none" || !side.nic.is_loopback())))
			contestants.emplace_back(side, way);
	for (unsigned i = 0; i < turns; ++i)
		for (Contestant &contestant : contestants)
			/* Unless the user gave a count, later turns have as many as the first one had time for. */
			if (i && !wanted.count)
				contestant.take_turn(contestant.samples() / i, INFINITY);
			else
				contestant.take_turn(count * (i + 1) / turns - count * i / turns,
						     wanted.count ? INFINITY : turn_limit_us);
	for (const Contestant &contestant : contestants)
		contestant.report(report);
}
} // namespace

void serve_connections(const Side &side, const Json &request)
{
	const auto *way = std::find_if(std::begin(ways), std::end(ways),
					[&](const Way &one) { return request.at("kind") == one.name; });

	if (way == std::end(ways))
		throw Failure("the client asks for connections of an unknown kind");
	const Service service = way->server(side);
	while (side.control.read().at("do") != "end") {
		service.prepare();
		side.control.write({{"waits", true}});
		service.take();
	}
	side.control.meet();
}

void add_connect(CLI::App &app)
{
	auto wanted = std::make_shared<Wanted>();
	CLI::App *command = add_measurement(
		app, "connect",
		"Time of connections (VI created and connected) and of their ends\n"
		"(disconnected and destroyed), and of TCP's, and over\n"
		"RDMA of bare queue pairs (University of Minnesota, TR 00-023, 4.3)",
		[=](const Side &side, Reports &reports) { measure(side, *wanted, reports); });

	add_only_option(command, wanted->only);
	command->add_option("--count", wanted->count,
			    "connections (default: 1000, or as many as about 15 s are\n"
			    "enough for)")
		->check(CLI::Range(2u, most_count));
}
