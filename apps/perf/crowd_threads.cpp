// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf crowd --question threads - measures 1, 2, 4, ... threads of a process on one NIC. Each thread
 * has a VI with queues of its own and sends messages of eight bytes to the server. It has a few messages
 * under way and sends the next one when an answer comes. A rate is that of the answers.
 *
 * The server answers in one of three ways:
 *
 *	own queues		a thread for each VI, as in the client
 *	one CQ, one thread	for all queues of all VIs, as in servers of VIA's time with one loop
 *	one CQ, all threads	as many threads as VIs, each of which serves any queue that the CQ names
 */
#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <numeric>
#include <thread>

#include "end.h"
#include "run.h"

namespace
{
constexpr unsigned depth = 16, window = 8; /* receives, and messages without an answer */
constexpr unsigned most_vis = 4096;
/* The time grows with the number of threads: they share the CPUs, and each needs some turns. */
constexpr unsigned duration_ms = 500, duration_each_ms = 25;
constexpr VIP_ULONG wait_ms = 100; /* after it the thread looks whether the measurement is over */
constexpr uint32_t last = UINT32_MAX; /* the number of a VI's last message */

struct Plan {
	unsigned vis;
	unsigned collectors; /* threads on one CQ; 0: there is no CQ */
	Waiting waiting;
};

MEMBERS_IN_JSON(Plan, vis, collectors, waiting)

Shape shape_of(const Plan &plan)
{
	return numbers_shape(depth, Level::delivery, plan.waiting);
}

/* Returns the number of answers that came before the end. */
uint64_t converse(End &end, const std::atomic<bool> &is_over)
{
	unsigned under_way = 0;
	uint64_t count = 0;

	for (;;) {
		for (; under_way < window && !is_over; ++under_way)
			end.send_number(static_cast<uint32_t>(count));
		if (!under_way)
			break;
		end.await_number();
		end.post_receive();
		end.await(false);
		--under_way;
		count += !is_over;
	}
	end.send_number(last);
	end.await_number();
	end.await(false);
	return count;
}

/* Returns the messages per second of each thread. */
Samples rates_of(const Side &side, const Plan &plan)
{
	std::deque<End> ends;
	std::vector<std::future<uint64_t>> threads;
	std::atomic<bool> is_over = false;
	std::promise<void> start; /* destroyed first, which ends the threads that wait for it */
	const std::shared_future<void> started = start.get_future().share();
	Samples rates;

	for (unsigned i = 0; i < plan.vis; ++i)
		connect_vi(side, ends.emplace_back(side.nic, shape_of(plan)).vi());
	for (End &end : ends)
		threads.push_back(std::async(std::launch::async, [&is_over, &end, started] {
			started.get();
			return converse(end, is_over);
		}));
	side.control.meet();
	const double begun = now_us();
	start.set_value();
	std::this_thread::sleep_for(
		std::chrono::milliseconds(std::max(duration_ms, duration_each_ms * plan.vis)));
	is_over = true;
	const double seconds = (now_us() - begun) / 1e6;
	for (auto &thread : threads)
		rates.push_back(static_cast<double>(thread.get()) / seconds);
	side.control.meet(); /* no message of the other side is flushed */
	return rates;
}

/* An end of the server's, which several threads may serve. */
class Served : public End
{
public:
	using End::End;
	/* Answers messages until the VI's last one. */
	void answer_all(const std::atomic<bool> &is_over)
	{
		uint32_t number;

		do {
			number = await_number();
			post_receive();
			collect_sends(window - 1);
			send_number(number);
		} while (number != last && !is_over);
		collect_sends(0);
	}
	/*
	 * Serves a queue that the CQ names. Returns true when it has answered the last message. One thread at a time
	 * serves the VI. Another one leaves to it what the CQ has named meanwhile, and waits for nothing.
	 */
	bool serve(bool is_receive)
	{
		uint32_t now = is_receive ? a_receive : a_send;
		bool is_last = false;

		if (named_.fetch_add(now))
			return false;
		do {
			for (uint32_t i = 0; i < now / a_receive; ++i)
				is_last |= answer(true);
			for (uint32_t i = 0; i < now % a_receive; ++i)
				is_last |= answer(false);
		} while ((now = named_.fetch_sub(now) - now));
		return is_last;
	}

private:
	static constexpr uint32_t a_send = 1, a_receive = 0x10000;

