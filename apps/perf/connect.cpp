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
 * VipConnectWait, then calls VipConnectAccept. The server says that it is about to wait, and the client
 * begins then, which may be a moment too early. So VIPL_GRACE_MSEC=0 makes the library answer VIP_NO_MATCH at
 * once where no server waits. Such a try does not count: the client begins and times the connection again.
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
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "arithmetic.h"
#include "raw_device.h"
#include "run.h"

namespace
{
constexpr unsigned usual_count = 1000, most_count = 20000;
constexpr unsigned most_turns = 10, warm_up_count = 3;
/* A try keeps the server busy, so the client pauses between tries. */
constexpr auto early_pause = std::chrono::milliseconds(1);
/* Of the first turn, which has two connections at least. */
constexpr double turn_limit_us = 1.5e6;
constexpr double match_limit_us = 10e6; /* the server's VipConnectWait has the same limit */
constexpr VIP_ULONG request_limit_ms = 10000;
constexpr size_t max_transfer = 4096;

struct Wanted {
	unsigned count = 0; /* 0: the usual count */
	std::string only;
};

/* When a connection began, was created, was connected; when its end began, it was disconnected, was destroyed. */
using Moments = std::array<double, 6>;

/* Makes and ends one connection. Returns false when no server waited yet. */
using Once = std::function<bool(Moments &at)>;

/* What the server does before a connection, and with it. */
struct Service {
	std::function<void()> prepare, take;
};

Once vipl_client(const Side &side)
{
	return [&nic = side.nic, &remote = side.server, local = own_address(side.nic, getpid())](Moments &at) {
		VIP_VI_ATTRIBUTES attributes = {}, theirs;
		VIP_VI_HANDLE vi;

		attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
		attributes.MaxTransferSize = max_transfer;
		attributes.Ptag = nic.ptag();
		at[0] = now_us();
		check(VipCreateVi(nic.handle(), &attributes, nullptr, nullptr, &vi), "create a VI");
		at[1] = now_us();
		const VIP_RETURN code = VipConnectRequest(vi, local.net(), remote.net(), request_limit_ms, &theirs);
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
		return true;
	};
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

/* The server listens on any free port and sends its number. */
std::shared_ptr<Socket> listener_for(const Side &side)
{
	const auto listener = std::make_shared<Socket>(listen_on(0));

	side.control.write({{"port", port_of(*listener)}});
	return listener;
}

Once tcp_client(const Side &side)
{
	const uint16_t port = side.control.read().at("port").get<uint16_t>();
	const std::shared_ptr<addrinfo> to = find_host(side.control.peer_host(), port);

	return [to](Moments &at) {
		at[0] = at[1] = now_us();
		Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		const int rc = socket.fd() < 0 ? -1 : connect(socket.fd(), to->ai_addr, to->ai_addrlen);

		at[2] = now_us();
		if (rc)
			fail_errno("connect by TCP");
		at[3] = at[4] = now_us();
		socket = Socket();
		at[5] = now_us();
		return true;
	};
}

Service tcp_server(const Side &side)
{
	return {[] {}, [listener = listener_for(side)] {
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
		tell(Told{qp_->qp_num, device_.gid()});
		const Told peer = hear<Told>();
		device_.connect(qp_.get(), peer.qp, peer.gid);
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
		const Told peer = hear<Told>();
		device_.initialise(qp_.get(), 0);
		device_.connect(qp_.get(), peer.qp, peer.gid);
		tell(Told{qp_->qp_num, device_.gid()});
		hear<char>();
	}

private:
	struct Told {
		uint32_t qp;
		ibv_gid gid;
	};
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

Once bare_client(const Side &side)
{
	const uint16_t port = side.control.read().at("port").get<uint16_t>();

	return [end = std::make_shared<BareEnd>(side.nic), host = side.control.peer_host(), port](Moments &at) {
		at[0] = now_us();
		end->create();
		at[1] = now_us();
		end->request(host, port);
		at[2] = at[3] = now_us();
		end->disconnect();
		at[4] = now_us();
		end->destroy();
		at[5] = now_us();
		return true;
	};
}

Service bare_server(const Side &side)
{
	const auto end = std::make_shared<BareEnd>(side.nic);

	return {[end] {
			end->disconnect();
			end->destroy();
			end->create();
		},
		[end, listener = listener_for(side)] { end->accept(*listener); }};
}

/* What is connected, and the word of --only. Only RDMA devices have bare queue pairs. */
struct Way {
	std::string name, only;
	bool has_parts;
	Once (*client)(const Side &side);
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
			const Once once = way_.client(side_);
			const double start = now_us();

			for (unsigned i = 0; i < warm_up_count; ++i)
				connect(once);
			for (size_t done = 0; done < wanted && (done < 2 || now_us() - start <= limit_us); ++done) {
				progress("connection " + std::to_string(samples()));
				moments_.push_back(connect(once));
			}
		});
		side_.control.write({{"do", "end"}});
		side_.control.meet();
	}
	void report(Report &report) const
	{
		const std::string parts = way_.name + ", parts";

		add_point(report, way_.name, "connection", 0, 2);
		add_point(report, way_.name, "disconnection", 3, 5);
		if (!way_.has_parts)
			return;
		add_point(report, parts, "create", 0, 1);
		add_point(report, parts, "connect", 1, 2);
		add_point(report, parts, "disconnect", 3, 4);
		add_point(report, parts, "destroy", 4, 5);
	}
	size_t samples() const
	{
		return moments_.size();
	}
	unsigned too_early() const
	{
		return too_early_;
	}

private:
	Moments connect(const Once &once)
	{
		Moments at;

		side_.control.write({{"do", "wait"}});
		side_.control.read(); /* the server is about to wait */
		const double begun = now_us();

		while (!once(at)) {
			if (now_us() - begun > match_limit_us || side_.control.has_given_up())
				check(VIP_NO_MATCH, "connect");
			++too_early_;
			std::this_thread::sleep_for(early_pause);
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
	unsigned too_early_ = 0;
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
	if (wanted.only != "tcp")
		report.note("too_early", contestants[0].too_early());
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
	/* The NIC reads the variable when it is opened. The head of this file gives the reason. */
	command->parse_complete_callback([] { setenv("VIPL_GRACE_MSEC", "0", 1); });
}
