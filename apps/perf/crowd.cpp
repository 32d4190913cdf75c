// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd - measures many clients at once. Clusters and servers of VIA's time did this to a NIC, and VIBe
 * does not measure it. crowd_threads.cpp has the question "threads".
 *
 * storm	connects many clients to one server at the same moment. The clients are in several processes, and each
 *		has a VI before the time begins. In one series each process makes its requests one after the other, as
 *		programs without threads do, so there are as many requests at a time as processes. In the other series
 *		each client is a thread, and all requests are made at once. The server works as servers of VIA's time
 *		did: one loop of VipConnectWait, for one discriminator, VipCreateVi and VipConnectAccept. The time goes
 *		from the first request to the answer to the last one. When all clients have their answers all
 *		disconnect, in each process one after the other.
 * mesh		connects each process with each other one, as MPI libraries did when a program began. All processes are
 *		on the client's host; the server has no part in it. Either each has VipConnectPeerRequest for all, then
 *		VipConnectPeerWait for each; or it calls VipConnectRequest for the lower ranks, in their order, then
 *		VipConnectWait and VipConnectAccept for the higher ranks, in theirs. The time begins when all processes
 *		have opened their NIC, so it includes making VIs and posting receives. No attempt is repeated.
 */
#include <array>
#include <cmath>
#include <future>
#include <unistd.h>

#include "../common/common.h"
#include "end.h"
#include "processes.h"
#include "run.h"

namespace
{
constexpr unsigned usual_in_storm = 64, usual_in_mesh = 48, usual_in_rdma_mesh = 8; /* processes */
constexpr size_t max_transfer = 4096;
constexpr VIP_ULONG request_limit_ms = 60000;
constexpr VIP_ULONG wait_ms = 100;    /* after it the server looks for a new order of the client */
constexpr double mesh_limit_us = 100e6; /* for all connections of one process */

struct Options {
	unsigned clients = 1000;
	unsigned processes = 0; /* 0: the question's usual number */
	unsigned threads = 64;
};

using Failures = std::map<std::string, unsigned>; /* how many failed for which reason */

void tell(Report &report, const std::string &where, const Failures &failures)
{
	for (const auto &[reason, count] : failures)
		report.remark(where + ": " + std::to_string(count) + " failed: " + reason);
}

/* Requests of some clients: from the first one to the last answer, how many succeeded, and how many failed. */
struct Rush {
	double first = INFINITY, last = 0;
	unsigned connected = 0;
	Failures failures = {};

