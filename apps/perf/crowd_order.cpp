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

#include "end.h"

namespace
{
constexpr unsigned depth = 16;
constexpr unsigned before_end = 5; /* messages before a teardown; also the number of receives */
/* Fewer teardowns than rounds, because connecting takes time. */
constexpr unsigned rounds_per_teardown = 20;

/* Returns the end that the CQ names next. */
End &await_entry(SharedCq &cq, bool &is_receive)
{
	Patience patience;
	VIP_RETURN code;
	End *end = nullptr;

	while (code = cq.take(0, end, is_receive), code == VIP_NOT_DONE)
		patience.in_vain("a completion");
	check(code, "look at a completion queue");
	return *end;
}

void send_and_await(End &end, uint32_t number)
{
	end.send_number(number);
	end.collect_sends(0);
}

uint32_t receive(End &end)
{
	const uint32_t number = end.await_number();

	end.post_receive();
	return number;
}

/* The work of both sides, and the number of rounds. */
struct Plan {
	Level level;
	unsigned by_a; /* messages by A; 0: a teardown */
	uint32_t rounds;
};

MEMBERS_IN_JSON(Plan, level, by_a, rounds)

/* Returns the number of rounds that were out of order. */
uint64_t look_at_two(const Side &side, const Plan &plan)
{
	SharedCq cq(side.nic, 4 * depth);
	End ready(side.nic, numbers_shape(depth));
	End a(side.nic, numbers_shape(depth, plan.level), &cq), b(side.nic, numbers_shape(depth, plan.level), &cq);
	Address server = share_server_address(side);
	uint64_t disorder = 0;

	for (End *end : {&ready, &a, &b})
		connect_vi(side, end->vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		bool b_was_last = false;

		send_and_await(ready, round);
		for (unsigned i = 0; i < plan.by_a + 1; ++i) {
			bool is_receive;
			End &end = await_entry(cq, is_receive);
			const VIP_DESCRIPTOR *message = is_receive ? end.take(true) : nullptr;

			if (!message || end.number_in(message) != round)
				throw Failure("the completion queue names a message that is not there");
			end.post_receive();
			b_was_last = &end == &b;
		}
		disorder += !b_was_last;
	}
	side.control.meet(); /* the server's last send is done */
	return disorder;
}

void send_by_two(const Side &side, const Plan &plan)
{
	End ready(side.nic, numbers_shape(depth));
	End a(side.nic, numbers_shape(depth, plan.level)), b(side.nic, numbers_shape(depth, plan.level));
	Address server = share_server_address(side);

	for (End *end : {&ready, &a, &b})
		connect_vi(side, end->vi(), server);
	for (uint32_t i = 0; i < plan.rounds; ++i) {
		const uint32_t round = receive(ready);

		for (unsigned message = 0; message < plan.by_a; ++message)
			send_and_await(a, round);
		send_and_await(b, round);
	}
	side.control.meet(); /* the client has taken the last message */
}

/* Whether the CQ names a completed send after a flushed receive. */
bool ends_out_of_order(SharedCq &cq)
{
	bool is_flushed = false, is_out_of_order = false;

	for (unsigned i = 0; i < 2 * before_end; ++i) {
		bool is_receive;
		VIP_VI_HANDLE vi = await_entry(cq, is_receive).vi().handle();
		VIP_DESCRIPTOR *descriptor;
		const VIP_RETURN code = is_receive ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);

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
	SharedCq cq(side.nic, 4 * depth);
	End answers(side.nic, numbers_shape(depth));
	Address server = share_server_address(side);
	uint64_t disorder = 0;

	connect_vi(side, answers.vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		End end(side.nic, numbers_shape(before_end, plan.level), &cq);

		connect_vi(side, end.vi(), server);
		for (unsigned i = 0; i < before_end; ++i)
			end.send_number(round);
		receive(answers);
		check(VipDisconnect(end.vi().handle()), "disconnect");
		disorder += ends_out_of_order(cq);
	}
	side.control.meet();
	return disorder;
}

void see_torn_down(const Side &side, const Plan &plan)
{
	End answers(side.nic, numbers_shape(depth));
	std::unique_ptr<End> end;
	Address server = share_server_address(side);

	connect_vi(side, answers.vi(), server);
	for (uint32_t round = 0; round < plan.rounds; ++round) {
		end = std::make_unique<End>(side.nic, numbers_shape(before_end, plan.level));
		connect_vi(side, end->vi(), server);
		for (unsigned i = 0; i < before_end; ++i)
			end->await_number();
		send_and_await(answers, round);
	}
	side.control.meet();
}

Json count_disorder(const Side &side, const Plan &plan)
{
	uint64_t disorder;

	side.control.write({{"do", "order"}, {"plan", plan}});
	disorder = side.control.together(
		[&] { return plan.by_a ? look_at_two(side, plan) : tear_down(side, plan); });
	return {{"rounds", plan.rounds},
		{"disorder", disorder},
		{"percent", 100.0 * static_cast<double>(disorder) / plan.rounds}};
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
	static const std::pair<const char *, Level> levels[] = {{"Unreliable", Level::unreliable},
								{"Reliable Delivery", Level::delivery},
								{"Reliable Reception", Level::reception}};
	const uint32_t teardowns = (options.rounds + rounds_per_teardown - 1) / rounds_per_teardown;
	Report report("crowd-order", {{"what", "what", ""},
				      {"rounds", "rounds", "count"},
				      {"disorder", "out of order", "count"},
				      {"percent", "of them", "percent"}});

	for (const auto &[name, level] : levels) {
		if (!(side.nic.attributes().ReliabilityLevelSupport & level_of(level)))
			continue;
		for (const auto &[what, by_a] : tests) {
			Json point = {{"what", what}};

			if (is_stopped())
				return report;
			progress(std::string("order, ") + name + ", " + what);
			point.update(count_disorder(side, {level, by_a, by_a ? options.rounds : teardowns}));
			report.add(name, std::move(point));
		}
	}
	return report;
}
