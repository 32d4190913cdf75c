// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question mesh - connects each process with each other one, as MPI libraries did when a
 * program began. All processes are on the client's host; the server has no part in it.
 *
 *	peer requests		VipConnectPeerRequest for all, then VipConnectPeerWait for each
 *	client and server	each process calls VipConnectRequest for the lower ranks, in their order,
 *				then VipConnectWait and VipConnectAccept for the higher ranks, in theirs
 *
 * The time begins when all processes have opened their NIC, so it includes making VIs and posting
 * receives. No attempt is repeated.
 */
#include "crowd.h"

#include <algorithm>
#include <array>
#include <unistd.h>

#include "end.h"
#include "processes.h"

namespace
{
constexpr unsigned usual_on_loopback = 48, usual_elsewhere = 8;
constexpr double limit_us = 100e6; /* for all connections of one process */

enum class Method { peers, in_rank_order };

/* One of the processes. */
class Rank
{
public:
	Rank(const Nic &nic, uint32_t job, uint32_t number, uint32_t count)
	    : nic_(nic), job_(job), number_(number), ends_(count), codes_(count, VIP_SUCCESS)
	{
	}
	void connect(Method method)
	{
		const Shape shape = numbers_shape(2, Level::delivery, Waiting::block);

		begun_us_ = now_us();
		for_others([&](uint32_t, auto &end) { end = std::make_unique<End>(nic_, shape); });
		for_others([&](uint32_t other, auto &) { codes_[other] = begin(method, other); });
		for_others([&](uint32_t other, auto &end) {
			VIP_VI_ATTRIBUTES attributes;

			if (method == Method::peers && codes_[other] == VIP_SUCCESS)
				codes_[other] = VipConnectPeerWait(end->vi().handle(), &attributes);
		});
	}
	Outcome outcome() const
	{
		Outcome outcome;

		for (uint32_t other = 0; other < codes_.size(); ++other)
			if (other != number_)
				outcome.add(codes_[other]);
		return outcome;
	}

private:
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
		return static_cast<VIP_ULONG>(std::max(1.0, (begun_us_ + limit_us - now_us()) / 1000));
	}
	VIP_RETURN begin(Method method, uint32_t other)
	{
		Vi &vi = ends_[other]->vi();
		Address own = address(number_, other), its = address(other, number_);

		if (method == Method::peers)
			return VipConnectPeerRequest(vi.handle(), own.net(), its.net(), ms_left());
		return other < number_ ? vi.request_once(own, its, ms_left()) : vi.accept_once(nic_, own, ms_left());
	}
	template <typename Do> void for_others(const Do &what)
	{
		for (uint32_t other = 0; other < ends_.size(); ++other)
			if (other != number_)
				what(other, ends_[other]);
	}

	const Nic &nic_;
	const uint32_t job_, number_;
	std::vector<std::unique_ptr<End>> ends_; /* by the other's rank; NULL for its own */
	std::vector<VIP_RETURN> codes_;
	double begun_us_ = 0;
};

void be_rank(Control &parent, const std::string &nic_name, Method method, uint32_t job,
	     uint32_t number, uint32_t count)
{
	const Nic nic(nic_name);
	Rank rank(nic, job, number, count);

	parent.write({{"ready", true}});
	parent.read();
	rank.connect(method);
	parent.write({{"at", now_us()}, {"outcome", rank.outcome()}});
	parent.read(); /* no process leaves before all are connected */
}

/* Measures a mesh of that many processes. `outcome` counts both ends of each connection. */
Json mesh_of(const std::string &nic_name, Method method, uint32_t count, Outcome &outcome)
{
	static uint32_t meshes = 0;
	const uint32_t job = static_cast<uint32_t>(getpid()) * 100 + ++meshes;
	const unsigned pairs = count * (count - 1) / 2;
	Crew crew(count, [&](Control &parent, unsigned number) {
		be_rank(parent, nic_name, method, job, number, count);
	});
	double last = 0;

	crew.hear();
	const double begun = now_us();
	crew.tell({{"do", "connect"}});
	for (const Json &said : crew.hear()) {
		last = std::max(last, said.at("at").get<double>());
		outcome += said.at("outcome").get<Outcome>();
	}
	const unsigned connected = outcome.connected / 2;

	crew.tell({{"do", "end"}});
	return {{"processes", count},
		{"pairs", pairs},
		{"connected", connected},
		{"failed", pairs - connected},
		{"connect_s", (last - begun) / 1e6}};
}
} // namespace

/* Measures 2, 4, 8, ... processes, and the number that the user asks for. */
Report crowd_mesh(const Side &side, const CrowdOptions &options)
{
	static const std::pair<const char *, Method> methods[] = {
		{"peer requests", Method::peers}, {"client and server", Method::in_rank_order}};
	const unsigned usual = side.nic.is_loopback() ? usual_on_loopback : usual_elsewhere;
	const unsigned most = options.processes ? options.processes : usual;
	Report report("crowd-mesh", {{"processes", "processes", "count"},
				     {"pairs", "pairs", "count"},
				     {"connected", "connected", "count"},
				     {"failed", "failed", "count"},
				     {"connect_s", "all connected in", "s"}});

	for (const auto &[name, method] : methods)
		for (const unsigned count : steps(2, 2, most)) {
			const std::string where = name + (", " + std::to_string(count)) + " processes";
			Outcome outcome;

			if (is_stopped())
				return report;
			progress("mesh, " + where);
			report.add(name, mesh_of(side.nic.attributes().Name, method, count, outcome));
			outcome.tell(report, where + ", ends of connections");
		}
	return report;
}