	void add(VIP_RETURN code)
	{
		if (code == VIP_SUCCESS)
			++connected;
		else
			++failures[return_name(code)];
	}
	void operator+=(const Rush &more)
	{
		first = std::min(first, more.first);
		last = std::max(last, more.last);
		connected += more.connected;
		for (const auto &[reason, count] : more.failures)
			failures[reason] += count;
	}
	double seconds() const
	{
		return (last - first) / 1e6;
	}
};

MEMBERS_IN_JSON(Rush, first, last, connected, failures)

/* Lets all processes connect at the same moment, when all are ready. */
Rush rush_of(Crew &crew)
{
	Rush all;

	crew.hear();
	crew.tell({{"do", "connect"}});
	for (const Json &said : crew.hear())
		all += said.get<Rush>();
	return all;
}

/* Returns first, first * factor, ... up to `most`, and `most`. */
std::vector<unsigned> steps(unsigned first, unsigned factor, unsigned most)
{
	std::vector<unsigned> all;

	for (unsigned n = first; n < most; n *= factor)
		all.push_back(n);
	all.push_back(most);
	return all;
}

std::unique_ptr<Vi> make_vi(const Nic &nic)
{
	return std::make_unique<Vi>(nic, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer, false, nullptr);
}

Rush request(const Nic &nic, Vi &vi, const Address &server, uint32_t number)
{
	const Address local = own_address(nic, std::array<uint32_t, 2>{static_cast<uint32_t>(getpid()), number});
	Rush one;

	one.first = now_us();
	one.add(vi.request_once(local, server, request_limit_ms));
	one.last = now_us();
	return one;
}

/* Connects when the parent says so. Each client is a thread, which waits, or its request is deferred. */
Rush connect(Control &parent, const Nic &nic, const Address &server, std::launch policy,
	     const std::vector<std::unique_ptr<Vi>> &vis)
{
	std::vector<std::future<Rush>> requests;
	std::promise<void> start; /* destroyed first, which ends the threads that wait for it */
	const std::shared_future<void> started = start.get_future().share();
	Rush all;

	for (uint32_t number = 0; number < vis.size(); ++number)
		requests.push_back(std::async(policy, [&nic, &vi = *vis[number], &server, started, number] {
			started.get();
			return request(nic, vi, server, number);
		}));
	parent.write({{"ready", true}});
	parent.read();
	start.set_value();
	for (auto &one : requests)
		all += one.get();
	return all;
}

/* The work of one process. */
void be_clients(Control &parent, const std::string &nic_name, const Address &server, std::launch policy,
		unsigned count)
{
	const Nic nic(nic_name);
	std::vector<std::unique_ptr<Vi>> vis;

	while (vis.size() < count)
		vis.push_back(make_vi(nic));
	parent.write(connect(parent, nic, server, policy, vis));
	parent.read();
	vis.clear();
	parent.write({{"disconnected", true}});
	parent.read(); /* the library may still work at a disconnection after the call */
}

/* Measures one storm. The clients are on the client's host, and the server's part already runs. */
Json storm_of(const Side &side, std::launch policy, unsigned clients, unsigned processes, Failures &failures)
{
	const std::string nic_name = side.nic.attributes().Name;
	const unsigned in_each = clients / processes, left = clients % processes;
	Crew crew(processes, [&](Control &parent, unsigned number) {
		be_clients(parent, nic_name, side.server, policy, in_each + (number < left));
	});
	const Rush rush = rush_of(crew);
	const double begun = now_us();

	crew.tell({{"do", "disconnect"}});
	crew.hear();
	const double ended = now_us();
	crew.tell({{"do", "end"}});
	failures = rush.failures;
	return {{"clients", clients},
		{"processes", processes},
		{"connected", rush.connected},
		{"failed", clients - rush.connected},
		{"connect_s", rush.seconds()},
		{"rate", rush.connected / rush.seconds()},
		{"disconnect_s", (ended - begun) / 1e6}};
}

/* Measures 1, 10, 100, ... clients, and the number that the user asks for. */
void crowd_storm(const Side &side, const Options &options, Reports &reports)
{
	static const std::pair<const char *, std::launch> ways[] = {
		{"one after the other in each process", std::launch::deferred},
		{"all at once", std::launch::async}};
	const unsigned most_processes = options.processes ? options.processes : usual_in_storm;
	Report &report = reports.add("crowd-storm", {{"clients", "clients", "count"},
						     {"processes", "processes", "count"},
						     {"connected", "connected", "count"},
						     {"failed", "failed", "count"},
						     {"connect_s", "all connected in", "s"},
						     {"rate", "rate", "1/s"},
						     {"disconnect_s", "all gone in", "s"}});

	for (const auto &[series, policy] : ways)
		for (const unsigned count : steps(1, 10, options.clients)) {
			const std::string where = series + (", " + std::to_string(count)) + " clients";
			Failures failures;

			progress("storm, " + where);
			side.control.write({{"do", "storm"}});
			report.add(series, side.control.together([&, how = policy] {
				return storm_of(side, how, count, std::min(count, most_processes), failures);
			}));
			side.control.write({{"do", "end"}});
			tell(report, where, failures);
			tell(report, where + ", the server", side.control.read().get<Failures>());
			side.control.meet();
		}
}

enum class Method { peers, in_rank_order };

/* One of the processes. */
class Rank
{
public:
	Rank(const Nic &nic, uint32_t job, uint32_t number, uint32_t count)
	    : nic_(nic), job_(job), number_(number)
	{
		for (uint32_t rank = 0; rank < count; ++rank)
			if (rank != number)
				others_.push_back({rank});
	}
	Rush connect(Method method)
	{
		Rush rush;

		rush.first = begun_us_ = now_us();
		for (Other &other : others_)
			other.end = std::make_unique<End>(nic_, numbers_shape(2, Level::delivery, Waiting::block));
		for (Other &other : others_)
			other.code = begin(method, other.rank, other.end->vi());
		for (Other &other : others_) {
			VIP_VI_ATTRIBUTES attributes;

			if (method == Method::peers && other.code == VIP_SUCCESS)
				other.code = VipConnectPeerWait(other.end->vi().handle(), &attributes);
			rush.add(other.code);
		}
		rush.last = now_us();
		return rush;
	}

private:
	struct Other {
		uint32_t rank;
		std::unique_ptr<End> end = nullptr;
		VIP_RETURN code = VIP_SUCCESS;
	};
	/* Returns the address of `rank` for its connection with `other`. */
	Address address(uint32_t rank, uint32_t other) const
	{
		return own_address(nic_, std::array<uint32_t, 3>{job_, rank, other});
	}
	/*
	 * Returns at least 1, even after the end of the time: VipConnectRequest takes a timeout of 0 for an
	 * invalid parameter.
	 */
	VIP_ULONG ms_left() const
	{
		return static_cast<VIP_ULONG>(std::max(1.0, (begun_us_ + mesh_limit_us - now_us()) / 1000));
	}
	VIP_RETURN begin(Method method, uint32_t other, Vi &vi)
	{
		const Address own = address(number_, other), its = address(other, number_);

		if (method == Method::peers)
			return VipConnectPeerRequest(vi.handle(), own.net(), its.net(), ms_left());
		return other < number_ ? vi.request_once(own, its, ms_left()) : vi.accept_once(nic_, own, ms_left());
	}

