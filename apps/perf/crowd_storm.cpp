// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question storm - connects many clients to one server at the same moment.
 *
 * The clients are in several processes, and each has a VI before the time begins. In one series each
 * process makes its requests one after the other, as programs without threads do, so there are as
 * many requests at a time as processes. In the other series each client is a thread, and all requests
 * are made at once. The server works as servers of VIA's time did: one loop of VipConnectWait, for
 * one discriminator, VipCreateVi and VipConnectAccept. The time goes from the first request to the
 * answer to the last one. When all clients have their answers all disconnect, in each process one
 * after the other.
 */
#include "crowd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <unistd.h>

#include "arithmetic.h"
#include "processes.h"

namespace
{
constexpr unsigned usual_processes = 64;
constexpr size_t max_transfer = 4096;
constexpr VIP_ULONG request_limit_ms = 60000;
constexpr VIP_ULONG wait_ms = 100; /* after it the server looks for a new order of the client */

std::unique_ptr<Vi> make_vi(const Nic &nic)
{
	return std::make_unique<Vi>(nic, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer, false, nullptr);
}

/* What a client's request came to. */
struct Answer {
	double begun_us, ended_us;
	VIP_RETURN code;
};

Answer request(const Nic &nic, Vi &vi, Address server, uint32_t number)
{
	Address local = own_address(nic, std::array<uint32_t, 2>{static_cast<uint32_t>(getpid()), number});
	Answer answer;

	answer.begun_us = now_us();
	answer.code = vi.request_once(local, server, request_limit_ms);
	answer.ended_us = now_us();
	return answer;
}

/* Connects when the parent says so. Each client is a thread, which waits, or its request is deferred. */
Json connect(Control &parent, const Nic &nic, const Address &server, std::launch policy,
	     const std::vector<std::unique_ptr<Vi>> &vis)
{
	std::vector<std::future<Answer>> requests;
	std::promise<void> start; /* destroyed first, so that no thread waits for it forever */
	const std::shared_future<void> started = start.get_future().share();
	double first = INFINITY, last = 0;
	Outcome outcome;

	for (uint32_t number = 0; number < vis.size(); ++number)
		requests.push_back(std::async(policy, [&nic, &vi = *vis[number], &server, started, number] {
			started.wait();
			return request(nic, vi, server, number);
		}));
	parent.write({{"ready", true}});
	parent.read();
	start.set_value();
	for (auto &one : requests) {
		const Answer answer = one.get();

		first = std::min(first, answer.begun_us);
		last = std::max(last, answer.ended_us);
		outcome.add(answer.code);
	}
	return {{"first", first}, {"last", last}, {"outcome", outcome}};
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
Json storm_of(const Side &side, std::launch policy, unsigned clients, unsigned processes, Outcome &outcome)
{
	const std::string nic_name = side.nic.attributes().Name;
	const unsigned in_each = clients / processes, left = clients % processes;
	const Address server = share_server_address(side);
	Crew crew(processes, [&](Control &parent, unsigned number) {
		be_clients(parent, nic_name, server, policy, in_each + (number < left));
	});
	double first = INFINITY, last = 0;

	crew.hear();
	crew.tell({{"do", "connect"}});
	for (const Json &said : crew.hear()) {
		first = std::min(first, said.at("first").get<double>());
		last = std::max(last, said.at("last").get<double>());
		outcome += said.at("outcome").get<Outcome>();
	}
	const double begun = now_us();
	crew.tell({{"do", "disconnect"}});
	crew.hear();
	const double ended = now_us();
	crew.tell({{"do", "end"}});

	return {{"clients", clients},
		{"processes", processes},
		{"connected", outcome.connected},
		{"failed", clients - outcome.connected},
		{"connect_s", (last - first) / 1e6},
		{"rate", outcome.connected / (last - first) * 1e6},
		{"disconnect_s", (ended - begun) / 1e6}};
}
} // namespace

/* Accepts all requests, and says at the end why it could not accept some. Their clients see a rejection. */
void serve_storm(const Side &side, const Json &)
{
	Address local = share_server_address(side);
	std::vector<std::unique_ptr<Vi>> vis;
	Outcome outcome;

	while (!side.control.has_given_up()) {
		VIP_CONN_HANDLE request;
		const VIP_RETURN code = await_request(side.nic, local, wait_ms, request);

		if (code == VIP_TIMEOUT)
			continue;
		check(code, "wait for a connection");
		try {
			vis.push_back(make_vi(side.nic));
			check(VipConnectAccept(request, vis.back()->handle()), "accept a connection");
		} catch (const Failure &failure) {
			VipConnectReject(request);
			++outcome.failures[failure.what()];
		}
	}
	side.control.read();
	vis.clear();
	side.control.write(outcome);
	side.control.meet();
}

/* Measures 1, 10, 100, ... clients, and the number that the user asks for. */
Report crowd_storm(const Side &side, const CrowdOptions &options)
{
	static const std::pair<const char *, std::launch> ways[] = {
		{"one after the other in each process", std::launch::deferred},
		{"all at once", std::launch::async}};
	const unsigned most_processes = options.processes ? options.processes : usual_processes;
	Report report("crowd-storm", {{"clients", "clients", "count"},
				      {"processes", "processes", "count"},
				      {"connected", "connected", "count"},
				      {"failed", "failed", "count"},
				      {"connect_s", "all connected in", "s"},
				      {"rate", "rate", "1/s"},
				      {"disconnect_s", "all gone in", "s"}});

	for (const auto &[series, policy] : ways)
		for (const unsigned count : steps(1, 10, options.clients)) {
			const std::string where = series + (", " + std::to_string(count)) + " clients";
			Outcome outcome;

			if (is_stopped())
				return report;
			progress("storm, " + where);
			side.control.write({{"do", "storm"}});
			report.add(series, side.control.together([&, how = policy] {
				return storm_of(side, how, count, std::min(count, most_processes), outcome);
			}));
			side.control.write({{"do", "end"}});
			const Outcome of_server = side.control.read().get<Outcome>();
			side.control.meet();
			outcome.tell(report, where);
			of_server.tell(report, where + ", the server");
		}
	return report;
}