	bool answer(bool is_receive)
	{
		const VIP_DESCRIPTOR *taken = take(is_receive);

		if (!taken)
			throw Failure("the completion queue names a queue in which nothing is done");
		if (is_receive) {
			owed_.push_back(number_in(taken));
			post_receive();
		}
		if (owed_.empty() || sends_under_way() == depth)
			return false;
		const uint32_t number = owed_.front();
		owed_.pop_front();
		send_number(number);
		return number == last;
	}

	std::atomic<uint32_t> named_ = 0; /* completions that the CQ has named, and that are not served */
	std::deque<uint32_t> owed_; /* answers that wait for a free send */
};

/* The ends that the server's threads serve, and how many have answered their last message. Its end ends the threads. */
struct Hall {
	Hall(const Side &side, const Plan &plan) : cq(side.nic, size_t{2} * depth * plan.vis)
	{
		SharedCq *const named = plan.collectors ? &cq : nullptr;

		for (unsigned i = 0; i < plan.vis; ++i)
			connect_vi(side, all.emplace_back(side.nic, shape_of(plan), named).vi());
	}
	~Hall()
	{
		is_over = true;
	}

	SharedCq cq;
	std::deque<Served> all;
	std::atomic<size_t> ended = 0;
	std::atomic<bool> is_over = false; /* also after a failure */
	std::vector<std::future<void>> threads; /* the last member, because they use the others */
};

/* The work of a thread that serves the CQ. */
void collect(Hall &hall, Waiting waiting)
try {
	Patience patience;

	while (hall.ended < hall.all.size() && !hall.is_over) {
		End *end;
		bool is_receive;
		const VIP_RETURN code = hall.cq.take(waiting == Waiting::block ? wait_ms : 0, end, is_receive);

		if (code == VIP_TIMEOUT) {
			patience.look_at_clock("a message");
		} else if (code == VIP_NOT_DONE) {
			patience.in_vain("a message");
		} else {
			check(code, "look at a completion queue");
			patience = Patience();
			hall.ended += static_cast<Served *>(end)->serve(is_receive);
		}
	}
} catch (...) {
	hall.is_over = true;
	throw;
}

Json count_messages(const Side &side, const Plan &plan)
{
	side.control.write({{"do", "threads"}, {"plan", plan}});
	const Samples rates = side.control.together([&] { return rates_of(side, plan); });
	const double least = minimum(rates), most = maximum(rates);

	return {{"threads", plan.vis},
		{"rate", std::accumulate(rates.begin(), rates.end(), 0.0)},
		{"rate_min", least},
		{"rate_max", most},
		{"fairness", most > 0 ? least / most : 0}};
}
} // namespace

void serve_threads(const Side &side, const Json &request)
{
	const Plan plan = request.at("plan").get<Plan>();

	expect_number("VIs", plan.vis, most_vis);
	expect_number("threads", plan.collectors ? plan.collectors : plan.vis, plan.vis);
	Hall hall(side, plan);

	for (unsigned i = 0; i < (plan.collectors ? plan.collectors : plan.vis); ++i)
		hall.threads.push_back(std::async(std::launch::async, [&, i] {
			if (plan.collectors)
				collect(hall, plan.waiting);
			else
				hall.all[i].answer_all(hall.is_over);
		}));
	side.control.meet();
	for (auto &thread : hall.threads)
		thread.get();
	side.control.meet();
}

void crowd_threads(const Side &side, unsigned most, Reports &reports)
{
	static const struct {
		const char *name;
		bool has_cq, has_all_threads;
	} servers[] = {{"own queues", false, true}, {"one CQ, one thread", true, false}, {"one CQ, all threads", true, true}};
	static const std::pair<const char *, Waiting> ways[] = {{", polling", Waiting::poll},
								{", blocking", Waiting::block}};
	Report &report = reports.add("crowd-threads", {{"threads", "threads", "count"},
						       {"rate", "messages, all", "1/s"},
						       {"rate_min", "slowest", "1/s"},
						       {"rate_max", "fastest", "1/s"},
						       {"fairness", "slowest / fastest", ""}});

	for (const auto &[way, waiting] : ways)
		for (const auto &server : servers)
			for (unsigned n = 1; n <= most; n *= 2) {
				const unsigned collectors = !server.has_cq ? 0 : server.has_all_threads ? n : 1;
				const std::string series = std::string(server.name) + way;

				progress(series + ", " + std::to_string(n) + " threads");
				report.add(series, count_messages(side, {n, collectors, waiting}));
			}
}
