// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question storm - connects many clients to one server at the same moment. It
 * reports how many are connected, the results of the others, and how many connections per second the
 * server makes.
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
#include <cmath>
#include <future>
#include <unistd.h>

#include "crew.h"
#include "server_address.h"
#include "arithmetic.h"
#include "stop.h"

extern "C" {
#include "../common/common.h"
}

namespace
{
constexpr unsigned usual_processes = 64;
constexpr size_t max_transfer = 4096;
constexpr VIP_ULONG request_limit_ms = 60000;
constexpr VIP_ULONG wait_ms = 100; /* after it the server looks for a new order of the client */
constexpr char served[] = "connected";

enum class Asking { in_turn, at_once }; /* how the clients of a process make their requests */

std::unique_ptr<Vi> make_vi(const Nic &nic)
{
	return std::make_unique<Vi>(nic, VIP_SERVICE_RELIABLE_DELIVERY, max_transfer, false,
				    nullptr);
}

/* The result of a client's request. */
struct Answer {
	double begun_us, ended_us;
	VIP_RETURN code;
};

Answer request(const Nic &nic, const Vi &vi, Address &server, uint32_t number)
{
	const auto process = static_cast<uint32_t>(getpid());
	const uint32_t mark[] = {process, number};
	const auto *bytes = reinterpret_cast<const uint8_t *>(mark);
	Address local(nic.host_address(), {bytes, bytes + sizeof(mark)});
	VIP_VI_ATTRIBUTES theirs;
	Answer answer;

	answer.begun_us = now_us();
	answer.code = VipConnectRequest(vi.handle(), local.net(), server.net(), request_limit_ms,
					&theirs);
	answer.ended_us = now_us();
	return answer;
}

Json json_of(const std::vector<Answer> &answers)
{
	double first = answers[0].begun_us, last = answers[0].ended_us;
	Outcomes outcomes;

	for (const Answer &answer : answers) {
		first = std::min(first, answer.begun_us);
		last = std::max(last, answer.ended_us);
		++outcomes[answer.code == VIP_SUCCESS ? served : return_name(answer.code)];
	}
	return {{"first", first}, {"last", last}, {"outcomes", outcomes}};
}

/* The clients of one process. */
class Clients
{
public:
	Clients(const Nic &nic, const Address &server, Asking asking, unsigned count);