	const Nic &nic_;
	const uint32_t job_, number_;
	std::vector<Other> others_;
	double begun_us_ = 0;
};

/* Measures a mesh of that many processes. `failures` counts both ends of each connection. */
Json mesh_of(const std::string &nic_name, Method method, uint32_t count, Failures &failures)
{
	static uint32_t meshes = 0;
	const uint32_t job = static_cast<uint32_t>(getpid()) * 100 + ++meshes;
	const unsigned pairs = count * (count - 1) / 2;
	Crew crew(count, [&](Control &parent, unsigned number) {
		const Nic nic(nic_name);
		Rank rank(nic, job, number, count);

		parent.write({{"ready", true}});
		parent.read();
		parent.write(rank.connect(method));
		parent.read(); /* no process leaves before all are connected */
	});
	const Rush rush = rush_of(crew);

	crew.tell({{"do", "end"}});
	failures = rush.failures;
	return {{"processes", count},
		{"pairs", pairs},
		{"connected", rush.connected / 2},
		{"failed", pairs - rush.connected / 2},
		{"connect_s", rush.seconds()}};
}

/* Measures 2, 4, 8, ... processes, and the number that the user asks for. */
void crowd_mesh(const Side &side, const Options &options, Reports &reports)
{
	static const std::pair<const char *, Method> methods[] = {
		{"peer requests", Method::peers}, {"client and server", Method::in_rank_order}};
	const unsigned usual = side.nic.is_loopback() ? usual_in_mesh : usual_in_rdma_mesh;
	Report &report = reports.add("crowd-mesh", {{"processes", "processes", "count"},
						    {"pairs", "pairs", "count"},
						    {"connected", "connected", "count"},
						    {"failed", "failed", "count"},
						    {"connect_s", "all connected in", "s"}});

	for (const auto &[name, method] : methods)
		for (const unsigned count : steps(2, 2, options.processes ? options.processes : usual)) {
			const std::string where = name + (", " + std::to_string(count)) + " processes";
			Failures failures;

			progress("mesh, " + where);
			report.add(name, mesh_of(side.nic.attributes().Name, method, count, failures));
			tell(report, where + ", ends of connections", failures);
		}
}

/* The order is the order of the reports. */
const std::vector<Question<Options>> questions = {
	{"storm", crowd_storm},
	{"threads", [](const Side &side, const Options &options,
		       Reports &reports) { crowd_threads(side, options.threads, reports); }},
	{"mesh", crowd_mesh}};
} // namespace

/* Accepts all requests, and says at the end why it could not accept some. Their clients see a rejection. */
void serve_storm(const Side &side, const Json &)
{
	std::vector<std::unique_ptr<Vi>> vis;
	Failures failures;

	while (!side.control.has_given_up()) {
		VIP_CONN_HANDLE request;
		const VIP_RETURN code = await_request(side.nic, side.server, wait_ms, request);

		if (code == VIP_TIMEOUT)
			continue;
		check(code, "wait for a connection");
		try {
			vis.push_back(make_vi(side.nic));
			check(VipConnectAccept(request, vis.back()->handle()), "accept a connection");
		} catch (const Failure &failure) {
			VipConnectReject(request);
			++failures[failure.what()];
		}
	}
	side.control.read();
	vis.clear();
	side.control.write(failures);
	side.control.meet();
}

void add_crowd(CLI::App &app)
{
	auto options = std::make_shared<Options>();
	CLI::App *command = add_questions(
		app, "crowd", "What many clients, processes and threads at once find", questions,
		"storm: clients that connect to one server at once; threads: messages by the number of threads; mesh: "
		"processes that connect each with each",
		options, Placing::anywhere);

	add_number(command, "--clients", options->clients, 1, 65536, "clients of \"storm\", at most");
	command->add_option("--processes", options->processes,
			    "of \"storm\", that the clients are in, at most (default: 64), and of "
			    "\"mesh\", at most (default: 48, over RDMA 8)")
		->check(CLI::Range(2, 1024));
	add_number(command, "--threads", options->threads, 1, 4096, "threads of \"threads\", at most");
}
