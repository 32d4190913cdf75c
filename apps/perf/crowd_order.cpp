// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question order - counts how often a completion queue names completions in another
 * order than that in which they happened.
 *
 *	two VIs		the server sends four messages, or one, by A, each when the send before it is
 *			done, then one by B. The client polls its CQ, which must name all messages of A
 *			before that of B.
 *	a teardown	the client sends five messages. It collects nothing until the server says that
 *			it has all of them; then it disconnects. Its CQ, which has both queues, must name
 *			all sends that were done before the first flushed receive.
 *
 * The client sends a message by a third VI, without a CQ, when it is ready for the next round. In a
 * teardown the server answers by that VI.
 */
#include "crowd.h"

#include "patience.h"
#include "server_address.h"
#include "small_vi.h"
#include "stop.h"

namespace
{
constexpr unsigned depth = 16;
constexpr unsigned before_end = 5; /* messages before a teardown; also the number of receives */
/* Fewer teardowns than rounds, because connecting takes time. */
constexpr unsigned rounds_per_teardown = 20;

struct Named {
	VIP_VI_HANDLE vi;
	bool is_receive;
};

Named await_entry(const CompletionQueue &cq)
{
	VIP_BOOLEAN is_receive;
	Patience patience;
	VIP_RETURN code;
	Named named;

	while (code = VipCQDone(cq.handle(), &named.vi, &is_receive), code == VIP_NOT_DONE)
		patience.in_vain("a completion");
	check(code, "look at a completion queue");
	named.is_receive = is_receive;
	return named;
}

/* The work of both sides, and the number of rounds. */
struct Plan {
	VIP_RELIABILITY_LEVEL level;
	unsigned by_a; /* messages by A; 0: a teardown */
	uint32_t rounds;
};

MEMBERS_IN_JSON(Plan, level, by_a, rounds)

/* Returns the number of rounds that were out of order. */
uint64_t look_at_two(const Side &side, const Plan &plan)
{
	const CompletionQueue cq(side.nic, 4 * depth);
	SmallVi ready(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	SmallVi a(side.nic, plan.level, depth, cq.handle());
	SmallVi b(side.nic, plan.level, depth, cq.handle());
	Address server = share_server_address(side);
	uint64_t disorder = 0;

	for (SmallVi *vi : {&ready, &a, &b})
		connect_vi(side, vi->vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		bool b_was_last = false;

		ready.send(round);
		ready.await_sent();
		for (unsigned i = 0; i < plan.by_a + 1; ++i) {
			const Named named = await_entry(cq);
			SmallVi &vi = named.vi == a.vi().handle() ? a : b;
			uint32_t number;

			if (!vi.take_message(number) || number != round)
				throw Failure("the completion queue names a message that is not there");
			vi.post_receive();
			b_was_last = &vi == &b;
		}
		disorder += !b_was_last;
	}
	return disorder;
}

void send_by_two(const Side &side, const Plan &plan)
{
	SmallVi ready(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	SmallVi a(side.nic, plan.level, depth, nullptr), b(side.nic, plan.level, depth, nullptr);
	Address server = share_server_address(side);
	const auto send = [](SmallVi &vi, uint32_t round) {
		vi.send(round);
		vi.await_sent();
	};

	for (SmallVi *vi : {&ready, &a, &b})
		connect_vi(side, vi->vi(), server);
	for (uint32_t i = 0; i < plan.rounds; ++i) {
		const uint32_t round = ready.await_message();

		ready.post_receive();
		for (unsigned message = 0; message < plan.by_a; ++message)
			send(a, round);
		send(b, round);
	}
	side.control.meet(); /* the client has taken the last message */
}

/* Whether the CQ names a completed send after a flushed receive. */
bool ends_out_of_order(const CompletionQueue &cq, const Vi &vi)
{
	bool is_flushed = false, is_out_of_order = false;

	for (unsigned i = 0; i < 2 * before_end; ++i) {
		const Named named = await_entry(cq);
		VIP_DESCRIPTOR *descriptor;
		const VIP_RETURN code = named.is_receive ? VipRecvDone(vi.handle(), &descriptor)
							 : VipSendDone(vi.handle(), &descriptor);

		if (code == VIP_NOT_DONE)
			throw Failure("the completion queue names a queue in which nothing is done");
		if (code != VIP_SUCCESS && code != VIP_DESCRIPTOR_ERROR)
			check(code, "collect what was flushed");
		is_out_of_order |= is_flushed && code == VIP_SUCCESS;
		is_flushed |= code != VIP_SUCCESS;
	}
	return is_out_of_order;
}

uint64_t tear_down(const Side &side, const Plan &plan)
{
	const CompletionQueue cq(side.nic, 4 * depth);
	SmallVi answers(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	Address server = share_server_address(side);
	uint64_t disorder = 0;

	connect_vi(side, answers.vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		SmallVi vi(side.nic, plan.level, before_end, cq.handle());

		connect_vi(side, vi.vi(), server);
		for (unsigned i = 0; i < before_end; ++i)
			vi.send(round);
		answers.await_message();
		answers.post_receive();
		check(VipDisconnect(vi.vi().handle()), "disconnect");
		disorder += ends_out_of_order(cq, vi.vi());
	}
	return disorder;
}

void see_torn_down(const Side &side, const Plan &plan)
{
	SmallVi answers(side.nic, VIP_SERVICE_RELIABLE_DELIVERY, depth, nullptr);
	std::unique_ptr<SmallVi> vi;
	Address server = share_server_address(side);

	connect_vi(side, answers.vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		vi = std::make_unique<SmallVi>(side.nic, plan.level, before_end, nullptr);
		connect_vi(side, vi->vi(), server);
		for (unsigned i = 0; i < before_end; ++i)
			vi->await_message();
		answers.send(round);
		answers.await_sent();
	}
	side.control.meet();
}

Json count_disorder(const Side &side, const Plan &plan)
{
	uint64_t disorder;

	side.control.write({{"do", "crowd"}, {"question", "order"}, {"plan", plan}});
	disorder = side.control.together(
		[&] { return plan.by_a ? look_at_two(side, plan) : tear_down(side, plan); });
	side.control.meet();
	return {{"rounds", plan.rounds},
		{"disorder", disorder},
		{"percent", 100.0 * static_cast<double>(disorder) /
				    static_cast<double>(plan.rounds)}};
}
} // namespace

void serve_order(const Side &side, const Json &request)
{
	const Plan plan = request.at("plan").get<Plan>();

	if (plan.by_a)
		send_by_two(side, plan);
	else
		see_torn_down(side, plan);
}

Report crowd_order(const Side &side, const CrowdOptions &options)
{
	static const std::pair<const char *, unsigned> tests[] = {
		{"four by A, then one by B", 4}, {"one by A, then one by B", 1}, {"teardown", 0}};
	static const std::pair<const char *, VIP_RELIABILITY_LEVEL> levels[] = {
		{"Unreliable", VIP_SERVICE_UNRELIABLE},
		{"Reliable Delivery", VIP_SERVICE_RELIABLE_DELIVERY},
		{"Reliable Reception", VIP_SERVICE_RELIABLE_RECEPTION}};
	Report report("crowd-order", {{"what", "what", ""},
				      {"rounds", "rounds", "count"},
				      {"disorder", "out of order", "count"},
				      {"percent", "of them", "percent"}});

	for (const auto &[name, level] : levels) {
		if (!(side.nic.attributes().ReliabilityLevelSupport & level))
			continue;
		for (const auto &[what, by_a] : tests) {
			const uint32_t rounds =
				by_a ? options.rounds
				     : (options.rounds + rounds_per_teardown - 1) /
					       rounds_per_teardown;
			Json point = {{"what", what}};

			if (is_stopped())
				return report;
			progress(std::string("order, ") + name + ", " + what);
			point.update(count_disorder(side, {level, by_a, rounds}));
			report.add(name, std::move(point));
		}
	}
	return report;
}