	std::vector<Answer> connect();

private:
	const Nic &nic_;
	const Asking asking_;
	const Address server_;
	std::vector<std::unique_ptr<Vi>> vis_;
	std::promise<void> start_;
	std::vector<std::future<Answer>> requests_; /* each is a thread, or is deferred */
};

/* Starts the threads before the time begins. */
Clients::Clients(const Nic &nic, const Address &server, Asking asking, unsigned count)
    : nic_(nic), asking_(asking), server_(server)
{
	const std::shared_future<void> started = start_.get_future().share();

	for (uint32_t number = 0; number < count; ++number) {
		vis_.push_back(make_vi(nic));
		const auto ask = [this, started, number, vi = vis_.back().get()] {
			Address to = server_;

			started.wait();
			return request(nic_, *vi, to, number);
		};
		requests_.push_back(std::async(asking_ == Asking::at_once ? std::launch::async
									   : std::launch::deferred,
					       ask));
	}
}

std::vector<Answer> Clients::connect()
{
	std::vector<Answer> answers;

	start_.set_value();
	for (auto &one : requests_)
		answers.push_back(one.get());
	return answers;
}

void be_clients(Control &parent, const std::string &nic_name, const Address &server,
		Asking asking, unsigned count)
{
	const Nic nic(nic_name);
	auto clients = std::make_unique<Clients>(nic, server, asking, count);

	parent.write({{"ready", true}});
	parent.read();
	parent.write(json_of(clients->connect()));
	parent.read();
	clients.reset();
	parent.write({{"disconnected", true}});
	parent.read(); /* the library may still work at a disconnection after the call */
}

/* Measures one storm. The clients are on the client's host, and the server's part already runs. */
Json storm_of(const Side &side, Asking asking, unsigned clients, unsigned processes,
	      Outcomes &others)
{
	const std::string nic_name = side.nic.attributes().Name;
	const unsigned in_each = clients / processes, left = clients % processes;
	const Address server = share_server_address(side);
	Crew crew(processes, [&](Control &parent, unsigned number) {
		be_clients(parent, nic_name, server, asking, in_each + (number < left));
	});
	double first = INFINITY, last = 0;
	Outcomes outcomes;

	crew.hear();
	crew.tell({{"do", "connect"}});
	for (const Json &said : crew.hear()) {
		first = std::min(first, said.at("first").get<double>());
		last = std::max(last, said.at("last").get<double>());
		add(outcomes, said.at("outcomes").get<Outcomes>());
	}
	const double begun = now_us();
	crew.tell({{"do", "disconnect"}});
	crew.hear();
	const double ended = now_us();
	crew.tell({{"do", "end"}});

	const unsigned connected = outcomes[served];
	outcomes.erase(served);
	others = outcomes;
	return {{"clients", clients},
		{"processes", processes},
		{"connected", connected},
		{"failed", clients - connected},
		{"connect_s", (last - first) / 1e6},
		{"rate", connected / (last - first) * 1e6},
		{"disconnect_s", (ended - begun) / 1e6}};
}

/* Returns the failures that the server saw while accepting. */
Outcomes end_of_server(const Side &side)
{
	side.control.write({{"do", "end"}});
	const Outcomes failures = side.control.read().at("failures").get<Outcomes>();

	side.control.meet();
	return failures;
}

/* Waits for a request and accepts it. */
void take_one(const Nic &nic, Address &local, Address &remote,
	      std::vector<std::unique_ptr<Vi>> &vis, Outcomes &failures)
{
	VIP_VI_ATTRIBUTES theirs;
	VIP_CONN_HANDLE request;
	VIP_RETURN code = VipConnectWait(nic.handle(), local.net(), wait_ms, remote.net(), &theirs,
					 &request);

	if (code == VIP_TIMEOUT)
		return;
	check(code, "wait for a connection");
	try {
		std::unique_ptr<Vi> vi = make_vi(nic);

		check(VipConnectAccept(request, vi->handle()), "accept a connection");
		vis.push_back(std::move(vi));
	} catch (const Failure &e) {
		VipConnectReject(request);
		++failures[e.what()];
	}
}
} // namespace

void serve_storm(const Side &side, const Json &)
{
	Address local = share_server_address(side);
	Address remote(side.nic.host_address(),
		       std::vector<uint8_t>(side.nic.attributes().MaxDiscriminatorLen));
	std::vector<std::unique_ptr<Vi>> vis;
	Outcomes failures;

	while (!side.control.has_given_up())
		take_one(side.nic, local, remote, vis, failures);
	side.control.read();
	vis.clear();
	side.control.write({{"failures", failures}});
	side.control.meet();
}

namespace
{
/* Measures 1, 10, 100, ... clients, and the number that the user asks for. */
void add_series(const Side &side, Report &report, const std::string &series, Asking asking,
		const CrowdOptions &options)
{
	const unsigned most_processes = options.processes ? options.processes : usual_processes;

	for (unsigned clients = 1; !is_stopped(); clients *= 10) {
		const unsigned count = std::min(clients, options.clients);
		const std::string where = series + ", " + std::to_string(count) + " clients";
		Outcomes others;

		progress("storm, " + where);
		side.control.write({{"do", "crowd"}, {"question", "storm"}});
		report.add(series, side.control.together([&] {
			return storm_of(side, asking, count, std::min(count, most_processes),
					others);
		}));
		const Outcomes of_server = end_of_server(side);

		if (!others.empty())
			report.remark(where + ": " + text_of(others));
		if (!of_server.empty())
			report.remark(where + ", the server: " + text_of(of_server));
		if (count == options.clients)
			break;
	}
}
} // namespace

Report crowd_storm(const Side &side, const CrowdOptions &options)
{
	Report report("crowd-storm", {{"clients", "clients", "count"},
				      {"processes", "processes", "count"},
				      {"connected", "connected", "count"},
				      {"failed", "failed", "count"},
				      {"connect_s", "all connected in", "s"},
				      {"rate", "rate", "1/s"},
				      {"disconnect_s", "all gone in", "s"}});

	add_series(side, report, "one after the other in each process", Asking::in_turn, options);
	add_series(side, report, "all at once", Asking::at_once, options);
	return report;
}
